"""Ctrl-C at a terminal goes to all processes of the program: one KeyboardInterrupt, and the workers say nothing."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.processes.helpers import gone, script, wait_until

pytestmark = pytest.mark.posix

SCRIPT = """
import asyncio, sys, time
import numpy as np
import asyncloader as al

class Data:
    def __len__(self): return 1_000_000
    def __getitem__(self, position):
        time.sleep(0.001 if position < 20 else {seconds})
        return np.full(20_000, position)

loader = al.{kind}(Data(), 4, workers={workers!r}, num_workers=3)

def plain():
    print("ready", flush=True)
    with loader:
        for batch in loader: pass

async def main():
    print("ready", flush=True)
    async with loader:
        async for batch in loader: pass

try:
    plain() if isinstance(loader, al.DataLoader) else asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""

KINDS = ["DataLoader", "AsyncDataLoader"]


def _interrupt(kind: str, workers: str, seconds: float, delays: list[float], tmp_path: Path) -> None:
    with ExitStack() as stack:
        runs = []
        for number in range(len(delays)):
            code = SCRIPT.format(kind=kind, workers=workers, seconds=seconds)
            runs.append(stack.enter_context(script(tmp_path / f"script{number}.py", code)))
        for process, delay in zip(runs, delays, strict=True):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(delay)
            family = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
            os.killpg(process.pid, signal.SIGINT)
            assert wait_until(lambda process=process: process.poll() is not None, 2)  # type: ignore[misc]
            assert process.communicate() == ("interrupted\n", "")
            assert process.returncode == 0
            assert gone(family)


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_in_the_middle(kind: str, workers: str, tmp_path: Path) -> None:
    _interrupt(kind, workers, 0.001, [0.7], tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_while_the_workers_are_in_a_long_transform(kind: str, tmp_path: Path) -> None:
    _interrupt(kind, "processes", 60, [0.7], tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_while_the_workers_start(kind: str, tmp_path: Path) -> None:
    _interrupt(kind, "processes", 0.001, [0.03, 0.06, 0.1, 0.15, 0.2, 0.3], tmp_path)


def test_ctrl_c_that_the_program_does_not_catch_gives_one_traceback(tmp_path: Path) -> None:
    code = SCRIPT.format(kind="DataLoader", workers="processes", seconds=0.001).replace("except Key", "except Zero")
    code = code.replace("ZeroboardInterrupt", "ZeroDivisionError")
    with script(tmp_path / "script.py", code) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.6)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=5)
    assert err.count("KeyboardInterrupt") == 1
    assert err.count("Traceback") == 1
    assert process.returncode == -signal.SIGINT
