"""Reads that take half a minute: the timeout bounds the wait, the event loop stays free, closing does not wait."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import simplejpeg

import asyncloader as al
from asyncloader.errors import LoaderTimeoutError, LoaderWarning
from tests.faults.conftest import Faulty, write_records
from tests.processes.helpers import TIMEOUT, Numbers, numbers

PROGRAM = """
import asyncio, sys, time, warnings
import asyncloader as al
from asyncloader.errors import LoaderTimeoutError, LoaderWarning

warnings.simplefilter("ignore", LoaderWarning)
path = sys.argv[1]
KINDS = {
    "threads": {"num_workers": 1},
    "processes": {"workers": "processes", "num_workers": 1},
}

async def tick():
    longest, last = 0, time.monotonic()
    try:
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return longest

async def consume(kind, on_error, transform):
    dataset = al.RecordDataset(path, transform=transform)
    got, message = [], ""
    loader = al.AsyncDataLoader(dataset, 5, collate_fn=list, timeout=1.5, on_error=on_error, **KINDS[kind])
    async with loader:
        try:
            async for batch in loader:
                got += [int(record[:8]) for record in batch]
        except LoaderTimeoutError as error:
            message = str(error)
        closing = time.monotonic()
    assert time.monotonic() - closing < 10, "closing waited"
    if on_error == "raise":
        assert got == list(range(15)), got
        assert message.startswith("batch 3 of epoch 0 (positions 15, 16, 17, 18, 19) was not there after 1.5 s")
    else:
        assert (got, message) == ([number for number in range(40) if number != 17], ""), (got, message)

async def main():
    ticking = asyncio.create_task(tick())
    cases = [(kind, how, f) for kind in KINDS for how, f in (("raise", None), ("skip", None), ("skip", lambda x: x))]
    await asyncio.gather(*(consume(*case) for case in cases))
    ticking.cancel()
    assert await ticking < 1.5, "the event loop was blocked"

asyncio.run(main())
print("done")
"""


def test_a_read_that_takes_too_long_is_a_timeout_or_costs_its_record_alone(tmp_path: Path, faulty: Faulty) -> None:
    path, offsets = write_records(tmp_path, 40, 3000)
    begun = time.monotonic()
    out, err, status = faulty("slow", offsets[17] + 100, offsets[17] + 101, PROGRAM, path)
    assert (err, out, status) == ("", "done\n", 0)
    assert time.monotonic() - begun < 25  # before the first of those reads could have come to its end


def test_the_loop_is_free_while_coroutines_wait_for_a_slow_read(tmp_path: Path, faulty: Faulty) -> None:
    code = """
    import asyncio, os, sys
    import asyncloader as al
    from tests.faults.conftest import payload

    async def main():
        async with al.AsyncRecordReader(sys.argv[1], max_threads=2) as reader:
            try:
                await asyncio.wait_for(reader.read(17), 0.5)
            except TimeoutError:
                print("gave up")
            others = [number for number in range(40) if number != 17]
            assert await asyncio.gather(*map(reader.read, others)) == [payload(number, 3000) for number in others]
            print("the others came", flush=True)
            os._exit(0)  # to close means to wait for the read

    asyncio.run(main())
    """
    path, offsets = write_records(tmp_path, 40, 3000)
    run = faulty("slow", offsets[17] + 100, offsets[17] + 101, dedent(code), path)
    assert run == ("gave up\nthe others came\n", "", 0)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_picture_s_file_that_is_read_too_slowly_holds_nothing_up(
    workers: str, on_error: str, tmp_path: Path, faulty: Faulty
) -> None:
    code = """
    import os, sys, time, warnings
    import asyncloader as al
    from asyncloader.errors import LoaderTimeoutError, LoaderWarning

    folder, workers, on_error = sys.argv[1:]
    warnings.simplefilter("ignore", LoaderWarning)
    dataset, got = al.ImageFolderDataset(folder), []
    with al.DataLoader(dataset, 5, workers=workers, num_workers=1, timeout=1.5, on_error=on_error) as loader:
        try:
            for images, _ in loader:
                got += [round(float(image.mean()) / 10) for image in images]
        except LoaderTimeoutError as error:
            assert on_error == "raise" and "batch 2 of epoch 0 (positions 10, 11, 12, 13, 14)" in str(error), error
        closing = time.monotonic()
    assert time.monotonic() - closing < 10, "closing waited"
    assert got == (list(range(10)) if on_error == "raise" else [n for n in range(20) if n != 13]), got
    print("done", flush=True)
    os._exit(0)  # else Python waits for the read
    """
    for number in range(20):
        # One folder a class, in the order of their names; the files in one of them are spoiled.
        folder = tmp_path / ("a" if number < 13 else "spoiled" if number == 13 else "z")
        folder.mkdir(exist_ok=True)
        picture = simplejpeg.encode_jpeg(np.full((40, 40, 3), 10 * number, np.uint8))
        (folder / f"{number:02d}.jpg").write_bytes(picture)
    run = faulty("slow", 0, 1, dedent(code), tmp_path, workers, on_error)
    assert run == ("done\n", "", 0)


class ReadsMany(Numbers):
    """Is asked for whole batches; what sample 17 comes from does not answer."""

    def __init__(self) -> None:
        super().__init__(40)

    def __getitem__(self, position: int) -> tuple[Any, int]:
        raise AssertionError("read_many is there")

    def read_many(self, positions: list[int]) -> list[Any]:
        if 17 in positions:
            _answer.wait(60)
        return [super(ReadsMany, self).__getitem__(position) for position in positions]


_answer = threading.Event()


@pytest.mark.parametrize(
    "workers",
    [{"num_workers": 1}, {"num_workers": 3}, {"workers": "processes", "num_workers": 1}],
    ids=["thread", "threads", "processes"],
)
def test_in_a_read_of_many_that_is_stuck_the_right_sample_is_dropped(workers: dict[str, Any]) -> None:
    _answer.clear()
    timeout = TIMEOUT if "workers" in workers else 0.4
    with al.DataLoader(ReadsMany(), 10, timeout=timeout, on_error="skip", **workers) as loader:
        try:
            with pytest.warns(LoaderWarning, match="batch 1 of epoch 0"):
                assert numbers(list(loader)) == [number for number in range(40) if number != 17]
            assert loader.stats()["skipped"] == 1
        finally:
            _answer.set()


def _waits(self: Any, state: Any) -> None:
    time.sleep(600)


def test_workers_that_never_come_to_be_ready_are_not_waited_for_for_ever() -> None:
    class NeverOpens(Numbers):
        __setstate__ = _waits

    with (
        al.DataLoader(NeverOpens(8), 4, workers="processes", num_workers=1, timeout=0.2, on_error="skip") as loader,
        pytest.raises(LoaderTimeoutError, match="batch 0 of epoch 0"),
    ):
        next(iter(loader))


def test_a_collate_function_that_is_stuck_leaves_its_thread_to_another() -> None:
    release = threading.Event()

    def collate(samples: list[Any]) -> Any:
        if samples[0][1] == 4:
            release.wait(60)
        return [number for _, number in samples]

    with al.DataLoader(Numbers(16), 4, collate_fn=collate, num_workers=1, timeout=0.4) as loader:
        try:
            for _ in range(3):  # each time one more thread is lost, and none is missing
                batches = iter(loader)
                assert next(batches) == [0, 1, 2, 3]
                with pytest.raises(LoaderTimeoutError, match="batch 1 of epoch 0"):
                    next(batches)
        finally:
            release.set()
