"""The documentation's samples that need JAX."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ImageRecords
from tests.docs.blocks import Block, check_sample, samples
from tests.docs.sets import make_files

pytest.importorskip("jax")
pytestmark = pytest.mark.jax


@pytest.mark.parametrize("block", samples("jax"), ids=str)
def test_a_sample_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image_records: ImageRecords, block: Block
) -> None:
    make_files(tmp_path, image_records)
    monkeypatch.chdir(tmp_path)
    check_sample(block)
