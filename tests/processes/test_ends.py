"""However it ends, nothing is left: no process, no shared memory, no descriptor, no word on stderr."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import asyncloader as al
from asyncloader.errors import LoaderClosedError
from tests.processes.helpers import (
    KERNEL_ENDS_WORKERS,
    Numbers,
    gone,
    numbers,
    run_python,
    script,
    shared_blocks,
    wait_until,
    worker_processes,
)


class Busy(Numbers):
    """From sample 4 on each takes a minute."""

    def __getitem__(self, position: int) -> Any:
        if position >= 4:
            time.sleep(60)
        return super().__getitem__(position)


def _segments() -> set[str]:
    folder = Path("/dev/shm")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def _workers() -> list[int]:
    assert wait_until(lambda: len(worker_processes()) == 2)
    return [worker.pid for worker in worker_processes()]


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("dataset", [Numbers(40, (5000,)), Busy(40, (5000,))], ids=["idle", "busy"])
@pytest.mark.parametrize("end", ["close", "exception", "drop"])
def test_the_workers_are_gone(end: str, dataset: Numbers) -> None:
    loader = al.DataLoader(dataset, 2, workers="processes", num_workers=2)
    batches = iter(loader)
    kept = []
    for batch in batches:
        kept.append(batch)
        if len(kept) == 2:
            break
    workers = _workers()
    if end == "close":
        loader.close()
        assert gone(workers, 0)  # when it returns, they are gone already
    elif end == "exception":
        with pytest.raises(ZeroDivisionError), loader:
            1 / 0  # noqa: B018
    else:
        del loader, batches
        gc.collect()
    assert gone(workers)
    assert numbers(kept) == [0, 1, 2, 3]
    # No zombie, either: each was waited for.
    assert wait_until(lambda: not {child.pid for child in psutil.Process().children()} & set(workers), 2)


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("end", ["leave", "cancel", "drop"])
async def test_the_workers_of_an_async_loader_are_gone(end: str) -> None:
    loader = al.AsyncDataLoader(Busy(40), 2, workers="processes", num_workers=2)

    async def use(loader: al.AsyncDataLoader) -> None:
        async with loader:
            async for _ in loader:
                if end == "leave" and batches.append(1) is None and len(batches) == 2:
                    return

    batches: list[int] = []
    if end == "drop":
        await anext(aiter(loader))
    else:
        task = asyncio.create_task(use(loader))
        await asyncio.sleep(0.6)
        if end == "cancel":
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() == (end == "cancel")
        assert gone([worker.pid for worker in worker_processes()], 0)
    workers = [worker.pid for worker in worker_processes()]
    del loader
    gc.collect()
    assert gone(workers)


@pytest.mark.usefixtures("no_leaks")
def test_closing_while_the_workers_start() -> None:
    for delay in (0, 0.02, 0.1, 0.2):
        loader = al.DataLoader(Numbers(4), workers="processes", num_workers=2)
        loader.__enter__()
        time.sleep(delay)
        workers = [worker.pid for worker in worker_processes()]
        loader.close()
        assert gone(workers, 0)
        with pytest.raises(LoaderClosedError):
            next(iter(loader))


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("no_leaks")
def test_breaking_off_a_thousand_times_leaves_what_was_there() -> None:
    with al.DataLoader(Numbers(60), 3, workers="processes", num_workers=2) as loader:
        list(loader)
        before = {worker.pid for worker in worker_processes()}
        for _ in range(1000):
            for batch in loader:
                assert batch[1].tolist() == [0, 1, 2]
                break
        assert numbers(list(loader)) == list(range(60))
        assert {worker.pid for worker in worker_processes()} == before


def test_a_closed_loader_and_kept_batches_hold_no_worker_but_their_memory() -> None:
    loader = al.DataLoader(Numbers(60, (5000,)), 3, workers="processes", num_workers=2)
    with loader:
        kept = list(loader)
    assert numbers(kept) == list(range(60))
    del kept
    gc.collect()
    if sys.platform == "linux":
        assert not shared_blocks()


SCRIPT = """
import os, re, sys, time, asyncio, signal
import numpy as np
import asyncloader as al

class Data:
    def __len__(self): return 10_000
    def __getitem__(self, position):
        return np.full(20_000, position)

class Sleeps(Data):
    def __getitem__(self, position):
        time.sleep(60 if position > 3 else 0)
        return super().__getitem__(position)

class HoldsTheGil(Data):
    def __getitem__(self, position):
        position > 3 and re.match(r"(a+)+$", "a" * 60 + "b")
        return super().__getitem__(position)

