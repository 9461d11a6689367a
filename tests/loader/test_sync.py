"""The same loader for a plain ``for``."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncloader as al
from tests.conftest import LeakCheck
from tests.loader.conftest import FailingAt, Squares


def numbers(loader: al.DataLoader) -> list[int]:
    return [n for _, batch in loader for n in batch.tolist()]


def test_a_plain_for_gives_the_same_batches(kind: dict[str, Any], no_leaks: LeakCheck) -> None:
    with al.DataLoader(Squares(53), 8, **kind) as loader:
        assert len(loader) == 7
        for _ in range(2):
            assert numbers(loader) == [i * i for i in range(53)]
        assert loader.state_dict()["epoch"] == 2


def test_it_needs_no_with_block(no_leaks: LeakCheck) -> None:
    assert sum(len(batch) for _, batch in al.DataLoader(Squares(20), 3)) == 20
    no_leaks.check()


def test_a_loader_that_its_own_dataset_holds_is_let_go(no_leaks: LeakCheck) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.loader = al.DataLoader(Squares(20), 3, num_workers=2, collate_fn=self.collate)

        def collate(self, samples: list[Any]) -> int:
            return len(samples)

    assert sum(Trainer().loader) == 20
    no_leaks.check()


def test_it_runs_where_an_event_loop_is_running_already() -> None:
    async def main() -> list[int]:
        with al.DataLoader(Squares(20), 3, num_workers=2) as loader:
            return numbers(loader)

    assert asyncio.run(main()) == [i * i for i in range(20)]


def test_it_runs_in_threads_at_once(no_leaks: LeakCheck) -> None:
    results: list[list[int]] = []
    with al.DataLoader(Squares(30), 4, num_workers=2) as loader:
        threads = [threading.Thread(target=lambda: results.append(numbers(loader))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert results == [[i * i for i in range(30)]] * 4


def test_errors_reach_the_consumer_and_the_rest_can_be_had() -> None:
    with al.DataLoader(FailingAt(12, {5}), 4, num_workers=2) as loader:
        batches = iter(loader)
        next(batches)
        with pytest.raises(al.errors.SampleError, match="position 5"):
            next(batches)
        assert next(batches)[1].tolist() == [64, 81, 100, 121]
        with pytest.raises(StopIteration):
            next(batches)


def test_a_closed_loader_says_so() -> None:
    loader = al.DataLoader(Squares(12), 4)
    loader.close()
    loader.close()
    with pytest.raises(al.errors.LoaderClosedError):
        iter(loader)


@pytest.mark.posix
@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_ctrl_c_is_one_keyboard_interrupt(workers: str, flavour: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
import asyncio, sys, time
import asyncloader as al

class Data:
    def __len__(self): return 100_000
    def __getitem__(self, position):
        time.sleep(0.01)
        return position

def sync():
    with al.DataLoader(Data(), 4, num_workers=2, workers={workers!r}) as loader:
        for batch in loader: print("batch", flush=True)

async def main():
    async with al.AsyncDataLoader(Data(), 4, num_workers=2, workers={workers!r}) as loader:
        async for batch in loader: print("batch", flush=True)

try:
    sync() if {flavour!r} == "sync" else asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
""")
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "batch\n"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=5)
    assert out.endswith("interrupted\n")
    assert out.count("interrupted") == 1
    assert err == ""
    assert process.returncode == 0


def test_arrays_can_be_written_to() -> None:
    with al.DataLoader(Squares(8), 4, num_workers=1, workers="processes") as loader:
        for arrays, batch in loader:
            arrays += 1
            batch[0] = 5
            assert isinstance(arrays, np.ndarray)
