"""Every Python sample of the documentation runs, and prints what it is said to print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import LeakCheck
from tests.docs.blocks import PAGES, Block, blocks_of, check_sample, samples


@pytest.mark.parametrize("block", samples(), ids=str)
def test_a_sample_runs_and_prints_what_it_says(files: Path, no_leaks: LeakCheck, block: Block) -> None:
    check_sample(block)


def test_each_sample_needs_nothing_or_a_framework_that_is_tested() -> None:
    needs = {block.needs for page in PAGES for block in blocks_of(page)}
    assert needs == {None, "torch", "mxnet", "jax"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_fence_belongs_to_a_block_that_is_found(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    fences = [line for line in lines if line.startswith("```")]
    blocks = list(blocks_of(page))
    assert len(fences) == 2 * (len(blocks) + sum(block.prints is not None for block in blocks))
    assert {block.language for block in blocks} <= {"python", "sh", "text"}
