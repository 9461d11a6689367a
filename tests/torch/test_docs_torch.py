"""The documentation's samples that need PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ImageRecords
from tests.docs.blocks import Block, check_sample, samples
from tests.docs.sets import make_files

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("block", samples("torch"), ids=str)
def test_a_sample_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image_records: ImageRecords, block: Block
) -> None:
    make_files(tmp_path, image_records)
    monkeypatch.chdir(tmp_path)
    check_sample(block)


# What the README's comparison says of PyTorch's own loader.

LOADER = """
import os, random, signal, sys, time
import torch.utils.data

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, position):
        if sys.argv[1] == "kill" and position == 5:
            time.sleep(1)  # until the parent has taken what this process made before
            os.kill(os.getpid(), signal.SIGKILL)
        return random.randrange(2**31)

torch.manual_seed(0)
loader = torch.utils.data.DataLoader(Samples(), 1, num_workers=int(sys.argv[2]), multiprocessing_context="fork")
print([int(batch) for batch in loader])
"""


def run_loader(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOADER, *arguments], capture_output=True, text=True, timeout=50, check=False
    )


def test_pytorchs_loader_has_no_async_iteration_and_no_state() -> None:
    theirs = torch.utils.data.DataLoader
    assert not hasattr(theirs, "__aiter__")
    assert not hasattr(theirs, "state_dict")


@pytest.mark.posix
def test_a_killed_worker_is_an_error_of_pytorchs_loader() -> None:
    ended = run_loader("kill", "2")
    assert ended.returncode == 1
    assert "killed by signal" in ended.stderr


@pytest.mark.posix
def test_random_numbers_depend_on_the_number_of_workers_in_pytorchs_loader() -> None:
    one, two = (run_loader("draw", workers).stdout for workers in ("1", "2"))
    assert one.startswith("[")
    assert two.startswith("[")
    assert one != two
    assert run_loader("draw", "1").stdout == one
