"""The documentation's samples that need MXNet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ImageRecords
from tests.docs.blocks import Block, check_sample, samples
from tests.docs.sets import make_files

mxnet = pytest.importorskip("mxnet")
pytestmark = pytest.mark.mxnet


@pytest.mark.parametrize("block", samples("mxnet"), ids=str)
def test_a_sample_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image_records: ImageRecords, block: Block
) -> None:
    make_files(tmp_path, image_records)
    monkeypatch.chdir(tmp_path)
    check_sample(block)


# What the README's comparison says of MXNet's own loader.

KILLED = """
import os, signal, time
import mxnet.gluon.data

class Samples(mxnet.gluon.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, position):
        if position == 2:
            time.sleep(1)  # until the parent has taken what this process made before
            os.kill(os.getpid(), signal.SIGKILL)
        return position

for _ in mxnet.gluon.data.DataLoader(Samples(), 1, num_workers=1, timeout=3):
    pass
"""


def test_mxnets_loader_has_no_async_iteration_and_no_state() -> None:
    theirs = mxnet.gluon.data.DataLoader
    assert not hasattr(theirs, "__aiter__")
    assert not hasattr(theirs, "state_dict")


def test_mxnets_loader_waits_for_its_timeout_when_a_worker_was_killed() -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=50, check=False)
    assert ended.returncode == 1
    assert "TimeoutError" in ended.stderr
