"""Writing record files, from plain code and from coroutines."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncloader.errors import LoaderClosedError, MissingFileError
from asyncloader.recordio import AsyncRecordWriter, RecordReader, RecordWriter
from asyncloader.recordio.frames import MAGIC_BYTES

payloads = st.lists(st.binary(max_size=50) | st.just(MAGIC_BYTES * 3), max_size=10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "set.rec"


def _read_all(path: Path) -> list[bytes]:
    with RecordReader(path) as reader:
        return [reader.read(position) for position in range(len(reader))]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payloads, st.booleans())
def test_what_is_written_is_read(tmp_path, written, indexed):
    path = tmp_path / ("indexed.rec" if indexed else "bare.rec")
    with RecordWriter(path, path.with_suffix(".idx") if indexed else None) as writer:
        offsets = [writer.write(payload) for payload in written]
        assert len(writer) == len(written)
    assert _read_all(path) == written
    with RecordReader(path) as reader:
        assert reader.index.offsets.tolist() == offsets


def test_keys_are_kept(path):
    with RecordWriter(path, path.with_suffix(".idx")) as writer:
        for key in (7, -1, 3):
            assert writer.tell() == writer.write(b"x", key)
    assert path.with_suffix(".idx").read_bytes() == b"7\t0\n-1\t12\n3\t24\n"


@pytest.mark.parametrize("key", ["", "a\tb", "a\nb", " a", "a\r"])
def test_a_key_that_could_not_be_read_back_is_refused_and_nothing_is_written(path, key):
    with RecordWriter(path, path.with_suffix(".idx")) as writer:
        with pytest.raises(ValueError, match="cannot stand in an index"):
            writer.write(b"x", key)
        writer.write(b"y")
    assert _read_all(path) == [b"y"]


def test_an_exception_leaves_the_old_files_as_they_were(path):
    for content in (b"old", b"new"):
        try:
            with RecordWriter(path, path.with_suffix(".idx")) as writer:
                writer.write(content)
                if content == b"new":
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
    assert _read_all(path) == [b"old"]
    assert sorted(os.listdir(path.parent)) == ["set.idx", "set.rec"]


def test_an_index_that_cannot_be_written_leaves_nothing_behind(path):
    with pytest.raises(MissingFileError):
        RecordWriter(path, path.parent / "none" / "set.idx")
    assert os.listdir(path.parent) == []


async def test_coroutines_write_the_same_files(path, tmp_path):
    written = [bytes([number % 256]) * (number * 37 % 9000) for number in range(1000)]
    async with AsyncRecordWriter(path, path.with_suffix(".idx"), sync=True) as writer:
        offsets = await asyncio.gather(*(writer.write(payload) for payload in written))
        assert len(writer) == len(written)
        assert not path.exists()
    with RecordWriter(tmp_path / "plain.rec", tmp_path / "plain.idx") as plain:
        assert [plain.write(payload) for payload in written] == offsets
    assert path.read_bytes() == (tmp_path / "plain.rec").read_bytes()
    assert path.with_suffix(".idx").read_bytes() == (tmp_path / "plain.idx").read_bytes()


async def test_a_coroutine_that_is_cancelled_while_it_writes_disturbs_no_other(path):
    async with AsyncRecordWriter(path) as writer:
        big = bytes(3 << 20)
        for number in range(6):
            task = asyncio.ensure_future(writer.write(big))
            await asyncio.sleep(0)
            task.cancel()
            await writer.write(b"%d" % number)
    records = _read_all(path)
    assert records == [record for number in range(6) for record in (big, b"%d" % number)]


async def test_an_exception_among_coroutines_leaves_the_old_files(path):
    async with AsyncRecordWriter(path) as writer:
        await writer.write(b"old")

    async def write_half() -> None:
        async with AsyncRecordWriter(path) as writer:
            await writer.write(bytes(2 << 20))
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        await write_half()
    assert _read_all(path) == [b"old"]
    assert os.listdir(path.parent) == ["set.rec"]


@pytest.mark.posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
async def test_a_full_disk_is_told_to_a_coroutine_and_leaves_the_old_file(path):
    path.write_bytes(b"")

    async def write_much() -> None:
        async with AsyncRecordWriter(path) as writer:
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, writer._records._file.descriptor)
            os.close(full)
            await writer.write(bytes(2 << 20))

    with pytest.raises(OSError, match="No space"):
        await write_much()
    assert path.read_bytes() == b""
    assert os.listdir(path.parent) == ["set.rec"]


async def test_a_writer_that_is_not_open_says_so(path):
    writer = AsyncRecordWriter(path)
    with pytest.raises(LoaderClosedError):
        await writer.write(b"x")
    async with writer:
        pass
    with pytest.raises(LoaderClosedError):
        writer.tell()
    assert path.read_bytes() == b""


async def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(MissingFileError, match="make it first"):
        async with AsyncRecordWriter(tmp_path / "none" / "set.rec"):
            pass
    with pytest.raises(MissingFileError, match="make it first"):
        async with AsyncRecordWriter(tmp_path / "set.rec", tmp_path / "none" / "set.idx"):
            pass
    assert os.listdir(tmp_path) == []
