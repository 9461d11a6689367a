"""AsyncRecordReader: records for coroutines."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import asyncloader as al
from asyncloader import recordio
from asyncloader.errors import CorruptRecordError, LoaderClosedError, MissingFileError

PAYLOADS = [bytes([number % 251]) * (number * 37 % 5000) for number in range(300)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Records whose index lines are not in file order."""
    path = tmp_path / "set.rec"
    with recordio.RecordWriter(path, tmp_path / "set.idx") as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    lines = (tmp_path / "set.idx").read_text().splitlines()
    random.Random(1).shuffle(lines)
    (tmp_path / "set.idx").write_text("\n".join(lines) + "\n")
    return path


async def test_a_position_is_a_line_of_the_index(path: Path, no_leaks: object) -> None:
    async with al.AsyncRecordReader(path) as reader:
        keys = [int(line.split("\t")[0]) for line in path.with_suffix(".idx").read_text().splitlines()]
        assert len(reader) == len(PAYLOADS)
        assert list(reader.keys) == keys
        assert [await reader.read(position) for position in range(0, 300, 7)] == [PAYLOADS[k] for k in keys[::7]]
        assert await reader.read_many([5, 5, 200, 0]) == [PAYLOADS[keys[p]] for p in (5, 5, 200, 0)]
        assert await reader.read_many([]) == []


async def test_iterating_goes_in_file_order_whatever_the_index(path: Path) -> None:
    async with al.AsyncRecordReader(path) as reader:
        assert [record async for record in reader] == PAYLOADS
        async for record in reader:  # again, and left in the middle
            assert record == PAYLOADS[0]
            break


async def test_any_number_of_coroutines_read_at_once(path: Path, no_leaks: object) -> None:
    async with al.AsyncRecordReader(path, max_threads=4) as reader:
        keys = list(reader.keys)

        async def read(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(20):
                positions = [chance.randrange(300) for _ in range(chance.randrange(1, 9))]
                assert await reader.read_many(positions) == [PAYLOADS[keys[p]] for p in positions]
                assert await reader.read(positions[0]) == PAYLOADS[keys[positions[0]]]

        await asyncio.gather(*(read(seed) for seed in range(40)))


async def test_a_damaged_record_is_an_error_after_those_before_it(path: Path) -> None:
    offset = sorted(int(line.split("\t")[1]) for line in path.with_suffix(".idx").read_text().splitlines())[100]
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"damaged!")
    got = []

    async def consume() -> None:
        async for record in reader:
            got.append(record)

    async with al.AsyncRecordReader(path) as reader:
        with pytest.raises(CorruptRecordError, match=f"byte offset {offset}"):
            await consume()
    assert got == PAYLOADS[:100]


async def test_positions_that_are_not_there_are_index_errors(path: Path) -> None:
    async with al.AsyncRecordReader(path) as reader:
        for wrong in (300, -1):
            with pytest.raises(IndexError):
                await reader.read(wrong)
            with pytest.raises(IndexError):
                await reader.read_many([0, wrong])


async def test_outside_its_block_the_reader_says_so(path: Path) -> None:
    reader = al.AsyncRecordReader(path)
    with pytest.raises(LoaderClosedError, match="async with"):
        await reader.read(0)
    async with reader:
        waiting = asyncio.create_task(reader.read_many(list(range(300))))
        await asyncio.sleep(0)
    assert waiting.cancelled() or len(await waiting) == 300
    with pytest.raises(LoaderClosedError, match="async with"):
        aiter(reader)


async def test_a_missing_file_leaves_nothing(tmp_path: Path, no_leaks: object) -> None:
    with pytest.raises(MissingFileError, match="nowhere"):
        async with al.AsyncRecordReader(tmp_path / "nowhere.rec"):
            pass
