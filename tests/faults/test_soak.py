"""The soak of the benchmarks, for some seconds, and what it calls growth."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.processes.helpers import ROOT, run_python

pytestmark = [pytest.mark.posix, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")]

SOAK = Path(ROOT, "benchmarks", "soak.py")


@pytest.mark.timeout(240)
def test_batches_stay_right_and_nothing_grows_under_breaks_kills_and_epochs() -> None:
    out, err, status = run_python(str(SOAK), "--minutes", "0.5", "--records", "500", timeout=200)
    assert (status, err) == (0, ""), out
    rows = dict(re.findall(r"^\| ([a-z' ]+) \| (.*) \|$", out, re.MULTILINE))
    for name in ("epochs", "batches", "samples checked"):
        threads, processes = (int(cell.replace(",", "")) for cell in rows[name].split(" | "))
        assert min(threads, processes) > 0, name
    assert rows["kills survived"].startswith("0 | ")
    assert int(rows["kills survived"].split(" | ")[1]) > 0
    for name in ("memory", "workers' memory", "descriptors", "threads", "segments", "processes"):
        assert "GROWS" not in rows[name], name


def verdict(values: Any) -> str:
    slope = runpy.run_path(str(SOAK))["Slope"]
    seconds = np.arange(len(values), dtype=float)
    return slope.of(seconds, np.array(values, float), 1 / len(values)).verdict  # type: ignore[no-any-return]


def test_what_is_called_growth() -> None:
    noise = np.random.default_rng(0).integers(-3, 4, 60)
    assert verdict([9] * 60) == "flat"
    assert verdict(9 + noise) == "flat"
    assert verdict(9 - np.arange(60)) == "flat"
    assert verdict([9] * 59 + [40]) == "flat"
    assert verdict(np.arange(60)) == "GROWS"
    assert verdict(np.arange(60) // 5 + noise) == "GROWS"  # one in five looks, below the noise
    assert verdict(np.arange(8)) == "GROWS"
    assert verdict(np.arange(6)) == "too short a run to tell"
