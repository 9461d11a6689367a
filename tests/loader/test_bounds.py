"""How much is under way, and that it stops."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

import asyncloader as al
from tests.conftest import LeakCheck
from tests.loader.conftest import Counting, Squares


async def settle(dataset: Counting) -> int:
    """Wait until no more samples are begun, and count them."""
    before = -1
    while before != dataset.begun:
        before = dataset.begun
        await asyncio.sleep(0.1)
    return before


@pytest.mark.parametrize("prefetch", [1, 2, 5])
async def test_at_most_prefetch_batches_are_under_way(prefetch: int) -> None:
    dataset = Counting(400)
    async with al.AsyncDataLoader(dataset, 4, num_workers=3, prefetch=prefetch) as loader:
        stream = aiter(loader)
        for given in range(1, 6):
            await anext(stream)
            assert await settle(dataset) == 4 * (given + prefetch)


async def test_at_most_max_bytes_are_under_way() -> None:
    dataset = Counting(400, shape=(1000,))  # 4,000 bytes a sample, and 8 of its number
    async with al.AsyncDataLoader(dataset, 4, num_workers=3, prefetch=50, max_bytes=3 * 4 * 4008) as loader:
        stream = aiter(loader)
        for given in range(1, 6):
            await anext(stream)
            assert await settle(dataset) <= 4 * (given + 3)


async def test_one_batch_is_made_even_where_it_is_larger_than_max_bytes() -> None:
    async with al.AsyncDataLoader(Squares(12), 4, num_workers=2, max_bytes=10) as loader:
        assert len([batch async for batch in loader]) == 3


async def test_break_stops_the_work(no_leaks: LeakCheck) -> None:
    dataset = Counting(10_000)
    async with al.AsyncDataLoader(dataset, 4, num_workers=2, prefetch=4) as loader:
        async for _ in loader:
            break
        assert await settle(dataset) <= 4 * 5


async def test_breaking_a_thousand_times_leaves_nothing(no_leaks: LeakCheck) -> None:
    async with al.AsyncDataLoader(Squares(1000, (8,)), 4, num_workers=2) as loader:
        for _ in range(1000):
            async for _ in loader:
                break
        gc.collect()
        assert len([batch async for batch in loader]) == 250


async def test_an_exception_in_the_body_stops_the_work() -> None:
    dataset = Counting(10_000)
    async with al.AsyncDataLoader(dataset, 4, num_workers=2, prefetch=4) as loader:

        async def fail() -> None:
            async for _ in loader:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert await settle(dataset) <= 4 * 5


async def test_a_cancelled_consumer_stops_the_work(no_leaks: LeakCheck) -> None:
    dataset = Counting(10_000)
    async with al.AsyncDataLoader(dataset, 4, num_workers=2, prefetch=4) as loader:
        dataset.gate.clear()

        async def consume() -> None:
            async for _ in loader:
                pass

        task = asyncio.create_task(consume())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        dataset.gate.set()
        assert await settle(dataset) <= 4 * 4


async def test_closing_ends_a_consumer_that_waits() -> None:
    dataset = Counting(100)
    loader = al.AsyncDataLoader(dataset, 4, num_workers=2)
    dataset.gate.clear()
    waiting = asyncio.create_task(anext(aiter(loader)))
    await asyncio.sleep(0.05)
    closing = asyncio.create_task(loader.aclose())
    await asyncio.sleep(0.05)
    dataset.gate.set()
    await closing
    with pytest.raises(al.errors.LoaderClosedError):
        await asyncio.wait_for(waiting, 5)
    with pytest.raises(al.errors.LoaderClosedError):
        aiter(loader)


def test_a_loader_that_is_dropped_ends_its_threads(no_leaks: LeakCheck) -> None:
    async def main() -> None:
        loader = al.AsyncDataLoader(Squares(100), 4, num_workers=3)
        async for _ in loader:
            break

    asyncio.run(main())
    no_leaks.check()


@pytest.mark.parametrize(
    "body",
    [
        "async for _ in loader: break",
        "await anext(aiter(loader))",
        "task = asyncio.create_task(use(loader)); await asyncio.sleep(0.05); task.cancel()",
        "it = aiter(loader); await anext(it); del loader, it; gc.collect()",
        "try:\n        async for _ in loader: 1 / 0\n    except ZeroDivisionError: pass",
        "global kept; kept = aiter(loader); await anext(kept)",
    ],
)
@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_nothing_is_said_on_stderr_at_exit(body: str, workers: str, tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
import asyncio, gc
import numpy as np
import asyncloader as al

class Data:
    def __len__(self): return 1000
    def __getitem__(self, position): return np.full((100, 100), position)

async def use(loader):
    async for _ in loader: pass

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60
    loader = al.AsyncDataLoader(Data(), 16, num_workers=2, workers={workers!r})
    {body}

asyncio.run(main(), debug=True)
print("done")
""")
    )
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "default", str(script)], capture_output=True, text=True, timeout=60
    )
    assert (run.stdout, run.stderr, run.returncode) == ("done\n", "", 0)


@pytest.mark.posix
@pytest.mark.allow_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_that_its_parent_s_threads_are_not_there() -> None:
    loader = al.AsyncDataLoader(Squares(20), 4, num_workers=2)

    async def first() -> Any:
        return await anext(aiter(loader))

    assert asyncio.run(first())[1].tolist() == [0, 1, 4, 9]
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(first())
        except al.errors.LoaderClosedError as error:
            os._exit(0 if "has forked this one" in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asyncio.run(loader.aclose())
