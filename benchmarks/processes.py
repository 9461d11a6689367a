"""What processes are for: transforms in Python, which hold the GIL; and what their start costs.

python benchmarks/processes.py
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

import asyncloader as al
from asyncloader.executors.spawn import start_process

WORKERS = 2


class Slow:
    """Each sample takes 1 ms of pure Python."""

    def __len__(self) -> int:
        return 2048

    def __getitem__(self, position: int) -> int:
        end = time.thread_time() + 1e-3
        while time.thread_time() < end:
            pass
        return position


async def seconds_of_a_pass(workers: Any) -> float:
    async with al.AsyncDataLoader(Slow(), 128, workers=workers, num_workers=WORKERS) as loader:
        async for _ in loader:  # the first pass starts the workers
            pass
        start = time.perf_counter()
        async for _ in loader:
            pass
        return time.perf_counter() - start


async def seconds_to_the_first_batch() -> float:
    start = time.perf_counter()
    dataset = al.ArrayDataset(np.zeros((1024, 64, 64), np.uint8))
    async with al.AsyncDataLoader(dataset, 128, workers="processes", num_workers=WORKERS) as loader:
        async for _ in loader:
            return time.perf_counter() - start
    raise AssertionError("there was no batch")


def seconds_to_run(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def seconds_to_spawn_nothing() -> float:
    start = time.perf_counter()
    start_process(len, ((),), "nothing").join()
    return time.perf_counter() - start


def median(function: Any, count: int) -> float:
    return statistics.median(function() for _ in range(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    ratios = []
    for _ in range(rounds):
        threads = asyncio.run(seconds_of_a_pass("threads"))
        ratios.append(threads / asyncio.run(seconds_of_a_pass("processes")))
    ratio = statistics.median(ratios)
    print(f"a transform of 1 ms of Python: {WORKERS} processes are {ratio:.2f} times as fast as {WORKERS} threads")
    first = median(lambda: asyncio.run(seconds_to_the_first_batch()), rounds)
    interpreter = median(lambda: seconds_to_run("pass"), rounds)
    imports = median(lambda: seconds_to_run("import numpy, cloudpickle, simplejpeg"), rounds) - interpreter
    spawn = median(seconds_to_spawn_nothing, rounds)
    print(
        f"from the loader's start to the first batch of {WORKERS} processes: {first * 1e3:.0f} ms, each worker's share:"
    )
    print(f"  {interpreter * 1e3:4.0f} ms for a Python interpreter to start and end")
    print(f"  {(spawn - interpreter) * 1e3:4.0f} ms for what multiprocessing adds to a spawned one")
    print(f"  {imports * 1e3:4.0f} ms to import numpy, cloudpickle and the codec")


if __name__ == "__main__":
    main()
