"""Reads that the system refuses cost their record alone, and the error says which; short ones are completed."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import simplejpeg

from asyncloader import recordio
from tests.faults.conftest import Faulty, write_records

COUNT, BAD = 40, 17

PROGRAM = """
import asyncio, errno, os, sys, warnings
import asyncloader as al
from asyncloader import recordio
from asyncloader.errors import AsyncLoaderError, LoaderWarning, ReadError
from tests.faults.conftest import payload

path, size, offset = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
COUNT, BAD = 40, 17
WORKERS = (
    {"num_workers": 0},
    {"num_workers": 2},
    {"workers": "processes", "num_workers": 1},
)

def check(error):
    assert isinstance(error, ReadError), repr(error)
    assert (error.path, error.position, error.key, error.offset) == (path, BAD, BAD, offset), vars(error)
    for fact in (path, f"position {BAD}", f"key {BAD}", f"byte offset {offset}", "Input/output error"):
        assert fact in str(error), str(error)
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    assert type(first) is OSError and first.errno == errno.EIO, repr(first)

def fails(function, *arguments):
    try:
        function(*arguments)
    except ReadError as error:
        check(error)
    else:
        raise AssertionError("no error")
"""


def image_set(folder: Path) -> tuple[Path, list[int]]:
    path = folder / "spoiled.rec"
    with recordio.RecordWriter(path, folder / "spoiled.idx") as writer:
        for number in range(COUNT):
            picture = simplejpeg.encode_jpeg(np.full((50, 60, 3), 5 * number, np.uint8), quality=90)
            writer.write(recordio.pack(recordio.IRHeader(0, float(number), number, 0), picture))
    index = (folder / "spoiled.idx").read_text().splitlines()
    return path, [int(line.split("\t")[1]) for line in index]


@pytest.mark.parametrize("where", ["head", "payload"])
@pytest.mark.parametrize("size", [200, 3000, 300_000], ids=["short", "medium", "long"])
def test_a_read_that_fails_costs_its_record_alone(size: int, where: str, tmp_path: Path, faulty: Faulty) -> None:
    code = """
    others = [number for number in range(COUNT) if number != BAD]
    expected = [payload(number, size) for number in others]

    with recordio.RecordReader(path) as reader:
        fails(reader.read, BAD)
        assert [reader.read(number) for number in others] == expected
        fails(reader.read_many, range(COUNT))
        many = reader.read_many(range(COUNT), on_error="return")
        check(many.pop(BAD))
        assert [bytes(record) for record in many] == expected

    async def read_async():
        async with al.AsyncRecordReader(path) as reader:
            got = await asyncio.gather(*map(reader.read, range(COUNT)), return_exceptions=True)
            check(got.pop(BAD))
            assert got == expected
            in_order = aiter(reader)
            assert [await anext(in_order) for _ in range(BAD)] == expected[:BAD]
            try:
                await anext(in_order)
            except ReadError as error:
                check(error)
            assert [record async for record in in_order] == expected[BAD:]
    asyncio.run(read_async())

    batches = [[payload(number, size) for number in range(start, start + 5)] for start in range(0, COUNT, 5)]
    dataset = al.RecordDataset(path)
    for workers in WORKERS:
        with al.DataLoader(dataset, 5, collate_fn=list, **workers) as loader:
            got = iter(loader)
            assert [next(got) for _ in range(BAD // 5)] == batches[:BAD // 5]
            fails(next, got)
            assert list(got) == batches[BAD // 5 + 1:]
        with al.DataLoader(dataset, 5, collate_fn=list, on_error="skip", **workers) as loader:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert [record for batch in loader for record in batch] == expected
            assert [w.category for w in caught] == [LoaderWarning]
            assert all(fact in str(caught[0].message) for fact in (path, f"position {BAD}", f"byte offset {offset}"))
            assert loader.stats()["skipped"] == 1
    print("done")
    """
    path, offsets = write_records(tmp_path, COUNT, size)
    begin = offsets[BAD] if where == "head" else offsets[BAD] + 8 + size // 2
    out, err, status = faulty("eio", begin, begin + 1, PROGRAM + dedent(code), path, size, offsets[BAD])
    assert (err, out, status) == ("", "done\n", 0)


@pytest.mark.parametrize("transform", ["None", "lambda image: image + 1"])
def test_a_read_that_fails_costs_its_picture_alone(transform: str, tmp_path: Path, faulty: Faulty) -> None:
    code = f"""
    dataset = al.ImageRecordDataset(path, transform={transform})
    for workers in WORKERS:
        for on_error in ("raise", "skip"):
            with al.DataLoader(dataset, 5, on_error=on_error, **workers) as loader:
                got, labels = iter(loader), []
                warnings.simplefilter("ignore", LoaderWarning)
                if on_error == "raise":
                    labels += [int(label) for _ in range(BAD // 5) for label in next(got)[1]]
                    fails(next, got)
                    left_out = range(BAD // 5 * 5, BAD // 5 * 5 + 5)
                else:
                    left_out = [BAD]
                for images, numbers in got:
                    assert images.shape[1:] == (50, 60, 3)
                    plus = {int(transform != "None")}
                    assert (abs(images[:, 25, 30, 0] - 5.0 * numbers - plus) < 3).all()
                    labels += map(int, numbers)
                assert labels == [number for number in range(COUNT) if number not in left_out]
    print("done")
    """
    path, offsets = image_set(tmp_path)
    begin = offsets[BAD] + 100
    out, err, status = faulty("eio", begin, begin + 1, PROGRAM + dedent(code), path, 0, offsets[BAD])
    assert (err, out, status) == ("", "done\n", 0)


def test_a_read_that_fails_while_a_file_is_opened_is_named(tmp_path: Path, faulty: Faulty) -> None:
    code = """
    for function in (recordio.RecordReader, al.RecordDataset, al.ImageRecordDataset):
        try:
            function(path)
        except ReadError as error:
            assert sys.argv[4] in str(error) and "Input/output error" in str(error), error
            assert error.path == sys.argv[4]
            assert isinstance(error.__cause__, OSError)
        else:
            raise AssertionError("no error")
    print("done")
    """
    path, offsets = write_records(tmp_path, COUNT, 200)
    index = path.with_suffix(".idx")
    run = PROGRAM + dedent(code)
    # The index, which is the shorter file, and then the records, of which an index has to be built.
    assert faulty("eio", 0, 1, run, path, 0, 0, index) == ("done\n", "", 0)
    index.unlink()
    assert faulty("eio", offsets[BAD], offsets[BAD] + 1, run, path, 0, 0, path) == ("done\n", "", 0)


@pytest.mark.parametrize("size", [200, 3000, 300_000], ids=["short", "medium", "long"])
def test_reads_that_come_out_short_are_completed(size: int, tmp_path: Path, faulty: Faulty) -> None:
    code = """
    descriptor = os.open(path, os.O_RDONLY)
    assert len(os.pread(descriptor, 100, 0)) == 50  # so it is for everybody here

    expected = [payload(number, size) for number in range(COUNT)]
    with recordio.RecordReader(path) as reader:
        assert [reader.read(number) for number in range(COUNT)] == expected
        assert [bytes(record) for record in reader.read_many(range(COUNT))] == expected

    async def read_async():
        async with al.AsyncRecordReader(path) as reader:
            assert [record async for record in reader] == expected
    asyncio.run(read_async())

    for workers in WORKERS:
        with al.DataLoader(al.RecordDataset(path), 5, collate_fn=list, **workers) as loader:
            assert [record for batch in loader for record in batch] == expected
    os.unlink(path[:-3] + "idx")
    with recordio.RecordReader(path) as reader:  # with the index that is built by reading all heads
        assert list(map(reader.read, range(COUNT))) == expected
    print("done")
    """
    path, _ = write_records(tmp_path, COUNT, size)
    out, err, status = faulty("short", 0, 1 << 40, PROGRAM + dedent(code), path, size, 0)
    assert (err, out, status) == ("", "done\n", 0)


def test_pictures_whose_reads_come_out_short_are_whole(tmp_path: Path, faulty: Faulty) -> None:
    code = """
    for transform in (None, lambda image: image):
        for workers in WORKERS:
            with al.DataLoader(al.ImageRecordDataset(path, transform=transform), 5, **workers) as loader:
                labels = []
                for images, numbers in loader:
                    assert (abs(images[:, 25, 30, 0] - 5.0 * numbers) < 3).all()
                    labels += map(int, numbers)
                assert labels == list(range(COUNT))
    print("done")
    """
    path, _ = image_set(tmp_path)
    out, err, status = faulty("short", 0, 1 << 40, PROGRAM + dedent(code), path, 0, 0)
    assert (err, out, status) == ("", "done\n", 0)
