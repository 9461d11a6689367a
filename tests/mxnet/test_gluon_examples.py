"""A Gluon script trains as before when one import line is changed."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from pathlib import Path

import pytest

mx = pytest.importorskip("mxnet")

from tests.conftest import ImageRecords  # noqa: E402

pytestmark = pytest.mark.mxnet

ROOT = Path(__file__).parents[2]
BEFORE, AFTER = ROOT / "examples" / "gluon_before.py", ROOT / "examples" / "gluon_after.py"


def run(script: Path, records: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), str(records)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_the_scripts_differ_in_one_import_line() -> None:
    lines = difflib.ndiff(BEFORE.read_text().splitlines(), AFTER.read_text().splitlines())
    assert [line for line in lines if line[0] in "-+"] == [
        "- from mxnet.gluon.data import DataLoader",
        "+ from asyncloader.gluon import DataLoader",
    ]


def test_both_train_and_see_the_same_images_epoch_by_epoch(image_records: ImageRecords) -> None:
    before, after = run(BEFORE, image_records.path), run(AFTER, image_records.path)
    assert len(after) == 3
    # "epoch 0: 64 images, loss 2.311": the loss's last digit depends on the order in which threads add numbers up.
    assert [line.split(",")[0] for line in after] == [line.split(",")[0] for line in before]
    losses = [[float(line.rsplit(" ", 1)[1]) for line in lines] for lines in (before, after)]
    assert losses[1] == pytest.approx(losses[0], abs=0.01)
    assert losses[1][-1] < losses[1][0]
