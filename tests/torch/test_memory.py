"""Where tensors lie: in the memory that processes share, from the worker to the consumer and the other way."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.utils.data as data  # noqa: E402

import asyncloader as al  # noqa: E402
from asyncloader.errors import WorkerError  # noqa: E402
from asyncloader.torch import DataLoader  # noqa: E402
from tests.conftest import ImageRecords  # noqa: E402
from tests.torch.helpers import Numbers  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


def shared_blocks(pid: int | str = "self") -> list[range]:
    """The addresses of the loaders' shared blocks in a process."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    bounds = (line.split()[0].split("-") for line in lines if "memfd:asyncloader" in line)
    return [range(int(start, 16), int(stop, 16)) for start, stop in bounds]


def is_shared(tensor: torch.Tensor) -> bool:
    """Whether all of a tensor's storage lies in one of the blocks."""
    storage = tensor.untyped_storage()
    first, last = storage.data_ptr(), storage.data_ptr() + storage.nbytes() - 1
    return any(first in block and last in block for block in shared_blocks())


class Planes(Numbers):
    """Sample ``i`` is full of ``i``, as a tensor and as an array."""

    def __getitem__(self, index: int) -> Any:
        plane = torch.full((16, 64), index, dtype=torch.int32)
        return plane, plane.numpy() + 1, {"float": float(index)}


def _collate(samples: list[Any]) -> Any:
    return data.default_collate(samples)


@pytest.mark.parametrize("collate_fn", [None, _collate], ids=["default", "own"])
def test_batches_from_processes_lie_in_shared_memory(collate_fn: Any) -> None:
    for number, batch in enumerate(DataLoader(Planes(120), 4, num_workers=2, collate_fn=collate_fn)):
        first, second, third = batch
        if number > 8:  # the first ones tell how large a block must be
            assert is_shared(first)
            assert is_shared(second)
            assert is_shared(third["float"])


def test_batches_from_processes_stay_as_they_are_while_memory_is_used_again() -> None:
    kept = []
    for number, batch in enumerate(DataLoader(Planes(800), 4, num_workers=2)):
        if number % 30 == 9:
            kept.append((number, batch))
    assert len(kept) == 7
    for number, (first, second, third) in kept:
        indexes = torch.arange(4 * number, 4 * number + 4)
        assert torch.equal(first, indexes.int()[:, None, None].expand(4, 16, 64))
        assert torch.equal(second, first + 1)
        assert torch.equal(third["float"], indexes.double())


def last(batches: Iterable[Any]) -> Any:
    """The last batch, none of the others kept."""
    for batch in batches:
        kept = batch
    return kept


def test_a_kept_batch_outlives_its_loader() -> None:
    first, _, _ = last(DataLoader(Planes(80), 4, num_workers=1))
    assert is_shared(first)
    assert first[:, 3, 5].tolist() == [76, 77, 78, 79]
    first += 1  # it is the consumer's to write to
    assert first[:, 3, 5].tolist() == [77, 78, 79, 80]


def test_pictures_are_decoded_where_their_batch_lies(image_records: ImageRecords) -> None:
    pictures, labels = last(DataLoader(al.ImageRecordDataset(image_records.path), 10, num_workers=1))
    assert is_shared(pictures)
    assert pictures.shape == (10, 40, 48, 3)
    assert torch.equal(pictures[4], torch.from_numpy(image_records.pixels(64)))
    assert labels.tolist() == image_records.labels[60:]


async def test_the_output_of_our_own_loader_shares_memory_with_its_arrays() -> None:
    arrays = al.ArrayDataset(np.arange(40 * 900, dtype=np.float32).reshape(40, 900), np.arange(40))
    async with al.AsyncDataLoader(arrays, 2, workers="processes", num_workers=1, output="torch") as loader:
        async for batch in loader:
            rows, labels = batch
    assert is_shared(rows)
    assert is_shared(labels)
    assert rows[1, :2].tolist() == [39 * 900, 39 * 900 + 1]


def test_batches_from_threads_stay_as_they_are_while_memory_is_used_again() -> None:
    addresses, kept = set(), []
    for number, (first, _, _) in enumerate(DataLoader(Planes(4000), 40, num_workers=1, workers="threads")):
        addresses.add(first.data_ptr())
        if number % 25 == 3:
            kept.append((number, first))
    assert len(addresses) < 50
    assert [first[:, 0, 0].tolist() for _, first in kept] == [
        list(range(40 * number, 40 * number + 40)) for number, _ in kept
    ]


class WhereItLies(Numbers):
    """Says whether the tensor it holds is in a block that it shares with the other workers."""

    def __init__(self) -> None:
        super().__init__(1)
        self.tensor = torch.ones(50_000, requires_grad=True)

    def __getitem__(self, index: int) -> tuple[bool, bool, float, int]:
        return is_shared(self.tensor), self.tensor.requires_grad, float(self.tensor.detach().sum()), os.getpid()


def test_a_datasets_tensors_are_mapped_by_the_workers_instead_of_copied() -> None:
    [(shared, requires_grad, total, pid)] = DataLoader(WhereItLies(), num_workers=1, collate_fn=lambda batch: batch[0])
    assert (shared, requires_grad, total) == (True, True, 50_000)
    assert pid != os.getpid()


def test_a_tensor_in_torchs_own_shared_memory_is_refused() -> None:
    dataset = Numbers(3)
    dataset.epoch = torch.zeros(1).share_memory_()  # type: ignore[attr-defined]
    with pytest.raises(WorkerError, match="would not reach the workers"):
        iter(DataLoader(dataset, num_workers=1))
