"""Workers that die are replaced, and what they were at is done again; what kills them each time is named."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncloader as al
from asyncloader.errors import LoaderWarning, WorkerCrashedError
from tests.processes.helpers import Acting, Numbers, gone, numbers, wait_until, worker_processes


def exits(position: int) -> None:
    os._exit(3)


def segfaults(position: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _kill(process: Any) -> None:
    process.kill()


class Slow(Numbers):
    def __getitem__(self, position: int) -> tuple[Any, int]:
        time.sleep(0.001)
        return super().__getitem__(position)


@pytest.fixture
def no_further_warning() -> Iterator[None]:
    """Only the warning that a worker was replaced may come, and that once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert [str(warning.message)[:16] for warning in caught] == ["a worker process"], [str(w.message) for w in caught]
    assert caught[0].category is LoaderWarning


@pytest.mark.posix  # and workers that start sooner than the next is killed
@pytest.mark.usefixtures("no_further_warning", "no_leaks")
def test_fifty_kills_in_an_epoch_change_nothing() -> None:
    chance = random.Random(0)
    kills, batches = 0, []
    with al.DataLoader(Slow(1600, (600,)), 4, workers="processes", num_workers=3, prefetch=6) as loader:
        for batch in loader:
            batches.append(batch)
            if len(batches) % 8 == 0:
                workers = worker_processes()
                if workers:
                    _kill(chance.choice(workers))
                    kills += 1
        assert loader.stats()["workers_restarted"] >= 45
    assert kills >= 45
    assert numbers(batches) == list(range(1600))


@pytest.mark.usefixtures("no_further_warning")
@pytest.mark.parametrize("threads", [1, 3])
def test_killing_all_workers_at_once_changes_nothing(threads: int) -> None:
    batches = []
    with al.DataLoader(Slow(600, (5000,)), 6, workers="processes", num_workers=2, threads_per_worker=threads) as loader:
        for batch in loader:
            batches.append(batch)
            if len(batches) in (1, 10, 50):
                for worker in worker_processes():
                    _kill(worker)
        assert loader.stats()["workers_restarted"] >= 3
    assert numbers(batches) == list(range(600))


@pytest.mark.usefixtures("no_further_warning")
def test_kills_while_batches_come_out_of_order() -> None:
    batches = []
    with al.DataLoader(Slow(300), 3, workers="processes", num_workers=2, in_order=False) as loader:
        for batch in loader:
            batches.append(batch)
            if len(batches) % 30 == 10:
                _kill(worker_processes()[0])
    assert sorted(numbers(batches)) == list(range(300))


@pytest.mark.posix
@pytest.mark.usefixtures("no_further_warning")
def test_a_worker_killed_in_the_middle_of_a_message() -> None:
    class Long(Numbers):
        def __getitem__(self, position: int) -> Any:
            return bytes([position % 256]) * 3_000_000

    with al.DataLoader(Long(60), None, workers="processes", num_workers=2) as loader:
        batches = iter(loader)
        assert next(batches) == bytes(3_000_000)
        stop = threading.Event()

        def kill_some() -> None:
            for _ in range(5):
                if stop.wait(0.3):
                    return
                for worker in worker_processes()[:1]:
                    _kill(worker)

        killer = threading.Thread(target=kill_some)
        killer.start()
        try:
            for position, batch in enumerate(batches, 1):
                assert batch == bytes([position]) * 3_000_000
                time.sleep(0.02)
        finally:
            stop.set()
            killer.join()


@pytest.mark.posix
@pytest.mark.usefixtures("no_further_warning")
@pytest.mark.parametrize(
    ("action", "ending"),
    [(exits, "with exit status 3"), (segfaults, r"by signal 11 \(SIGSEGV\)")],
    ids=["exit", "signal"],
)
def test_a_sample_that_kills_its_worker_each_time_is_named(action: Callable[[int], Any], ending: str) -> None:
    with al.DataLoader(Acting(40, {17}, action), 5, workers="processes", num_workers=2) as loader:
        batches = iter(loader)
        assert numbers([next(batches) for _ in range(3)]) == list(range(15))
        with pytest.raises(WorkerCrashedError, match=f"sample at position 17 .*{ending}.*batch 3 of epoch 0") as caught:
            next(batches)
        assert caught.value.position == 17
        assert numbers(list(batches)) == list(range(20, 40))  # nothing else is lost


@pytest.mark.parametrize("threads", [1, 2])
def test_samples_that_kill_their_worker_are_skipped_without_the_rest_of_their_batch(threads: int) -> None:
    bad = {3, 17}
    with al.DataLoader(
        Acting(40, bad, exits), 5, workers="processes", num_workers=2, threads_per_worker=threads, on_error="skip"
    ) as loader:
        with pytest.warns(LoaderWarning) as caught:
            batches = list(loader)
        assert numbers(batches) == [position for position in range(40) if position not in bad]
        assert loader.stats()["skipped"] == 2
    assert sorted(re.split(" process| was", str(warning.message))[0] for warning in caught) == [
        "a sample",
        "a worker",
    ]
    assert any("position 3 ended its worker process 3 times" in str(warning.message) for warning in caught)