class Loads(Data):
    def __setstate__(self, state):
        time.sleep(60)

loader = al.DataLoader({dataset}(), 2, workers="processes", num_workers={workers}, prefetch=8)
"""


@pytest.mark.parametrize(
    "end",
    [
        "list(zip(range(5), loader))",
        "kept = list(zip(range(5), loader))",
        "kept = iter(loader); next(kept)",
        "kept = iter(loader); next(kept); sys.exit(0)",
        "loader.__enter__()",
        "loader.__enter__(); time.sleep(0.05)",
        "loader.__enter__(); time.sleep(0.15)",
        "loader.__enter__(); time.sleep(0.25)",
        "next(iter(loader)); loader.close()",
        "loader.held = loader; next(iter(loader)); del loader",
    ],
)
def test_a_program_that_ends_says_nothing(end: str) -> None:
    code = SCRIPT.format(dataset="Data", workers=2) + end
    before = _segments()
    assert run_python("-X", "dev", "-W", "error", "-c", code) == ("", "", 0)
    assert _segments() <= before


def test_an_exception_of_the_program_is_all_that_is_said() -> None:
    code = SCRIPT.format(dataset="Sleeps", workers=2) + "for batch in loader: raise ValueError('of the program')"
    out, err, status = run_python("-X", "dev", "-c", code)
    assert (out, status) == ("", 1)
    assert err.count("Traceback") == 1
    assert err.rstrip().endswith("ValueError: of the program")


@pytest.mark.posix
@pytest.mark.parametrize("dataset", ["Data", "Sleeps", "Loads", *(["HoldsTheGil"] if KERNEL_ENDS_WORKERS else [])])
def test_when_the_program_is_killed_all_of_it_is_gone(dataset: str, tmp_path: Path) -> None:
    before = _segments()
    code = SCRIPT.format(dataset=dataset, workers=4) + "print('ready', flush=True)\nfor batch in loader: pass\n"
    with script(tmp_path / "script.py", code) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert wait_until(lambda: len(worker_processes(process.pid)) == 4)
        time.sleep(0.8)  # until they are at it
        family = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        assert len(family) >= 4
        process.kill()
        assert gone(family)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert _segments() <= before


@pytest.mark.posix
def test_workers_end_with_their_program_even_while_a_process_that_it_forked_lives(tmp_path: Path) -> None:
    code = (
        SCRIPT.format(dataset="HoldsTheGil", workers=2)
        + """
next(iter(loader))
child = os.fork()
if child == 0:
    time.sleep(30)
    os._exit(0)
print(child, flush=True)
time.sleep(60)
"""
    )
    with script(tmp_path / "script.py", code) as process:
        assert process.stdout is not None
        forked = psutil.Process(int(process.stdout.readline()))
        workers = [worker.pid for worker in worker_processes(process.pid)]
        assert len(workers) == 2
        process.kill()
        try:
            assert gone(workers) or not KERNEL_ENDS_WORKERS
        finally:
            forked.kill()


@pytest.mark.posix
@pytest.mark.parametrize("kind", ["al.DataLoader", "al.AsyncDataLoader"])
def test_a_forked_child_is_told_and_harms_no_worker_of_its_parent(kind: str) -> None:
    code = (
        SCRIPT.format(dataset="Data", workers=2)
        + """
import warnings
warnings.simplefilter("error", al.errors.LoaderWarning)  # that a worker had to be replaced

async def use(loader, count):
    got = []
    async for batch in loader:
        got.append(batch[:, 0].tolist())
        if len(got) == count:
            return got

def first(loader, count):
    if isinstance(loader, al.AsyncDataLoader):
        return asyncio.run(use(loader, count))
    return [batch[:, 0].tolist() for _, batch in zip(range(count), loader)]

loader = KIND(Data(), 2, workers="processes", num_workers=2, prefetch=8)
unused = KIND(Data(), 2, workers="processes", num_workers=2, prefetch=8)
first(loader, 3)
child = os.fork()
if child == 0:
    try:
        first(loader, 1)
    except al.errors.LoaderClosedError as error:
        assert "forked" in str(error), error
        print("told", flush=True)
    assert first(unused, 2) == [[0, 1], [2, 3]]
    print("one that was not used before works", flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert first(loader, 500) == [[2 * number, 2 * number + 1] for number in range(500)]
print("and the parent goes on")
""".replace("KIND", kind)
    )
    out, err, status = run_python("-c", code)
    assert err == ""
    assert out == "told\none that was not used before works\nand the parent goes on\n"
    assert status == 0
