"""The example of a loop in JAX runs on four devices, and learns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

EXAMPLE = Path(__file__).parents[2] / "examples" / "jax_training.py"

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_it_trains_on_four_devices(workers: str) -> None:
    devices = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    command = [sys.executable, "-W", "error", str(EXAMPLE), "--count", "1000", "--workers", workers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, env={**os.environ, **devices})
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"15 batches on 4 devices, loss (\S+)", done.stdout)]
    assert len(losses) == 3
    assert losses[2] < 0.5 * losses[0]
