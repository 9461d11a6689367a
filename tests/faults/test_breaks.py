"""A consumer that breaks off after one batch, again and again, leaves everything where it was."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest

import asyncloader as al
from tests.processes.helpers import shared_blocks, wait_until, worker_processes

pytestmark = pytest.mark.usefixtures("no_leaks")

SHAPE = (250, 250)  # int32: batches of 1 MB, which come from the pool or lie in blocks
GROWTH = 40 << 20  # what may be left in allocators; a batch lost each time would be 200 MB at least


class Images:
    def __len__(self) -> int:
        return 400

    def __getitem__(self, position: int) -> tuple[Any, int]:
        return np.full(SHAPE, position, np.int32), position


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:  # it ended at this moment
        return 0


class Held(NamedTuple):
    """What this process and its workers hold."""

    threads: int
    tasks: int
    workers: int
    descriptors: int
    blocks: int
    memory: int

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        processes = [psutil.Process(), *worker_processes()]
        try:
            tasks = len(asyncio.all_tasks())
        except RuntimeError:  # no loop is running
            tasks = 0
        return cls(
            threading.active_count(),
            tasks,
            len(processes) - 1,
            len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0,
            len(shared_blocks()) if sys.platform == "linux" else 0,
            sum(map(_resident, processes)),
        )

    def is_as(self, earlier: Held, blocks: int = 0) -> bool:
        """Whether it is as much as before, but for free blocks that are kept, of which there may be so many."""
        more_blocks = self.blocks - earlier.blocks
        descriptors = self.descriptors - 2 * max(0, more_blocks)
        return (
            self[:3] == earlier[:3]
            and descriptors <= earlier.descriptors
            and more_blocks <= blocks
            and self.memory <= earlier.memory + GROWTH
        )


def one_batch(loader: al.DataLoader) -> None:
    for images, numbers in loader:
        assert numbers.tolist() == [0, 1, 2, 3]
        assert (images == numbers[:, None, None]).all()
        break


def settles(earlier: Held, blocks: int = 0) -> None:
    """What was broken off ends in the background."""
    if not wait_until(lambda: Held.now().is_as(earlier, blocks), 5):
        assert Held.now() == earlier


async def test_a_thousand_passes_of_one_loader_with_threads() -> None:
    async with al.AsyncDataLoader(Images(), 4, num_workers=2) as loader:

        async def some(count: int) -> None:
            for _ in range(count):
                async for _, numbers in loader:
                    assert numbers.tolist() == [0, 1, 2, 3]
                    break

        await some(20)
        before = Held.now()
        await some(1000)
        settles(before)
        assert len([batch async for batch in loader]) == 100


def test_two_hundred_passes_of_one_loader_with_processes() -> None:
    with al.DataLoader(Images(), 4, workers="processes", num_workers=2, prefetch=4) as loader:
        for _ in range(20):
            one_batch(loader)
        workers = [worker.pid for worker in worker_processes()]
        before = Held.now()
        for _ in range(200):
            one_batch(loader)
        settles(before, blocks=4 + 2 + 2 * 2)
        assert [worker.pid for worker in worker_processes()] == workers
        assert len(list(loader)) == 100


@pytest.mark.parametrize("end", ["closed", "dropped"])
@pytest.mark.parametrize(("workers", "count"), [("threads", 300), ("processes", 8)])
def test_a_new_loader_each_time(workers: str, count: int, end: str) -> None:
    def use() -> None:
        loader = al.DataLoader(Images(), 4, workers=workers, num_workers=2, prefetch=4)
        one_batch(loader)
        if end == "closed":
            loader.close()

    alone = threading.active_count()
    use()
    assert wait_until(lambda: not worker_processes() and threading.active_count() == alone, 5)
    before = Held.now()
    for _ in range(count):
        use()
    settles(before)


async def test_a_new_loader_each_time_on_one_event_loop() -> None:
    async def use() -> None:
        async for _, numbers in al.AsyncDataLoader(Images(), 4, num_workers=2):
            assert numbers.tolist() == [0, 1, 2, 3]
            break

    await use()
    await asyncio.sleep(0.1)
    before = Held.now()
    for _ in range(300):
        await use()
    settles(before)
