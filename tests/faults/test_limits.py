"""Where address space or threads are short the loader works, or says what is short, and ends all the same."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.processes.helpers import run_python

pytestmark = [
    pytest.mark.posix,
    pytest.mark.skipif(sys.platform != "linux", reason="needs an RLIMIT_AS that is kept to, and /proc"),
]

PROGRAM = """
import asyncio, gc, os, resource, sys, threading, time, warnings
import numpy as np
import psutil
import asyncloader as al
import asyncloader.executors.processes
from asyncloader import recordio
from asyncloader.errors import AsyncLoaderError, LoaderWarning, WorkerError

class Data:
    def __len__(self): return 40
    def __getitem__(self, position): return np.full(20_000, position, np.int32), position

def limit(more):
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, -1))

def load(kind, workers):
    async def load_async():
        async with al.AsyncDataLoader(Data(), 4, workers=workers, num_workers=2) as loader:
            return [number async for _, numbers in loader for number in numbers.tolist()]
    if kind == "async":
        return loop.run_until_complete(load_async())
    with al.DataLoader(Data(), 4, workers=workers, num_workers=2) as loader:
        return [number for _, numbers in loader for number in numbers.tolist()]

def all_ended():
    gc.collect()
    workers = [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
    return not workers and [thread.name for thread in threading.enumerate()] == ["MainThread"]

def attempt(*arguments):
    try:
        assert load(*arguments) == list(range(40))
        said = "worked"
    except (AsyncLoaderError, MemoryError) as error:
        said = f"{type(error).__name__}: {error}"
    deadline = time.monotonic() + 5
    while not all_ended():
        assert time.monotonic() < deadline, "something is left"
        time.sleep(0.01)
    print(said)

warnings.simplefilter("ignore", LoaderWarning)
loop = asyncio.new_event_loop()
"""

#: Threads that are needed to do without any other: the loop's, one that loads, one that looks after workers, one for
#: each worker, and one that starts or closes while the loop goes on.
NEEDED = {("sync", "threads"): 3, ("async", "threads"): 2, ("sync", "processes"): 5, ("async", "processes"): 4}


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_with_few_threads_or_none_it_works_or_says_so(kind: str, workers: str) -> None:
    code = """
    kind, workers, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
    STACK = 1 << 30
    threading.stack_size(STACK)  # so that the limit on address space is one on threads
    for count in range(most + 1):
        limit(STACK // 2 + count * STACK)
        attempt(kind, workers)
    """
    most = NEEDED[kind, workers]
    out, err, status = run_python("-c", PROGRAM + dedent(code), kind, workers, str(most))
    assert (err, status) == ("", 0)
    said = out.splitlines()
    assert len(said) == most + 1
    for line in said:
        assert line == "worked" or line.startswith("WorkerError: no thread could be started (can't start new thread): ")
    assert said[0] != "worked"
    assert said[-1] == "worked"


def test_a_reader_for_coroutines_says_that_no_thread_can_be_started(tmp_path: Path) -> None:
    code = """
    path = sys.argv[1] + "/a.rec"
    with recordio.RecordWriter(path) as writer:
        writer.write(b"one")

    async def read():
        async with al.AsyncRecordReader(path) as reader:
            return await reader.read(0)

    threading.stack_size(1 << 30)
    limit(1 << 29)
    try:
        loop.run_until_complete(read())
    except WorkerError as error:
        print(error)
    limit(1 << 34)  # for several threads with stacks of that size
    print(loop.run_until_complete(read()))
    """
    out, err, status = run_python("-c", PROGRAM + dedent(code), str(tmp_path))
    assert (err, status) == ("", 0)
    assert out.startswith("no thread could be started (can't start new thread): ")
    assert out.endswith("\nb'one'\n")


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("more", [0, 10, 40, 200, 1000])
def test_with_little_address_space_it_works_or_says_so(more: int, workers: str) -> None:
    code = """
    limit(int(sys.argv[1]) << 20)
    for kind in ("sync", "async"):
        attempt(kind, sys.argv[2])
    """
    out, err, status = run_python("-c", PROGRAM + dedent(code), str(more), workers)
    assert status == 0, err
    assert len(out.splitlines()) == 2
    if more == 1000:
        assert (out, err) == ("worked\nworked\n", "")
