"""Iterable-style datasets: a copy in each worker, and the batches in PyTorch's order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.utils.data as data  # noqa: E402

from asyncloader.errors import LoaderWarning, WorkerCrashedError  # noqa: E402
from asyncloader.torch import DataLoader  # noqa: E402
from tests.conftest import LeakCheck  # noqa: E402
from tests.torch.helpers import Draws, Shards, assert_same  # noqa: E402

pytestmark = pytest.mark.torch

CASES: dict[str, tuple[data.IterableDataset, dict[str, Any]]] = {
    "even": (Shards(24), {"batch_size": 3}),
    "the second ends first": (Shards(24, extra=17), {"batch_size": 3}),
    "incomplete batches are dropped": (Shards(23, extra=6), {"batch_size": 4, "drop_last": True}),
    "one worker has nothing": (Shards(1, extra=9), {"batch_size": 4}),
    "nothing": (Shards(0), {"batch_size": 4}),
    "no batches": (Shards(7), {"batch_size": None}),
    "own collation": (Shards(20), {"batch_size": 4, "collate_fn": sum}),
    "one batch ahead": (Shards(30, extra=8), {"batch_size": 2, "prefetch_factor": 1}),
    "persistent": (Shards(13, extra=5), {"batch_size": 2, "persistent_workers": True}),
    "drawn from the workers' generators": (Draws(), {"batch_size": 2}),
}


@pytest.mark.allow_fork
@pytest.mark.parametrize("case", CASES)
def test_batches_equal_those_of_torch_in_order(case: str, no_leaks: LeakCheck) -> None:
    dataset, arguments = CASES[case]
    outcomes = []
    for loader_class in (data.DataLoader, DataLoader):
        torch.manual_seed(9)
        loader = loader_class(dataset, num_workers=2, **arguments)
        outcomes.append([list(loader) for _ in range(2)])
        del loader
    theirs, ours = outcomes
    assert_same(ours, theirs)


def test_inline_it_is_torchs_own() -> None:
    assert_same(list(DataLoader(Shards(9), 2)), list(data.DataLoader(Shards(9), 2)))


def test_out_of_order_each_worker_still_keeps_its_own(no_leaks: LeakCheck) -> None:
    batches = [batch.tolist() for batch in DataLoader(Shards(24, extra=3), 3, num_workers=2, in_order=False)]
    odd = [[1, 3, 5], [7, 9, 11], [13, 15, 17], [19, 21, 23]]
    even = [[0, 2, 4], [6, 8, 10], [12, 14, 16], [18, 20, 22], [1000, 1001, 1002]]
    assert [batch for batch in batches if batch in odd] == odd
    assert [batch for batch in batches if batch not in odd] == even


class Sized(Shards):
    def __len__(self) -> int:
        return 6


@pytest.mark.allow_fork
def test_more_than_was_promised_warns_as_torch_does() -> None:
    warned = []
    for loader_class in (data.DataLoader, DataLoader):
        loader = loader_class(Sized(9), num_workers=1)
        assert len(loader) == 6
        with pytest.warns(UserWarning, match="Length of IterableDataset") as caught:
            assert [batch.item() for batch in loader] == list(range(9))
        warned.append([str(warning.message).partition("object at")[::2] for warning in caught])
    theirs, ours = warned
    assert [start for start, _ in ours] == [start for start, _ in theirs]


class Failing(data.IterableDataset):
    def __iter__(self) -> Iterator[int]:
        yield from (1, 2)
        raise LookupError("no more")


def test_an_error_comes_after_what_was_before_it_and_the_pass_ends() -> None:
    batches = iter(DataLoader(Failing(), num_workers=1))
    assert [next(batches).item(), next(batches).item()] == [1, 2]
    with pytest.raises(LookupError, match="no more"):
        next(batches)
    assert list(batches) == []


class KillsItself(data.IterableDataset):
    def __init__(self, at: int, marker: Path) -> None:
        self.at = at
        self.marker = marker

    def __iter__(self) -> Iterator[int]:
        for number in range(6):
            if number == self.at and not self.marker.exists():
                self.marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield number


@pytest.mark.posix
def test_a_worker_killed_in_the_middle_is_an_error(tmp_path: Path) -> None:
    batches = iter(DataLoader(KillsItself(3, tmp_path / "killed"), num_workers=1, prefetch_factor=1))
    assert [next(batches).item() for _ in range(3)] == [0, 1, 2]
    with pytest.warns(LoaderWarning, match="ended by signal 9"), pytest.raises(WorkerCrashedError, match="is lost"):
        next(batches)


@pytest.mark.posix
def test_a_worker_killed_before_it_gave_anything_is_replaced(tmp_path: Path) -> None:
    with pytest.warns(LoaderWarning, match="ended by signal 9"):
        batches = list(DataLoader(KillsItself(0, tmp_path / "killed"), num_workers=1))
    assert [batch.item() for batch in batches] == list(range(6))


def test_threads_are_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="get_worker_info"):
        DataLoader(Shards(9), num_workers=1, workers="threads")


def test_datapipes_in_workers_are_refused() -> None:
    pipe = data.datapipes.iter.IterableWrapper(range(3))
    with pytest.raises(ValueError, match="DataPipes"):
        DataLoader(pipe, num_workers=1)
