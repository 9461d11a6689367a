"""Scanning a file for records, damaged or not."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncloader.errors import CorruptRecordError
from asyncloader.recordio import scan as scan_module
from asyncloader.recordio.frames import MAGIC_BYTES, decode, encode
from asyncloader.recordio.scan import Found, scan, scan_offsets

pieces = st.sampled_from([MAGIC_BYTES, b"", b"a", b"bc", b"defg", bytes(40)]) | st.binary(max_size=30)
records = st.lists(st.lists(pieces, max_size=6).map(b"".join), max_size=12)


class Bytes:
    """Bytes as a source that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.bytes_read = 0

    def read(self, offset: int, size: int) -> bytes:
        assert offset >= 0
        assert offset + size <= self.size
        self.bytes_read += size
        return self.data[offset : offset + size]


@pytest.fixture(params=[1 << 20, 48])
def chunk(request, monkeypatch):
    """Run with the real chunk, and with one so small that records and heads lie across its ends."""
    monkeypatch.setattr(scan_module, "_CHUNK", request.param)


def _extents(found: list[Found]) -> list[tuple[int, int]]:
    return [pair for step in found for pair in zip(step.offsets.tolist(), step.ends.tolist(), strict=True)]


def _in_file_order(found: list[Found]) -> list[tuple[int, int]]:
    return sorted(_extents(found) + [(d.offset, d.end) for step in found for d in step.damages])


@pytest.mark.usefixtures("chunk")
class TestWholeFiles:
    @settings(deadline=None)
    @given(records)
    def test_all_records_are_found(self, payloads):
        data = b"".join(map(encode, payloads))
        found = list(scan(Bytes(data)))
        assert not any(step.damages for step in found)
        assert [decode(data, begin) for begin, _ in _extents(found)] == [
            (payload, end) for payload, (_, end) in zip(payloads, _extents(found), strict=True)
        ]
        assert scan_offsets(Bytes(data), "x").tolist() == [begin for begin, _ in _extents(found)]

    def test_long_records_and_records_of_many_parts_are_found(self):
        payloads = [bytes(5000), MAGIC_BYTES * 700, b"x", (b"abcd" * 30 + MAGIC_BYTES) * 40, b""]
        data = b"".join(map(encode, payloads))
        assert [decode(data, begin)[0] for begin, _ in _extents(list(scan(Bytes(data))))] == payloads

    def test_a_payload_that_another_writer_did_not_split_is_one_record(self):
        whole = struct.pack("<4sI", MAGIC_BYTES, 12) + b"abcd" + MAGIC_BYTES + b"efgh"
        data = encode(b"one") + whole + encode(b"two")
        assert [decode(data, begin)[0] for begin, _ in _extents(list(scan(Bytes(data))))] == [b"one", whole[8:], b"two"]


