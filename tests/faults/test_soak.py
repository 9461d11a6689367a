"""The soak of the benchmarks, for some seconds."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.processes.helpers import ROOT, run_python

pytestmark = [pytest.mark.posix, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")]


def test_batches_stay_right_and_nothing_grows_under_breaks_kills_and_epochs() -> None:
    script = Path(ROOT, "benchmarks", "soak.py")
    out, err, status = run_python(str(script), "--minutes", "0.3", "--records", "500")
    assert (status, err) == (0, ""), out
    rows = dict(re.findall(r"^\| ([a-z' ]+) \| (.*) \|$", out, re.MULTILINE))
    for name in ("epochs", "passes broken off", "resumed", "loaders opened", "batches", "samples checked"):
        threads, processes = (int(cell.replace(",", "")) for cell in rows[name].split(" | "))
        assert min(threads, processes) > 0, name
    assert rows["workers killed"].startswith("0 | ")
    assert int(rows["workers killed"].split(" | ")[1]) > 0
    for name in ("memory", "workers' memory", "descriptors", "threads", "segments", "processes"):
        assert rows[name].count(": flat") == 2, name
