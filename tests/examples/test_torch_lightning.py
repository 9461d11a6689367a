"""The example of a Lightning loop runs with both kinds of workers, and learns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning")

EXAMPLE = Path(__file__).parents[2] / "examples" / "lightning_training.py"

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("workers", ["processes", "threads"])
def test_it_trains(workers: str) -> None:
    command = [sys.executable, str(EXAMPLE), "--count", "512", "--num-workers", "1", "--workers", workers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stderr
    accuracy, steps = float(done.stdout.split()[-4]), int(done.stdout.split()[-2])
    assert accuracy > 0.9
    assert steps == 32
