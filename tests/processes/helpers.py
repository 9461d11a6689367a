"""Datasets, and ways to see worker processes, that the tests of processes share."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import asyncloader

ROOT = Path(asyncloader.__file__).parents[1]

#: Whether the kernel ends workers with their parent. Else the end of their connection tells them, which needs the GIL.
KERNEL_ENDS_WORKERS = sys.platform == "linux" and not hasattr(sys.modules.get("sitecustomize"), "AS_MACOS")


#: Seconds within which a batch comes from workers that have yet to start, also when the machine is busy. Under Wine,
#: which the tests for Windows may be run by, an interpreter takes that long.
TIMEOUT = 1.5 if sys.platform != "win32" else 6.0


class Numbers:
    """Sample ``i`` is an array full of ``i``, and ``i`` itself."""

    def __init__(self, length: int, shape: tuple[int, ...] = (8,)) -> None:
        self.length = length
        self.shape = shape

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: int) -> tuple[Any, int]:
        return np.full(self.shape, position, np.int32), position


class Acting(Numbers):
    """Does something for some samples before it gives them."""

    def __init__(self, length: int, at: set[int], action: Callable[[int], Any]) -> None:
        super().__init__(length)
        self.at = at
        self.action = action

    def __getitem__(self, position: int) -> tuple[Any, int]:
        if position in self.at:
            self.action(position)
        return super().__getitem__(position)


class Pids(Numbers):
    """Samples say which process made them."""

    def __getitem__(self, position: int) -> tuple[int, int]:
        return os.getpid(), position


def hold_the_gil(position: int) -> None:
    """Never end, and let no other thread run: a regular expression's search goes through 2 ** 60 ways to fail."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def numbers(batches: list[Any]) -> list[int]:
    """The samples' numbers in batches of :class:`Numbers`, after a look at the arrays beside them."""
    for arrays, labels in batches:
        assert (arrays.reshape(len(labels), -1) == labels[:, None]).all()
    return [number for _, labels in batches for number in labels.tolist()]


def shared_blocks(pid: int | str = "self") -> list[str]:
    """The lines of a process's memory map that are blocks it shares with others: memfds, or objects without a name."""
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "memfd:asyncloader" in line or re.search(r"/dev/shm/.*\(deleted\)$", line)]


def worker_processes(pid: int | None = None) -> list[psutil.Process]:
    """The living worker processes of a process, those that are starting among them."""
    found = []
    for child in psutil.Process(pid).children():
        try:
            if child.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
        except (psutil.NoSuchProcess, OSError):  # the second where Windows has it end at that moment
            continue
    return found


def wait_until(condition: Callable[[], Any], seconds: float = 20) -> bool:
    """Whether a condition comes to hold within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def gone(pids: list[int], seconds: float = 2.0) -> bool:
    """Whether processes end within the time; those that do not are killed, to be a burden on no other test."""
    if wait_until(lambda: not any(map(_lives, pids)), seconds):
        return True
    for pid in filter(_lives, pids):
        psutil.Process(pid).kill()
    return False


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a script that imports the package under test."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **(more or {})}


def run_python(
    *arguments: str, stdin: str | None = None, env: Mapping[str, str] | None = None, timeout: float = 50
) -> tuple[str, str, int]:
    """Run a Python of its own to its end; its output, its errors, its exit status."""
    run = subprocess.run(
        [sys.executable, *arguments],
        input=stdin or "",
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return run.stdout, run.stderr, run.returncode


@contextmanager
def script(path: Path, code: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a script as the leader of its own session, so that the terminal's Ctrl-C can be played to it."""
    path.write_text(textwrap.dedent(code), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(env),
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
