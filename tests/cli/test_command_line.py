"""The program as it is run: by a shell, in a pipe, on a terminal, and interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import asyncloader
from tests.cli.conftest import Run
from tests.conftest import ImageRecords

COMMANDS = ("demo", "info", "index", "verify", "pack", "unpack", "bench")


def start(arguments: Sequence[object], **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "asyncloader", *map(str, arguments)]
    # The package under test, whatever folder the program is started in.
    environment = {**os.environ, "PYTHONPATH": str(Path(asyncloader.__file__).parents[1]), **options.pop("env", {})}
    defaults = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8", "errors": "replace"}
    return subprocess.Popen(command, env=environment, **{**defaults, **options})


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    with process:
        out, err = process.communicate(timeout=50)
    return process.returncode, out, err


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_examples(run: Run, command: str) -> None:
    outcome = run(command, "--help")
    assert outcome.status == 0
    assert f"asyncloader {command}" in outcome.out.split("Examples:")[1]


def test_the_help_lists_the_commands(run: Run) -> None:
    outcome = run("--help")
    assert all(command in outcome.out for command in COMMANDS)


def test_the_version_is_the_package_s(run: Run) -> None:
    assert run("--version").out == f"asyncloader {asyncloader.__version__}\n"


def test_wrong_usage_exits_with_2(run: Run) -> None:
    assert run("info").status == 2
    assert run("nonsense").status == 2
    assert run("verify", "x.rec", "--nonsense").status == 2


def test_an_error_is_one_line_and_status_1(tmp_path: Path) -> None:
    status, out, err = finish(start(["info", tmp_path / "nowhere.rec"]))
    assert (status, out) == (1, "")
    assert err.startswith("asyncloader: error: ")
    assert str(tmp_path / "nowhere.rec") in err
    assert len(err.splitlines()) == 1


def test_a_traceback_is_shown_where_asked(tmp_path: Path) -> None:
    asked = finish(start(["--traceback", "info", tmp_path / "nowhere.rec"]))
    set_up = finish(start(["info", tmp_path / "nowhere.rec"], env={"ASYNCLOADER_TRACEBACK": "1"}))
    for status, _, err in (asked, set_up):
        assert status == 1
        assert "Traceback" in err
        assert "MissingFileError" in err


def test_starting_loads_nothing_heavy() -> None:
    code = "import sys, asyncloader.cli.app; print([m for m in ('numpy', 'PIL', 'simplejpeg') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_results_go_to_stdout_and_nothing_to_stderr_in_a_pipe(image_records: ImageRecords) -> None:
    status, out, err = finish(start(["verify", image_records.path, "--json"]))
    assert (status, err) == (0, "")
    assert json.loads(out)["records"] == 70


def test_a_small_encoding_is_no_obstacle(image_records: ImageRecords, tmp_path: Path) -> None:
    path = tmp_path / "\u00fc\u65e5\u672c.rec"
    shutil.copyfile(image_records.path, path)
    environment = {"PYTHONIOENCODING": "cp1252"}
    for arguments in (["--help"], ["verify", "--help"], ["info", path], ["verify", path], ["index", path]):
        status, out, err = finish(start(arguments, env=environment, encoding="cp1252"))
        assert (status, err) == (0, ""), arguments
        assert out.isascii() or "\u00fc" in out


@pytest.mark.posix
@pytest.mark.parametrize("arguments", [["--help"], ["info"], ["info", "--json"]])
def test_a_reader_that_leaves_ends_the_program_quietly(image_records: ImageRecords, arguments: list[Any]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    if arguments != ["--help"]:
        arguments = [arguments[0], image_records.path, *arguments[1:]]
    process = start(arguments, stdout=writing)
    os.close(writing)
    status, _, err = finish(process)
    assert (status, err) == (1, "")


@pytest.mark.posix
def test_a_full_disk_is_an_error_and_not_silence(image_records: ImageRecords) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with open("/dev/full", "w") as full:
        status, _, err = finish(start(["info", image_records.path, "--json"], stdout=full))
    assert status == 1
    assert err == "asyncloader: error: No space left on device\n"


@pytest.mark.posix
def test_progress_shows_on_a_terminal_and_on_stderr_alone(image_records: ImageRecords, tmp_path: Path) -> None:
    import pty

    path = tmp_path / "copy.rec"
    shutil.copyfile(image_records.path, path)
    ours, theirs = pty.openpty()
    process = start(["index", path], stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # how Linux tells that the other end is closed
        pass
    finally:
        os.close(ours)
    status, out, _ = finish(process)
    assert status == 0
    assert b"Finding the records" in shown
    assert out == f"{tmp_path / 'copy.idx'}: 70 records\n"


@pytest.mark.posix
@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_ctrl_c_exits_with_130_and_says_nothing(tmp_path: Path, workers: str) -> None:
    with start(["demo", "--folder", tmp_path, "--workers", workers], start_new_session=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("epoch"):
            pass
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it too
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == ""


def test_the_demo_runs_by_itself_and_leaves_only_the_contact_sheet(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    names = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    status, out, err = finish(start(["demo", "--workers", "processes"], cwd=tmp_path, env=names))
    assert (status, err) == (0, "")
    assert "came exactly once" in out
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asyncloader-demo.png", "temporary"]
