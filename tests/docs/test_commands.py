"""Every shell block of the documentation runs, or is what the project itself runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from asyncloader.cli.app import app
from tests.docs.blocks import PAGES, ROOT, blocks_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SET_UP = "python3 -m venv .venv && .venv/bin/pip install "
DEMO, TESTS = SET_UP + ". && .venv/bin/asyncloader demo", SET_UP + "nox && .venv/bin/nox"

SHELL = [(block, block.text.splitlines()) for page in PAGES for block in blocks_of(page) if block.language == "sh"]
LINES = [pytest.param(line, id=f"{block}:{line}") for block, lines in SHELL for line in lines]


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_a_set_up_or_a_command(line: str) -> None:
    assert line in (DEMO, TESTS) or line.startswith("asyncloader ")


@pytest.mark.parametrize("lines", [pytest.param(lines, id=str(block)) for block, lines in SHELL])
def test_the_commands_of_a_block_run_one_after_another(files: Path, lines: list[str]) -> None:
    for line in lines:
        if line.startswith("asyncloader "):
            command, _, remark = line.partition("#")
            says = re.search(r"exit status (\d+)", remark)
            result = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="asyncloader")
            assert result.exit_code == (int(says[1]) if says else 0), f"{line}\n{result.output}"


@pytest.mark.slow
def test_the_demo_trains_and_ends_in_time(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "asyncloader", "demo"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=55, check=False, cwd=tmp_path, env=environment
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "each of 6,000 samples came exactly once" in ended.stdout
    assert (tmp_path / "asyncloader-demo.png").is_file()


def test_the_readme_begins_with_the_demo_and_the_tests() -> None:
    first, second = (lines for block, lines in SHELL[:2] if block.page.name == "README.md")
    assert (first, second) == ([DEMO], [TESTS])


def test_the_installation_brings_the_command() -> None:
    assert PROJECT["scripts"]["asyncloader"].partition(":")[0] == "asyncloader.cli"
    assert "demo" in app_commands()


def test_ci_runs_the_very_command_that_the_readme_gives_for_the_tests() -> None:
    assert TESTS in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_readme_lists_every_command() -> None:
    rows = re.findall(r"^\| `asyncloader (\w+)[^`]*` \|", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == app_commands()


def test_every_extra_that_is_named_is_there() -> None:
    named = {extra for page in PAGES for extra in re.findall(r"asyncloader\[(\w+)\]", page.read_text(encoding="utf-8"))}
    assert named
    assert named <= set(PROJECT["optional-dependencies"])


def test_every_option_that_is_named_is_one_of_a_command() -> None:
    named = {o for page in PAGES for o in re.findall(r"`(--[a-z-]+)", page.read_text(encoding="utf-8"))}
    group = get_command(app)
    known = {name for command in group.commands.values() for parameter in command.params for name in parameter.opts}
    assert named <= known | {name for parameter in group.params for name in parameter.opts} | {"--help"}


def app_commands() -> list[str]:
    return list(get_command(app).commands)
