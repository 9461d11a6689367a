"""Lightning and Accelerate take the loader, and it stays ours."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.utils.data as data  # noqa: E402

from asyncloader.torch import DataLoader, prepare  # noqa: E402
from tests.torch.helpers import Numbers, Shards  # noqa: E402

pytestmark = pytest.mark.torch


def test_lightning_makes_it_again_with_a_sampler_for_each_process() -> None:
    pytest.importorskip("lightning")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lightning.pytorch.utilities.data import _update_dataloader

    loader = DataLoader(
        Numbers(20), 4, num_workers=2, workers="threads", timeout=30, prefetch_factor=3, in_order=False, drop_last=True
    )
    again: Any = _update_dataloader(loader, data.DistributedSampler(Numbers(20), 2, 1, shuffle=False))
    assert type(again) is DataLoader
    names = ("num_workers", "workers", "timeout", "prefetch_factor", "in_order", "drop_last", "batch_size")
    assert [getattr(again, name) for name in names] == [getattr(loader, name) for name in names]
    assert sorted(number for batch in again for number in batch.tolist()) == [1, 3, 5, 7, 9, 11, 13, 15]


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_accelerate_prepares_it(workers: Any) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    loader = DataLoader(Numbers(22), 4, shuffle=True, num_workers=1, workers=workers, persistent_workers=True)
    prepared = prepare(accelerator, loader)
    assert type(prepared.base_dataloader) is DataLoader
    assert prepared.base_dataloader.workers == workers
    assert len(prepared) == 6
    model = accelerator.prepare(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        seen, ends = [], []
        for batch in prepared:
            with accelerator.accumulate(model):
                loss = model(batch[:, None].float()).mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            seen += accelerator.gather_for_metrics(batch).tolist()
            ends.append(prepared.end_of_dataloader)
        assert sorted(seen) == list(range(22))
        assert ends == [False] * 5 + [True]
    prepared.base_dataloader.close()


def test_accelerate_prepares_iterable_style_datasets() -> None:
    accelerate = pytest.importorskip("accelerate")
    loader = DataLoader(Shards(8, extra=3), 3, num_workers=1, drop_last=True)
    prepared = prepare(accelerate.Accelerator(cpu=True), loader)
    assert [batch.tolist() for batch in prepared] == [[0, 1, 2], [3, 4, 5], [6, 7, 1000]]


def test_a_loader_that_accelerate_makes_of_it_alone_does_not_fork() -> None:
    accelerate = pytest.importorskip("accelerate")
    prepared = accelerate.Accelerator(cpu=True).prepare(DataLoader(Numbers(4), num_workers=1))
    assert prepared.base_dataloader.multiprocessing_context.get_start_method() == "spawn"
    assert [batch.item() for batch in prepared] == [0, 1, 2, 3]
