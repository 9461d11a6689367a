"""How late a 1 ms ticker is on the loop that takes batches, and how soon the first batch is there.

python benchmarks/event_loop.py [--workers processes]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable

import numpy as np
import sets

import asyncloader as al

TICK = 0.001


async def lateness(work: Awaitable[object]) -> list[float]:
    """Tick while ``work`` goes on, and give how late each tick was, in milliseconds."""
    late: list[float] = []

    async def tick() -> None:
        while True:
            due = time.perf_counter() + TICK
            await asyncio.sleep(TICK)
            late.append((time.perf_counter() - due) * 1e3)

    ticker = asyncio.create_task(tick())
    await work
    ticker.cancel()
    return late


async def consume(loader: al.AsyncDataLoader, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        async for _ in loader:
            if time.perf_counter() > end:
                break


def say(name: str, late: list[float]) -> None:
    p50, p99, most = np.percentile(late, [50, 99, 100])
    print(f"{name:24} late by {p50:6.3f} ms at the median, {p99:6.3f} ms at the 99th percentile, {most:6.3f} at most")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--workers", choices=["threads", "processes"], default="threads")
    arguments = parser.parse_args()
    for name, path in (("faces", sets.faces()), ("photos", sets.photos())):
        dataset = al.ImageRecordDataset(path)
        async with al.AsyncDataLoader(dataset, 128, shuffle=True, num_workers=2, workers=arguments.workers) as loader:
            say("an idle loop", await lateness(asyncio.sleep(arguments.seconds)))
            say(f"{name}, {arguments.workers}", await lateness(consume(loader, arguments.seconds)))
            firsts = []
            for _ in range(20):
                start = time.perf_counter()
                async for _ in loader:
                    firsts.append((time.perf_counter() - start) * 1e3)
                    break
            print(f"{'first batch':24} after {np.median(firsts):6.1f} ms at the median, {max(firsts):.1f} at most")


if __name__ == "__main__":
    asyncio.run(main())
