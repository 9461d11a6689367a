"""However the program was started, its main module is not run again in the workers, and its classes work there."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.processes.helpers import environment, run_python

PROGRAM = textwrap.dedent(
    """\
    import collections, dataclasses, os
    import numpy as np
    import asyncloader as al

    with open(os.environ["RUNS"], "a") as runs:
        runs.write("run ")

    Point = collections.namedtuple("Point", "x y")

    @dataclasses.dataclass
    class Batch:
        points: list
        pid: int

    class Data:
        def __len__(self):
            return 12
        def __getitem__(self, position):
            return Point(np.full(3, position), scale(position))

    scale = lambda position: factor * position
    factor = 10

    def collate(points):
        return Batch(points, os.getpid())

    loader = al.DataLoader(Data(), 4, workers="processes", num_workers=2, collate_fn=collate)
    batches = list(loader)
    assert {type(batch) for batch in batches} == {Batch}
    assert {type(point) for batch in batches for point in batch.points} == {Point}
    assert os.getpid() not in {batch.pid for batch in batches}
    print([point.y for batch in batches for point in batch.points])
    """
)
RESULT = str([10 * position for position in range(12)])


@pytest.mark.parametrize("how", ["script", "script in a folder", "-c", "standard input", "-m", "-m package"])
def test_a_program_without_a_main_guard_runs_once(how: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    package = tmp_path / "package"
    package.mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    (package / "__main__.py").write_text(PROGRAM)
    (package / "__init__.py").write_text("")
    arguments, stdin = {
        "script": ([str(tmp_path / "program.py")], None),
        "script in a folder": ([str(package)], None),
        "-c": (["-c", PROGRAM], None),
        "standard input": (["-"], PROGRAM),
        "-m": (["-m", "program"], None),
        "-m package": (["-m", "package"], None),
    }[how]
    path = os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])
    result = run_python(*arguments, stdin=stdin, env={"RUNS": str(runs), "PYTHONPATH": path})
    assert result == (RESULT + "\n", "", 0)
    assert runs.read_text() == "run "


def _typed(program: str) -> str:
    """A program as it is typed at a prompt: an empty line ends each block."""
    lines = [line for line in program.splitlines() if line]
    typed: list[str] = []
    for line in lines:
        if typed and typed[-1].startswith(" ") and not line.startswith(" "):
            typed.append("")
        typed.append(line)
    return "\n".join(typed) + "\n"


def test_an_interactive_session_through_a_pipe_is_not_run_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    out, err, status = run_python("-i", "-q", stdin=_typed(PROGRAM), env={"RUNS": str(runs)})
    assert (out, status) == ("4\n" + RESULT + "\n", 0)
    assert not err.replace(">>> ", "").replace("... ", "").strip()
    assert runs.read_text() == "run "


@pytest.mark.posix
def test_an_interactive_session_at_a_terminal_is_not_run_again(tmp_path: Path) -> None:
    import pty

    runs = tmp_path / "runs"
    ours, theirs = pty.openpty()
    environ = environment({"RUNS": str(runs), "TERM": "dumb", "PYTHON_BASIC_REPL": "1"})
    process = subprocess.Popen([sys.executable, "-q"], stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    with process, os.fdopen(ours, "r+b", buffering=0) as terminal:
        screen = b""
        for line in [*_typed(PROGRAM).splitlines(), "exit()"]:
            while not screen.endswith((b">>> ", b"... ")):
                screen += terminal.read(4096)
            terminal.write(line.encode() + b"\n")
            screen = screen[:-1]  # wait for the next prompt
        try:
            while more := terminal.read(4096):
                screen += more
        except OSError:  # how a terminal says that the other side has closed it
            pass
        assert process.wait() == 0
    assert f"\n{RESULT}\r\n".encode() in screen
    assert b"Traceback" not in screen
    assert runs.read_text() == "run "
