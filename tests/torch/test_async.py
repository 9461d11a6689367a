"""The loader as an async iterable."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.utils.data as data  # noqa: E402

from asyncloader.errors import LoaderTimeoutError  # noqa: E402
from asyncloader.torch import DataLoader  # noqa: E402
from tests.conftest import LeakCheck  # noqa: E402
from tests.torch.helpers import KINDS, Nested, Numbers, Shards, assert_same  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("kind", KINDS)
async def test_async_for_gives_what_for_gives(kind: str, no_leaks: LeakCheck) -> None:
    torch.manual_seed(1)
    theirs = list(data.DataLoader(Nested(), 4, shuffle=True))
    torch.manual_seed(1)
    assert_same([batch async for batch in DataLoader(Nested(), 4, shuffle=True, **KINDS[kind])], theirs)


async def test_iterable_style_datasets_come_to_their_end(no_leaks: LeakCheck) -> None:
    loader = DataLoader(Shards(7, extra=4), 2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        batches = [batch.tolist() async for batch in loader]
        assert batches == [[0, 2], [1, 3], [4, 6], [5], [1000, 1001], [1002, 1003]]
    loader.close()


class Gated(Numbers):
    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.gate = threading.Event()

    def __getitem__(self, index: int) -> torch.Tensor:
        assert self.gate.wait(20)
        return super().__getitem__(index)


async def test_the_loop_is_free_while_a_batch_is_made_and_a_wait_can_be_given_up() -> None:
    dataset = Gated(3)
    batches: Any = aiter(DataLoader(dataset, num_workers=1, workers="threads"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(batches), 0.05)
    asyncio.get_running_loop().call_later(0.05, dataset.gate.set)
    assert [batch.item() async for batch in batches] == [0, 1, 2]


async def test_two_tasks_cannot_wait_for_one_pass() -> None:
    dataset = Gated(3)
    batches: Any = aiter(DataLoader(dataset, num_workers=1, workers="threads"))
    first = asyncio.ensure_future(anext(batches))
    await asyncio.sleep(0.01)
    with pytest.raises(RuntimeError, match="two tasks"):
        await anext(batches)
    dataset.gate.set()
    assert (await first).item() == 0


async def test_a_timeout_names_the_batch() -> None:
    dataset = Gated(3)
    with pytest.raises(LoaderTimeoutError, match="batch 0"):
        await anext(aiter(DataLoader(dataset, num_workers=1, workers="threads", timeout=0.05)))
    dataset.gate.set()


async def test_a_break_leaves_nothing(no_leaks: LeakCheck) -> None:
    async for batch in DataLoader(Numbers(1000), num_workers=2):
        assert batch.tolist() == [0]
        break