@pytest.mark.usefixtures("chunk")
class TestDamagedFiles:
    @settings(deadline=None)
    @given(records, st.data())
    def test_a_file_is_covered_by_records_and_damages_without_a_gap(self, payloads, data):
        content = bytearray(b"".join(map(encode, payloads)))
        for _ in range(data.draw(st.integers(0, 3))):
            if content:
                content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        content = content[: data.draw(st.integers(0, len(content)))]
        stretches = _in_file_order(list(scan(Bytes(bytes(content)))))
        assert [begin for begin, _ in stretches] == [0, *(end for _, end in stretches)][: len(stretches)]
        assert not content or stretches[-1][1] == len(content)
        assert all(begin < end for begin, end in stretches)

    @settings(deadline=None)
    @given(st.binary(max_size=300) | st.lists(pieces | st.just(b"\0\0\0\x20")).map(b"".join))
    def test_arbitrary_bytes_raise_nothing_and_what_is_found_decodes(self, data):
        for begin, end in _extents(list(scan(Bytes(data)))):
            assert decode(data, begin)[1] == end

    @pytest.mark.parametrize("victim", range(6))
    @pytest.mark.parametrize("what", ["magic", "length", "kind", "huge"])
    def test_damage_to_one_head_loses_one_record(self, victim, what):
        payloads = [bytes([65 + i]) * (20 + 3 * i) for i in range(6)]
        offsets = [0, *itertools.accumulate(len(encode(p)) for p in payloads)]
        content = bytearray(b"".join(map(encode, payloads)))
        word = struct.unpack_from("<I", content, offsets[victim] + 4)[0]
        if what == "magic":
            content[offsets[victim]] ^= 0xFF
        else:
            new = {"length": word + 40, "kind": word | 3 << 29, "huge": (1 << 29) - 1}[what]
            struct.pack_into("<I", content, offsets[victim] + 4, new)
        found = list(scan(Bytes(bytes(content))))
        saved = [decode(content, begin)[0] for begin, _ in _extents(found)]
        assert saved == [payload for number, payload in enumerate(payloads) if number != victim]
        assert [d.offset for step in found for d in step.damages] == [offsets[victim]]

    def test_records_behind_bytes_that_were_lost_are_found_at_odd_offsets(self):
        payloads = [b"first", b"second" * 9, b"third", b"fourth" * 5]
        content = b"".join(map(encode, payloads))
        cut = len(encode(payloads[0])) + 20
        content = content[:cut] + content[cut + 7 :]
        saved = [decode(content, begin)[0] for begin, _ in _extents(list(scan(Bytes(content))))]
        assert saved == [payloads[0], *payloads[2:]]

    def test_a_record_whose_last_part_is_missing_is_lost_alone(self):
        split = encode(b"abcd" + MAGIC_BYTES + b"efgh")
        content = encode(b"one") + split[:12] + encode(b"two")
        found = list(scan(Bytes(content)))
        assert [decode(content, begin)[0] for begin, _ in _extents(found)] == [b"one", b"two"]
        assert [(d.offset, d.end) for step in found for d in step.damages] == [(12, 24)]

    def test_building_offsets_stops_at_the_first_damage_and_says_where(self):
        content = encode(b"one") + encode(b"two") + bytes(12) + encode(b"three")
        with pytest.raises(CorruptRecordError, match=r"after 2 whole records.*byte offset 24") as caught:
            scan_offsets(Bytes(content), "/set.rec")
        assert (caught.value.path, caught.value.offset, caught.value.position) == ("/set.rec", 24, 2)

    @pytest.mark.parametrize("size", range(60))
    def test_a_file_cut_off_anywhere_keeps_the_records_before(self, size):
        payloads = [b"abc", b"abcd" + MAGIC_BYTES + b"e", b""]
        whole = b"".join(map(encode, payloads))
        ends = list(itertools.accumulate(len(encode(p)) for p in payloads))
        size = min(size, len(whole))
        found = list(scan(Bytes(whole[:size])))
        assert [end for _, end in _extents(found)] == [end for end in ends if end <= size]
        assert any(step.damages for step in found) == (size not in (0, *ends))


@pytest.mark.parametrize(
    "content",
    [
        MAGIC_BYTES * 50_000,
        (MAGIC_BYTES + struct.pack("<I", 190_000)) * 20_000,
        (MAGIC_BYTES + b"\0\0\0\x40") * 20_000,
        b"\x0a" + (MAGIC_BYTES + b"\x10\0\0\0" + b"a") * 20_000,
        bytes(200_000),
        np.random.default_rng(0).bytes(200_000),
    ],
    ids=["magic", "nested", "middles", "odd", "zeros", "noise"],
)
def test_reading_hostile_bytes_is_linear(content, monkeypatch):
    monkeypatch.setattr(scan_module, "_CHUNK", 4096)
    read = []
    for size in (len(content) // 4, len(content)):
        source = Bytes(content[:size])
        list(scan(source))
        read.append(source.bytes_read)
    # Four times the bytes may cost little more than four times the reading.
    assert read[1] <= 5 * read[0] + 20 * 4096


def test_progress_is_told_in_bytes():
    content = b"".join(map(encode, [bytes(1000)] * 5000))
    told: list[int] = []
    scan_offsets(Bytes(content), "x", told.append)
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1] == len(content)
