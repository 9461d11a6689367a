"""Reading records by position."""

from __future__ import annotations

import os
import pickle
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncloader.errors import (
    AsyncLoaderError,
    CorruptRecordError,
    FileChangedError,
    IndexFileError,
    MissingFileError,
    ReadError,
)
from asyncloader.recordio import RecordIndex, RecordReader, RecordWriter
from asyncloader.recordio.frames import MAGIC_BYTES, encode


def _payloads(count: int = 60) -> list[bytes]:
    """Short, long, empty and split records, and some that are read only when their heads were seen."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 3000, count)
    records = [rng.bytes(int(size)) for size in sizes]
    records[3] = b""
    records[7] = MAGIC_BYTES + b"xy" + MAGIC_BYTES * 2
    records[11] = rng.bytes(400_000)
    records[12] = rng.bytes(4) + MAGIC_BYTES + rng.bytes(300_000)
    return records


PAYLOADS = _payloads()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "set.rec"
    with RecordWriter(path, path.with_suffix(".idx")) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    return path


positions = st.lists(st.integers(0, len(PAYLOADS) - 1), max_size=80)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> RecordReader:
    path = tmp_path_factory.mktemp("shared") / "set.rec"
    with RecordWriter(path, path.with_suffix(".idx")) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    return RecordReader(path)


class TestWholeFiles:
    def test_one_by_one(self, shared):
        assert [shared.read(position) for position in range(len(shared))] == PAYLOADS

    @given(positions)
    def test_many_come_in_the_order_asked(self, shared, wanted):
        assert [bytes(p) for p in shared.read_many(np.array(wanted, np.int64))] == [PAYLOADS[p] for p in wanted]

    @given(positions)
    def test_copies_are_byte_strings(self, shared, wanted):
        assert shared.read_many(wanted, copy=True) == [PAYLOADS[p] for p in wanted]

    @given(positions)
    def test_one_by_one_as_they_are_cut_out(self, shared, wanted):
        assert [bytes(p) for p in shared.iter_many(wanted)] == [PAYLOADS[p] for p in wanted]

    @pytest.mark.parametrize("position", [-1, len(PAYLOADS), 2**40, -(2**40)])
    def test_a_position_that_is_not_there_is_an_index_error(self, shared, position):
        for ask in (shared.read, shared.locate, lambda p: shared.read_many([0, p])):
            with pytest.raises(IndexError, match=f"no record at position {position}.*there are 60"):
                ask(position)

    def test_announcing_records_changes_nothing(self, shared):
        shared.advise([])
        shared.advise([5, 11, 3])
        assert shared.read(11) == PAYLOADS[11]

    def test_without_an_index_one_is_built(self, path):
        path.with_suffix(".idx").unlink()
        with RecordReader(path) as reader:
            assert [reader.read(position) for position in range(len(reader))] == PAYLOADS
            assert list(reader.index.keys) == list(range(len(PAYLOADS)))

    def test_an_empty_file_is_a_set_of_no_records(self, tmp_path):
        (tmp_path / "empty.rec").write_bytes(b"")
        (tmp_path / "indexed.rec").write_bytes(b"")
        (tmp_path / "indexed.idx").write_bytes(b"")
        for name in ("empty.rec", "indexed.rec"):
            with RecordReader(tmp_path / name) as reader:
                assert len(reader) == 0
                assert reader.read_many([]) == []
                with pytest.raises(IndexError):
                    reader.read(0)

    def test_lines_in_any_order_with_any_keys(self, path):
        with RecordReader(path) as reader:
            offsets = reader.index.offsets.tolist()
        order = np.random.default_rng(1).permutation(len(offsets)).tolist()
        path.with_suffix(".idx").write_text("".join(f"{7 * p - 100}\t{offsets[p]}\n" for p in order))
        with RecordReader(path) as reader:
            assert [bytes(p) for p in reader.read_many(np.arange(len(order)))] == [PAYLOADS[p] for p in order]
            assert reader.locate(4) == (7 * order[4] - 100, offsets[order[4]])

    def test_records_that_the_index_does_not_name_do_not_disturb(self, path):
        lines = path.with_suffix(".idx").read_text().splitlines(keepends=True)
        path.with_suffix(".idx").write_text("".join(lines[::9]))
        with RecordReader(path) as reader:
            assert [bytes(p) for p in reader.read_many(np.arange(len(reader)))] == PAYLOADS[::9]
            assert [reader.read(p) for p in range(len(reader))] == PAYLOADS[::9]

    def test_string_keys(self, path):
        lines = path.with_suffix(".idx").read_text().splitlines(keepends=True)
        path.with_suffix(".idx").write_text("".join(f"pic/{line}" for line in lines))
        with RecordReader(path) as reader:
            assert reader.locate(5)[0] == "pic/5"
            assert reader.read(reader.index.position_of("pic/5")) == PAYLOADS[5]


class TestThreads:
    def test_64_threads_get_every_byte_right(self, shared):
        wrong: list[int] = []
        deadline = time.monotonic() + 2

        def read(seed: int) -> None:
            rng = np.random.default_rng(seed)
            while time.monotonic() < deadline:
                wanted = rng.integers(0, len(PAYLOADS), 16).tolist()
                got = shared.read_many(wanted)
                wrong.extend(p for p, payload in zip(wanted, got, strict=True) if payload != PAYLOADS[p])
                if shared.read(wanted[0]) != PAYLOADS[wanted[0]]:
                    wrong.append(wanted[0])

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


class TestPickling:
    def test_the_paths_travel_and_the_index_is_loaded_again(self, path):
        with RecordReader(path) as reader:
            data = pickle.dumps(reader)
        with pickle.loads(data) as again:
            assert len(data) < 1000
            assert [again.read(p) for p in range(len(again))] == PAYLOADS
            assert again.path == str(path)
            assert pickle.loads(pickle.dumps(again)).read(1) == PAYLOADS[1]

    @pytest.mark.parametrize("how", ["built", "given", "deleted"])
    def test_an_index_that_no_file_holds_travels(self, path, how):
        beside = path.with_suffix(".idx")
        if how == "deleted":
            reader = RecordReader(path)
            beside.unlink()
        else:
            beside.unlink()
            reader = RecordReader(path)
            if how == "given":
                reader = RecordReader(
                    path, index=RecordIndex(np.array([5, 6]), reader.index.offsets[:2], path.stat().st_size)
                )
        with reader, pickle.loads(pickle.dumps(reader)) as again:
            assert list(again.index.keys) == list(reader.index.keys)
            assert again.read(1) == PAYLOADS[1]

    @pytest.mark.parametrize("suffix", [".rec", ".idx"])
    def test_a_change_of_either_file_is_found_out(self, path, suffix):
        with RecordReader(path) as reader:
            data = pickle.dumps(reader)
        os.utime(path.with_suffix(suffix), ns=(1, 1))
        with pytest.raises(FileChangedError, match=suffix):
            pickle.loads(data)


class TestOpening:
    def test_a_missing_file(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(MissingFileError) as caught:
            RecordReader("none.rec")
        assert str(tmp_path / "none.rec") in str(caught.value)

    def test_a_missing_index_that_was_named(self, path):
        with pytest.raises(MissingFileError, match=r"other\.idx"):
            RecordReader(path, path.with_name("other.idx"))

    def test_a_directory(self, tmp_path):
        with pytest.raises(MissingFileError, match="directory"):
            RecordReader(tmp_path)

    def test_an_index_of_a_longer_file(self, path):
        os.truncate(path, 50_000)
        with pytest.raises(IndexFileError, match="past the last record"):
            RecordReader(path)

    def test_an_index_that_names_nothing(self, path):
        path.with_suffix(".idx").write_text("\n")
        with pytest.raises(IndexFileError, match="names no record"):
            RecordReader(path)

    def test_no_index_and_a_damaged_file(self, path):
        path.with_suffix(".idx").unlink()
        with path.open("r+b") as file:
            file.write(b"x")
        with pytest.raises(CorruptRecordError, match="byte offset 0"):
            RecordReader(path)


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


DAMAGES = {
    "magic": lambda head: b"\0\0\0\0" + head[4:],
    "past the end": lambda head: head[:4] + struct.pack("<I", (1 << 29) - 1),
    "middle part": lambda head: head[:4] + struct.pack("<I", struct.unpack("<I", head[4:])[0] | 2 << 29),
    "last part": lambda head: head[:4] + struct.pack("<I", struct.unpack("<I", head[4:])[0] | 3 << 29),
    "no such kind": lambda head: head[:4] + struct.pack("<I", struct.unpack("<I", head[4:])[0] | 7 << 29),
    "part that is not there": lambda head: head[:4] + struct.pack("<I", struct.unpack("<I", head[4:])[0] | 1 << 29),
}


class TestDamage:
    @pytest.mark.parametrize("damage", DAMAGES)
    @pytest.mark.parametrize("victim", [5, 11, 13, len(PAYLOADS) - 1])
    def test_one_record_is_lost_and_named(self, path, damage, victim):
        with RecordReader(path) as reader:
            offset = int(reader.index.offsets[victim])
            head = path.read_bytes()[offset : offset + 8]
            _overwrite(path, offset, DAMAGES[damage](head))
            got = reader.read_many(np.arange(len(reader)), on_error="return")
            for position, payload in enumerate(got):
                if position != victim:
                    assert payload == PAYLOADS[position]
            error = got[victim]
            assert isinstance(error, CorruptRecordError)
            assert (error.path, error.position, error.key, error.offset) == (str(path), victim, victim, offset)
            for expected in (str(path), f"position {victim}", f"key {victim}", f"byte offset {offset}", "asyncloader"):
                assert expected in str(error)
            with pytest.raises(CorruptRecordError):
                reader.read(victim)
            with pytest.raises(CorruptRecordError):
                reader.read_many([0, victim])
            with pytest.raises(CorruptRecordError):
                list(reader.iter_many([0, victim], on_error="raise"))

    def test_a_record_longer_than_the_index_allows_is_read_as_its_head_says(self, path):
        lines = path.with_suffix(".idx").read_text().splitlines()
        offset = int(lines[5].split("\t")[1])
        path.with_suffix(".idx").write_text("\n".join([*lines, f"99\t{offset + 8}"]))
        with RecordReader(path) as reader:
            assert reader.read(5) == PAYLOADS[5]
            assert bytes(reader.read_many([5])[0]) == PAYLOADS[5]
            with pytest.raises(CorruptRecordError, match="key 99"):
                reader.read(60)

    @pytest.mark.parametrize("asked", [slice(0, 60), slice(20, 60), slice(13, 40)])
    def test_a_file_cut_short_while_it_is_read_gives_the_records_before(self, path, asked):
        with RecordReader(path) as reader:
            cut = int(reader.index.offsets[40]) + 10
            os.truncate(path, cut)
            wanted = np.arange(60)[asked]
            for position, payload in zip(wanted, reader.read_many(wanted, on_error="return"), strict=True):
                if position < 40:
                    assert payload == PAYLOADS[position]
                else:
                    assert isinstance(payload, ReadError)
                    assert payload.path == str(path)
                    assert payload.position == position
            with pytest.raises(ReadError, match="cut short"):
                reader.read(45)

    def test_a_huge_length_allocates_nothing(self, path):
        import tracemalloc

        with RecordReader(path) as reader:
            _overwrite(path, int(reader.index.offsets[5]) + 4, struct.pack("<I", (1 << 29) - 1))
            tracemalloc.start()
            try:
                for _ in range(3):
                    assert isinstance(reader.read_many([5], on_error="return")[0], CorruptRecordError)
                assert tracemalloc.get_traced_memory()[1] < 1_000_000
            finally:
                tracemalloc.stop()

    @settings(deadline=None, max_examples=60)
    @given(
        st.lists(st.binary(max_size=40) | st.just(MAGIC_BYTES + b"a" + MAGIC_BYTES), min_size=1, max_size=6), st.data()
    )
    def test_any_change_of_any_byte_gives_records_or_our_errors(self, tmp_path_factory, payloads, data):
        path = tmp_path_factory.mktemp("damaged") / "set.rec"
        content = bytearray(b"".join(map(encode, payloads)))
        offsets = np.cumsum([0, *(len(encode(payload)) for payload in payloads)])[:-1]
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        with RecordReader(path, index=RecordIndex(None, offsets, len(content))) as reader:
            many = reader.read_many(np.arange(len(reader)), on_error="return")
            for position, payload in enumerate(many):
                assert isinstance(payload, (bytes, memoryview, AsyncLoaderError))
                try:
                    alone: object = reader.read(position)
                except AsyncLoaderError as error:
                    alone = str(error)
                assert alone == (str(payload) if isinstance(payload, Exception) else bytes(payload))
