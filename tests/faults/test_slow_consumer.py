"""A consumer that is a hundred times slower than the loader does not find memory full of what waits for it."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import asyncloader as al
from tests.processes.helpers import shared_blocks, worker_processes

BATCHES = 200
SAMPLES = 4  # in a batch
BATCH = SAMPLES * 500 * 500 * 4  # bytes; all of them are 800 MB
SPARE = 30 << 20  # for what is no batch: allocators, caches
WORKER = 60 << 20  # a process with numpy in it


class Counted:
    """Writes a byte to a file for each sample that is begun, in whatever process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return SAMPLES * BATCHES

    def __getitem__(self, position: int) -> Any:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, b".")
        os.close(descriptor)
        return np.full((500, 500), position, np.int32)


def memory() -> int:
    """Bytes of this process and its workers, what they share counted once."""
    gc.collect()
    processes = (psutil.Process(), *worker_processes())
    if sys.platform == "win32":
        return sum(process.memory_info().private for process in processes)
    private = sum(process.memory_full_info().uss for process in processes)
    if sys.platform != "linux":
        return private
    bounds = (line.split()[0].split("-") for line in shared_blocks())
    return private + sum(int(end, 16) - int(start, 16) for start, end in bounds)


@pytest.mark.parametrize(
    ("bound", "under_way"), [({"prefetch": 3}, 3), ({"prefetch": 60, "max_bytes": 2 * BATCH}, 2)], ids=str
)
@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_what_is_under_way_stays_within_its_bounds(
    workers: str, bound: dict[str, int], under_way: int, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    begun.touch()
    before = memory()
    with al.DataLoader(Counted(begun), SAMPLES, workers=workers, num_workers=2, **bound) as loader:
        for given, batch in enumerate(loader, 1):
            time.sleep(0.04)  # the loader needs less than a millisecond for each
            assert batch[:, 9, 9].tolist() == list(range(SAMPLES * (given - 1), SAMPLES * given))
            assert begun.stat().st_size <= SAMPLES * (given + under_way)
            if given == 25:
                break
        assert begun.stat().st_size >= SAMPLES * (25 + under_way - 1)  # it does work ahead as far as it may
        # What is under way, what the consumer had last, a block that waits for the next one.
        processes = len(worker_processes())
        if workers == "processes" and sys.platform == "win32":
            return  # what processes share there counts in full for each
        assert memory() - before <= (under_way + 2) * BATCH + SPARE + processes * WORKER
