"""How workers are started, what they are given, and how long they live."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import asyncloader as al
from asyncloader.errors import AsyncLoaderError, WorkerError
from tests.processes.helpers import Numbers, Pids, gone, numbers, run_python, wait_until, worker_processes


def test_no_worker_comes_from_a_fork_and_the_hook_would_see_one() -> None:
    # Every test runs under the audit hook; here a script shows that the hook sees what it should.
    code = """
import os, sys
forks = []
sys.addaudithook(lambda event, arguments: forks.append(event) if event in ("os.fork", "os.forkpty") else None)
import asyncloader as al
with al.DataLoader(list(range(8)), 2, workers="processes", num_workers=2) as loader:
    print([batch.tolist() for batch in loader], forks)
if hasattr(os, "fork") and os.fork() == 0:
    os._exit(0)
print(forks)
"""
    out, err, status = run_python("-c", code)
    seen = "['os.fork']" if hasattr(os, "fork") else "[]"
    assert (out, err, status) == (f"[[0, 1], [2, 3], [4, 5], [6, 7]] []\n{seen}\n", "", 0)


@pytest.mark.posix
def test_workers_inherit_no_descriptor(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("needs /proc")
    marked = tmp_path / "a file that this process has open"
    with marked.open("w") as file:
        os.set_inheritable(file.fileno(), True)  # even what a careless program lets others inherit

        class Descriptors(Numbers):
            def __getitem__(self, position: int) -> Any:
                listed = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd") if name not in "012"]
                return [os.readlink(path) for path in listed if path.is_symlink()]

        with al.DataLoader(Descriptors(4), 1, workers="processes", num_workers=2, collate_fn=list) as loader:
            for [seen] in loader:
                assert str(marked) not in seen
                assert len([name for name in seen if "socket:" in name]) == 1  # its connection
                assert not [name for name in seen if "eventpoll" in name or "memfd" in name]


def test_the_dataset_is_pickled_once_and_its_large_arrays_are_mapped() -> None:
    pickled = []

    def own_memory() -> int:
        return int(psutil.Process().memory_full_info().uss) if sys.platform == "linux" else 0

    class Data(Numbers):
        def __init__(self) -> None:
            super().__init__(64)
            self.table = np.arange(4_000_000)

        def __getstate__(self) -> Any:
            pickled.append(1)
            return self.__dict__

        def __getitem__(self, position: int) -> Any:
            time.sleep(0.005)  # so that every worker gets some
            return os.getpid(), int(self.table[position * 60_000]), own_memory()

    class Small(Numbers):
        def __getitem__(self, position: int) -> Any:
            return os.getpid(), 0, own_memory()

    with al.DataLoader(Data(), 2, workers="processes", num_workers=3) as loader:
        for _ in range(2):
            pids, values, private = map(np.concatenate, zip(*loader, strict=True))
    assert len(pickled) == 1
    assert len(set(pids)) == 3
    assert values.tolist() == [60_000 * position for position in range(64)]
    with al.DataLoader(Small(64), 2, workers="processes", num_workers=1) as loader:
        _, _, without = map(np.concatenate, zip(*loader, strict=True))
    if sys.platform == "linux":
        # The table's 32 MB are in no worker's own memory; the few pages that were looked at are shared.
        assert private.max() - without.max() < 16_000_000


def test_what_a_worker_writes_into_the_dataset_is_seen_by_no_other() -> None:
    class Writes(Numbers):
        def __init__(self) -> None:
            super().__init__(40)
            self.table = np.zeros(100_000, np.int64)

        def __getitem__(self, position: int) -> Any:
            time.sleep(0.002)
            self.table[:] += 1
            return os.getpid(), int(self.table[-1])

    dataset = Writes()
    with al.DataLoader(dataset, 1, workers="processes", num_workers=2) as loader:
        seen = [(int(pids[0]), int(counts[0])) for pids, counts in loader]
    for pid in {pid for pid, _ in seen}:
        own = [count for other, count in seen if other == pid]
        assert own == list(range(1, len(own) + 1))
    assert not dataset.table.any()


def test_lambdas_closures_and_local_classes_work_everywhere() -> None:
    offset = 5

    class Local(Numbers):
        def __getitem__(self, position: int) -> Any:
            return change(super().__getitem__(position)[1])

    class Batch(list):  # type: ignore[type-arg]
        pass

    change = lambda number: number + offset  # noqa: E731
    collate = lambda samples: Batch(samples)  # noqa: E731

    with al.DataLoader(Local(6), 3, collate_fn=collate, workers="processes", num_workers=2) as loader:
        batches = list(loader)
    assert batches == [[5, 6, 7], [8, 9, 10]]
    assert {type(batch) for batch in batches} == {Batch}


def test_positions_may_be_objects_of_local_classes() -> None:
    class Pair:
        def __init__(self, left: int, right: int) -> None:
            self.sum = left + right

    class Sums:  # without a length, a dataset may be asked for anything
        def __getitem__(self, pair: Any) -> int:
            return pair.sum  # type: ignore[no-any-return]

    sampler = [[Pair(1, 2), Pair(3, 4)], [Pair(5, 6)]]
    with al.DataLoader(Sums(), batch_sampler=sampler, workers="processes", num_workers=1) as loader:
        assert [batch.tolist() for batch in loader] == [[3, 7], [11]]


@pytest.mark.parametrize("where", ["to the worker", "in the worker"])
def test_positions_that_cannot_be_sent_fail_their_batch_alone(where: str) -> None:
    class Fails:
        def __reduce__(self) -> Any:
            if where == "to the worker":
                raise TypeError("not me")
            return int, ("not me",)

    class Echo:
        def __getitem__(self, position: Any) -> Any:
            return np.zeros(3), position

    sampler = [[1], [Fails()], [2]]
    with al.DataLoader(Echo(), batch_sampler=sampler, workers="processes", num_workers=1) as loader:
        batches = iter(loader)
        assert next(batches)[1].tolist() == [1]
        with pytest.raises((AsyncLoaderError, ValueError), match="not me"):
            next(batches)
        assert next(batches)[1].tolist() == [2]


def test_a_dataset_that_cannot_be_sent_says_what_to_do() -> None:
    class Locked(Numbers):
        def __init__(self) -> None:
            super().__init__(4)
            self.held = threading.Lock()

    with (
        pytest.raises(WorkerError, match=r"cannot be sent to a process.*locks"),
        al.DataLoader(Locked(), 1, workers="processes", num_workers=1) as loader,
    ):
        next(iter(loader))


def test_workers_persist_over_epochs() -> None:
    with al.DataLoader(Pids(40), 2, workers="processes", num_workers=2) as loader:
        wait_until(lambda: len(worker_processes()) == 2)
        started = {worker.pid for worker in worker_processes()}
        seen = {int(pid) for _ in range(5) for pids, _ in loader for pid in pids}
        assert seen <= started
        assert {worker.pid for worker in worker_processes()} == started
        assert loader.stats()["workers_restarted"] == 0


async def test_workers_start_in_the_background_when_the_loader_is_entered() -> None:
    class SlowToLoad(Pids):
        def __setstate__(self, state: Any) -> None:
            while not os.path.exists(state["gate"]):
                time.sleep(0.01)
            self.__dict__ = state

    dataset = SlowToLoad(8)
    gate = Path(os.devnull + " is no folder")
    dataset.gate = str(gate)  # type: ignore[attr-defined]
    loader = al.AsyncDataLoader(dataset, 2, workers="processes", num_workers=2)
    async with loader:  # comes to the body although no worker will ever be ready
        assert wait_until(lambda: len(worker_processes()) == 2)
        workers = [worker.pid for worker in worker_processes()]
    assert gone(workers)


@pytest.mark.parametrize("limit", [None, "2"])
def test_libraries_use_one_thread_in_a_worker_unless_told_otherwise(
    limit: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Limits(Numbers):
        def __getitem__(self, position: int) -> Any:
            found = [os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")]
            try:
                import cv2
            except ImportError:
                return found
            return [*found, str(cv2.getNumThreads())]

    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    if limit is not None:
        monkeypatch.setenv("ASYNCLOADER_WORKER_NUM_THREADS", limit)
    with al.DataLoader(Limits(1), None, workers="processes", num_workers=1) as loader:
        [found] = loader
    assert set(found) == {limit or "1"}
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_a_wrong_number_of_library_threads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCLOADER_WORKER_NUM_THREADS", "many")
    with (
        al.DataLoader(Numbers(1), workers="processes", num_workers=1) as loader,
        pytest.raises(WorkerError, match=r"ASYNCLOADER_WORKER_NUM_THREADS must be .* not 'many'"),
    ):
        next(iter(loader))


def test_threads_in_a_worker_make_batches_at_the_same_time() -> None:
    barrier = None

    class Meets(Numbers):
        def __getitem__(self, position: int) -> Any:
            nonlocal barrier
            with lock:
                barrier = barrier or threading.Barrier(3)
            barrier.wait(20)  # passes only when three samples are made at once in this process
            return os.getpid(), threading.get_ident()

    class Lock:
        def __enter__(self) -> None:
            locks.setdefault(0, threading.Lock()).acquire()

        def __exit__(self, *_: object) -> None:
            locks[0].release()

    locks: dict[int, Any] = {}
    lock = Lock()
    with al.DataLoader(Meets(12), 1, workers="processes", num_workers=1, threads_per_worker=3) as loader:
        pids, threads = map(np.concatenate, zip(*loader, strict=True))
    assert len(set(pids)) == 1
    assert len(set(threads)) == 3


def test_several_passes_at_once_share_the_workers() -> None:
    with al.DataLoader(Numbers(60), 4, workers="processes", num_workers=2) as loader:
        passes = [iter(loader) for _ in range(3)]
        got: list[list[Any]] = [[] for _ in passes]
        for _ in range(15):
            for batches, one in zip(got, passes, strict=True):
                batches.append(next(one))
        assert [numbers(batches) for batches in got] == [list(range(60))] * 3
        assert len(worker_processes()) == 2


def test_a_loader_serves_one_event_loop_after_the_other() -> None:
    import asyncio

    loader = al.AsyncDataLoader(Numbers(20), 4, workers="processes", num_workers=2)

    async def epoch() -> list[int]:
        return numbers([batch async for batch in loader])

    async def broken_off() -> None:
        async for _ in loader:
            break

    asyncio.run(broken_off())
    assert asyncio.run(epoch()) == list(range(20))
    assert asyncio.run(epoch()) == list(range(20))
    asyncio.run(loader.aclose())
    assert not worker_processes()


def test_a_daemon_process_gets_a_clear_error() -> None:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_load_in_a_daemon, args=(send,), daemon=True)
    process.start()
    send.close()
    with receive:
        assert "this process is a daemon" in receive.recv()
        assert receive.recv() == [0, 1, 2, 3]
    process.join()
    process.close()


def _load_in_a_daemon(send: Any) -> None:
    with al.DataLoader(Numbers(4), 2, workers="processes", num_workers=1) as loader:
        try:
            next(iter(loader))
        except WorkerError as error:
            send.send(str(error))
    with al.DataLoader(Numbers(4), 2, num_workers=1) as loader:  # as the error advises
        send.send(numbers(list(loader)))


def test_a_loader_works_inside_a_loaders_transform() -> None:
    class Nested(Numbers):
        def __getitem__(self, position: int) -> Any:
            with al.DataLoader(Numbers(position + 1), 2, num_workers=1) as inner:
                return numbers(list(inner))

    with al.DataLoader(Nested(4), None, workers="processes", num_workers=2) as loader:
        assert list(loader) == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]


def test_processes_inside_a_worker_are_refused_with_the_reason() -> None:
    class Nested(Numbers):
        def __getitem__(self, position: int) -> Any:
            with al.DataLoader(Numbers(2), workers="processes", num_workers=1) as inner:
                return list(inner)

    with (
        al.DataLoader(Nested(1), workers="processes", num_workers=1) as loader,
        pytest.raises(AsyncLoaderError, match=r"daemon.*use workers='threads'"),
    ):
        list(loader)