def test_a_dataset_that_reads_many_is_asked_for_one_at_a_time_once_it_crashed() -> None:
    class ReadsMany(Acting):
        def read_many(self, positions: list[int]) -> list[Any]:
            return [self[position] for position in positions]

    dataset = ReadsMany(20, {7}, exits)
    with al.DataLoader(dataset, 5, workers="processes", num_workers=1, threads_per_worker=2, on_error="skip") as loader:
        with pytest.warns(LoaderWarning) as caught:
            assert numbers(list(loader)) == [position for position in range(20) if position != 7]
        assert any("sample at position 7 ended" in str(warning.message) for warning in caught)


@pytest.mark.usefixtures("no_further_warning")
def test_a_sample_that_kills_its_worker_can_be_replaced() -> None:
    def replace(error: al.AsyncLoaderError) -> tuple[Any, int]:
        assert isinstance(error, WorkerCrashedError)
        return np.full(8, -1, np.int32), -1

    with al.DataLoader(Acting(20, {6}, exits), 5, workers="processes", num_workers=1, on_error=replace) as loader:
        assert numbers(list(loader)) == [-1 if position == 6 else position for position in range(20)]


def test_a_position_that_does_not_equal_itself_after_a_journey_ends_its_batch_at_last() -> None:
    class Position:
        pass

    class Crashes:
        def __getitem__(self, position: Any) -> Any:
            os._exit(4)

    with (
        al.DataLoader(Crashes(), batch_sampler=[[Position()]], workers="processes", num_workers=1) as loader,
        pytest.raises(WorkerCrashedError, match=r"batch 0 of epoch 0 .* ended its worker \d times.*exit status 4"),
    ):
        list(loader)


@pytest.mark.usefixtures("no_further_warning")
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_crash_in_the_collate_function_is_blamed_on_no_sample(on_error: Any) -> None:
    def collate(samples: list[Any]) -> Any:
        if samples[0][1] == 10:
            os._exit(5)
        return [number for _, number in samples]

    with al.DataLoader(
        Numbers(30), 5, collate_fn=collate, workers="processes", num_workers=1, on_error=on_error
    ) as loader:
        batches = iter(loader)
        assert [next(batches), next(batches)] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
        with pytest.raises(WorkerCrashedError, match=r"batch 2 of epoch 0 .* ended its worker 5 times.*exit status 5"):
            next(batches)
        assert list(batches) == [list(range(start, start + 5)) for start in (15, 20, 25)]


def _set_state_exits(self: Any, state: Any) -> None:
    os._exit(7)


def _set_state_raises(self: Any, state: Any) -> None:
    raise EOFError("the table is cut off")


@pytest.mark.usefixtures("no_leaks")
def test_a_dataset_that_kills_the_worker_that_loads_it() -> None:
    class Crashes(Numbers):
        __setstate__ = _set_state_exits

    with al.DataLoader(Crashes(10), 2, workers="processes", num_workers=2) as loader:
        for _ in range(2):
            with pytest.raises(WorkerCrashedError, match=r"3 worker processes in a row.*exit status 7.*num_workers=0"):
                next(iter(loader))
        assert wait_until(lambda: not worker_processes())  # nobody tries for ever


@pytest.mark.usefixtures("no_leaks")
def test_a_dataset_that_cannot_be_loaded_in_the_worker() -> None:
    class Fails(Numbers):
        __setstate__ = _set_state_raises

    with (
        al.DataLoader(Fails(10), 2, workers="processes", num_workers=2) as loader,
        pytest.raises(EOFError, match="the table is cut off") as caught,
    ):
        next(iter(loader))
    assert any("_set_state_raises" in note for note in caught.value.__notes__)


@pytest.mark.posix
def test_workers_killed_while_they_start_are_started_again(tmp_path: Path) -> None:
    with al.DataLoader(Numbers(20), 2, workers="processes", num_workers=2) as loader:
        killed = 0
        while killed < 8:
            for worker in worker_processes():
                _kill(worker)
                killed += 1
                assert gone([worker.pid])
        assert numbers(list(loader)) == list(range(20))


@pytest.mark.posix
def test_workers_killed_while_they_load_the_dataset_are_started_again(tmp_path: Path) -> None:
    class Kills(Numbers):
        def __setstate__(self, state: Any) -> None:
            (tmp_path / str(os.getpid())).touch()
            if len(list(tmp_path.iterdir())) <= 6:
                os.kill(os.getpid(), signal.SIGKILL)
            self.__dict__ = state

    with al.DataLoader(Kills(20), 2, workers="processes", num_workers=2) as loader:
        assert numbers(list(loader)) == list(range(20))
        assert loader.stats()["workers_restarted"] == 6


@pytest.mark.posix
def test_the_exit_status_may_be_taken_by_others() -> None:
    """A program that waits for any child, or looks after its own, leaves us without exit statuses."""
    stop = threading.Event()

    def reap() -> None:
        while not stop.is_set():
            for worker in worker_processes():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(worker.pid, os.WNOHANG)

    reaper = threading.Thread(target=reap)
    reaper.start()
    try:
        with al.DataLoader(Slow(200), 2, workers="processes", num_workers=2) as loader, warnings.catch_warnings():
            warnings.simplefilter("ignore", LoaderWarning)
            batches = []
            for batch in loader:
                batches.append(batch)
                if len(batches) in (20, 60):
                    _kill(worker_processes()[0])
            assert numbers(batches) == list(range(200))
    finally:
        stop.set()
        reaper.join()
    assert wait_until(lambda: not worker_processes())
