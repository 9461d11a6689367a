"""A batch that takes too long is named, and the worker that is stuck is ended."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import asyncloader as al
from asyncloader.errors import LoaderClosedError, LoaderTimeoutError, LoaderWarning
from tests.processes.helpers import TIMEOUT, Acting, Numbers, gone, hold_the_gil, numbers, wait_until, worker_processes


def sleeps(position: int) -> None:
    time.sleep(600)


def stops(position: int) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


STUCK = [sleeps, hold_the_gil, pytest.param(stops, marks=pytest.mark.posix)]


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("action", STUCK)
def test_a_timeout_names_the_batch_and_its_positions_and_ends_the_worker(action: Callable[[int], Any]) -> None:
    with al.DataLoader(
        Acting(16, {6}, action), 4, workers="processes", num_workers=1, timeout=TIMEOUT, prefetch=2
    ) as loader:
        batches = iter(loader)
        assert numbers([next(batches)]) == [0, 1, 2, 3]
        stuck = [worker.pid for worker in worker_processes()]
        with pytest.raises(LoaderTimeoutError, match=rf"batch 1 of epoch 0 \(positions 4, 5, 6, 7\).*{TIMEOUT:g} s"):
            next(batches)
        assert gone(stuck)


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("action", STUCK)
def test_a_stuck_sample_is_dropped_and_the_rest_comes(action: Callable[[int], Any]) -> None:
    with al.DataLoader(
        Acting(40, {6}, action), 4, workers="processes", num_workers=2, timeout=TIMEOUT, on_error="skip"
    ) as loader:
        with pytest.warns(LoaderWarning, match="batch 1 of epoch 0") as caught:
            batches = list(loader)
        assert len(caught) == 1  # that a worker was replaced is no news here
        assert numbers(batches) == [position for position in range(40) if position != 6]
        stats = loader.stats()
        assert (stats["skipped"], stats["timeouts"]) == (1, 2)


@pytest.mark.usefixtures("no_leaks")
def test_a_collate_function_that_is_stuck_is_blamed_on_no_sample() -> None:
    def collate(samples: list[Any]) -> Any:
        if samples[0][1] == 4:
            time.sleep(600)
        return [number for _, number in samples]

    with al.DataLoader(
        Numbers(16), 4, collate_fn=collate, workers="processes", num_workers=1, timeout=TIMEOUT, on_error="skip"
    ) as loader:
        batches = iter(loader)
        assert next(batches) == [0, 1, 2, 3]
        with pytest.raises(LoaderTimeoutError, match=r"batch 1 of epoch 0"):
            next(batches)


@pytest.mark.posix
@pytest.mark.usefixtures("no_leaks")
def test_a_worker_stopped_from_outside_is_replaced_after_the_timeout() -> None:
    with al.DataLoader(
        Numbers(400, (3000,)), 4, workers="processes", num_workers=1, timeout=2 * TIMEOUT, on_error="skip"
    ) as loader:
        batches = []
        for batch in loader:
            batches.append(batch)
            if len(batches) == 20:
                [worker] = worker_processes()
                worker.suspend()
        assert numbers(batches) == list(range(400))
        assert loader.stats()["timeouts"] == 1


@pytest.mark.posix
@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_worker_stopped_in_the_middle_of_a_message_holds_up_nobody(on_error: Any, tmp_path: Path) -> None:
    marker = tmp_path / "stopped once"

    def send_a_part_and_stop(connection: Any, data: Any) -> None:
        os.write(connection.fileno(), data[:50_000])
        if len(data) > 50_000:
            os.kill(os.getpid(), signal.SIGSTOP)

    class Long(Numbers):
        def __getitem__(self, position: int) -> Any:
            if position == 1 and not marker.exists():
                marker.touch()
                Connection._send = send_a_part_and_stop  # type: ignore[attr-defined]
                return b"x" * 1_000_000
            return b"short"

    with al.DataLoader(
        Long(12), None, workers="processes", num_workers=1, timeout=TIMEOUT, on_error=on_error
    ) as loader:
        batches = iter(loader)
        assert next(batches) == b"short"
        if on_error == "skip":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LoaderWarning)
                assert [len(batch) for batch in batches][-10:] == [5] * 10
        else:
            with pytest.raises(LoaderTimeoutError):
                next(batches)
            assert [len(batch) for batch in loader] == [5] * 12


@pytest.mark.posix
@pytest.mark.usefixtures("no_leaks")
def test_closing_ends_workers_that_are_stopped() -> None:
    loader = al.DataLoader(
        al.ArrayDataset(list(range(200_000))), 50_000, workers="processes", num_workers=2, prefetch=8
    )
    next(iter(loader))
    stopped = worker_processes()
    for worker in stopped:
        worker.suspend()
    batches = iter(loader)

    def consume() -> None:
        with pytest.raises(LoaderClosedError):
            next(batches)
        ended.append(True)

    ended: list[bool] = []
    consumer = threading.Thread(target=consume)
    consumer.start()
    time.sleep(0.2)  # until the messages to the stopped workers, of which pipes hold but a part, are on their way
    loader.close()
    consumer.join()
    assert ended
    assert not worker_processes()


@pytest.mark.posix
def test_a_stopped_worker_holds_up_only_what_it_has() -> None:
    """Messages to it are larger than its pipe holds; the others go on being served meanwhile."""
    with al.DataLoader(
        al.ArrayDataset(list(range(2_000_000))),
        100_000,
        workers="processes",
        num_workers=2,
        prefetch=20,
        in_order=False,
    ) as loader:
        assert wait_until(lambda: len(worker_processes()) == 2)
        list(loader)
        stopped = worker_processes()[0]
        stopped.suspend()
        try:
            batches = iter(loader)
            got = [next(batches) for _ in range(16)]  # all but the two that the stopped one has, and those of before
            assert sum(map(len, got)) == 1_600_000
        finally:
            stopped.resume()
        assert sum(map(len, batches)) == 400_000
