"""Framing: records to bytes and back."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncloader.errors import CorruptRecordError
from asyncloader.recordio.frames import MAGIC_BYTES, MAX_PART, decode, encode

# From the format's description.
TABLE = [
    (b"", "0a23d7ce 00000000"),
    (b"abc", "0a23d7ce 03000000 61626300"),
    (MAGIC_BYTES, "0a23d7ce 00000020 0a23d7ce 00000060"),
    (MAGIC_BYTES + b"xy", "0a23d7ce 00000020 0a23d7ce 02000060 78790000"),
    (MAGIC_BYTES * 2, "0a23d7ce 00000020 0a23d7ce 00000040 0a23d7ce 00000060"),
    (b"abcd" + MAGIC_BYTES + b"efgh", "0a23d7ce 04000020 61626364 0a23d7ce 04000060 65666768"),
    (b"a" + MAGIC_BYTES + b"bcd", "0a23d7ce 08000000 610a23d7 ce626364"),
]

#: Payloads in which the magic number is frequent, aligned and not.
payloads = st.lists(st.sampled_from([MAGIC_BYTES, b"", b"a", b"bc", b"\x0a\x23", b"defg"]) | st.binary(max_size=9)).map(
    b"".join
)


@pytest.mark.parametrize(("payload", "on_disk"), TABLE)
def test_the_formats_examples(payload, on_disk):
    assert encode(payload) == bytes.fromhex(on_disk)
    assert decode(bytes.fromhex(on_disk)) == (payload, len(bytes.fromhex(on_disk)))


@given(st.lists(payloads, max_size=8))
def test_records_come_back_one_after_another(records):
    data = b"".join(map(encode, records))
    offset = 0
    for record in records:
        payload, offset = decode(data, offset)
        assert payload == record
    assert offset == len(data)


@given(payloads, st.sampled_from([bytes, bytearray, memoryview]))
def test_any_buffer_is_encoded_to_parts_that_are_aligned_and_hold_no_aligned_magic_number(payload, kind):
    data = encode(kind(payload))
    offset = 0
    while offset < len(data):
        magic, word = struct.unpack_from("<II", data, offset)
        assert magic == 0xCED7230A
        body = data[offset + 8 : offset + 8 + (word & MAX_PART)]
        assert all(body[i : i + 4] != MAGIC_BYTES for i in range(0, len(body), 4))
        offset += 8 + len(body) + -len(body) % 4
    assert offset == len(data)


def test_a_record_too_long_for_the_format_is_refused():
    class Long(bytes):
        def __len__(self) -> int:
            return MAX_PART + 1

    with pytest.raises(ValueError, match="512 MiB"):
        encode(Long())


@given(payloads)
def test_a_record_cut_off_anywhere_is_an_error_with_an_offset_inside_it(payload):
    data = encode(payload)
    for size in range(len(data)):
        with pytest.raises(CorruptRecordError) as caught:
            decode(data[:size])
        assert caught.value.offset is not None
        assert 0 <= caught.value.offset <= size


@given(
    st.binary(max_size=64)
    | st.lists(st.sampled_from([MAGIC_BYTES, bytes(4), b"\0\0\0\x20", b"\xff" * 4])).map(b"".join)
)
def test_arbitrary_bytes_give_a_record_within_them_or_our_error(data):
    try:
        payload, end = decode(data)
    except CorruptRecordError:
        return
    assert len(payload) + 8 <= end <= len(data)


@pytest.mark.parametrize(
    ("on_disk", "reason"),
    [
        ("0a23d7cf 03000000 61626300", "magic number"),
        ("0a23d7ce ffffff1f 61626300", "claims 536870911 bytes"),
        ("0a23d7ce 03000040 61626300", "no record begins here"),
        ("0a23d7ce 03000060 61626300", "no record begins here"),
        ("0a23d7ce 03000080 61626300", "kind 4"),
        ("0a23d7ce 03000020 61626300 0a23d7ce 03000000 61626300", "later parts are missing"),
        ("0a23d7ce 03000020 61626300", "next part"),
    ],
)
def test_damage_is_named(on_disk, reason):
    with pytest.raises(CorruptRecordError, match=reason):
        decode(bytes.fromhex(on_disk))
