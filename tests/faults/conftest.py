"""Programs whose reads fail, come out short, or take long."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncloader import recordio
from tests.processes.helpers import run_python

#: ``run(kind, begin, end, code, *arguments)`` gives a program's output, errors and exit status.
Faulty = Callable[..., tuple[str, str, int]]

SHIM = Path(__file__).with_name("shim.c")


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that spoils reads; see what its source says."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("needs Linux and a C compiler (cc): a library between Python and the kernel makes reads fail")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(SHIM), "-ldl"]
    subprocess.run(command, check=True)
    return library


@pytest.fixture
def faulty(shim: Path, tmp_path: Path) -> Faulty:
    """Runs programs in which the bytes from ``begin`` to ``end`` of all files in the test's folder are spoiled."""

    def run(kind: str, begin: int, end: int, code: str, *arguments: object) -> tuple[str, str, int]:
        env = {
            "LD_PRELOAD": str(shim),
            "FAULT_FILES": str(tmp_path / "spoiled"),
            "FAULT_KIND": kind,
            "FAULT_BEGIN": str(begin),
            "FAULT_END": str(end),
            "FAULT_SECONDS": "30",
        }
        return run_python("-c", code, *map(str, arguments), env=env)

    return run


def payload(number: int, size: int) -> bytes:
    """What a record holds: of a length and with bytes of its own."""
    return (b"%08d" % number) * (size // 8) + bytes(number % 5)


def write_records(folder: Path, count: int, size: int) -> tuple[Path, list[int]]:
    """Write a set whose files' names begin as those that are spoiled do; its path, and where each record begins."""
    path = folder / "spoiled.rec"
    with recordio.RecordWriter(path, folder / "spoiled.idx") as writer:
        for number in range(count):
            writer.write(payload(number, size))
    index = (folder / "spoiled.idx").read_text().splitlines()
    return path, [int(line.split("\t")[1]) for line in index]
