"""Where a framework is missing, whoever asks for it is told which extra to install."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
import sys
sys.modules[{framework!r}] = None  # so that importing it fails, installed or not
import asyncloader
try:
    {statement}
except ({error}) as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("framework", "statement", "error"),
    [
        ("torch", "import asyncloader.torch", "ImportError"),
        ("torch", "asyncloader.DataLoader([1], output='torch')", "asyncloader.AsyncLoaderError"),
        ("jax", "import asyncloader.jax", "ImportError"),
        ("jax", "asyncloader.DataLoader([1], output='jax')", "asyncloader.AsyncLoaderError"),
        ("mxnet", "import asyncloader.gluon", "ImportError"),
        ("mxnet", "asyncloader.DataLoader([1], output='mxnet')", "asyncloader.AsyncLoaderError"),
    ],
)
def test_the_error_names_the_extra(framework: str, statement: str, error: str) -> None:
    script = textwrap.dedent(SCRIPT).format(framework=framework, statement=statement, error=error)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert f"pip install 'asyncloader[{framework}]'" in done.stdout
