"""What becomes of samples that fail, and of those that hang."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import asyncloader as al
from asyncloader.errors import LoaderTimeoutError, LoaderWarning, SampleError, WorkerError
from tests.loader.conftest import FailingAt, Squares


async def test_the_error_names_the_sample_and_keeps_the_cause(kind: dict[str, Any]) -> None:
    async with al.AsyncDataLoader(FailingAt(30, {13}), 5, **kind) as loader:
        stream = aiter(loader)
        assert [(await anext(stream))[1].tolist() for _ in range(2)] == [[0, 1, 4, 9, 16], [25, 36, 49, 64, 81]]
        with pytest.raises(SampleError, match=r"position 13.*KeyError.*no 13 here") as caught:
            await anext(stream)
        assert caught.value.position == 13
        assert isinstance(caught.value.__cause__, KeyError)
        # Nothing else is lost: who goes on gets the batches after it.
        assert (await anext(stream))[1].tolist() == [225, 256, 289, 324, 361]


async def test_skip_drops_the_sample_and_counts_and_says_so_once(kind: dict[str, Any]) -> None:
    async with al.AsyncDataLoader(FailingAt(30, {0, 13, 14, 29}), 5, on_error="skip", **kind) as loader:
        with pytest.warns(LoaderWarning, match="position 0") as caught:
            numbers = [n for _, batch in [b async for b in loader] for n in batch.tolist()]
        assert len(caught) == 1
        assert numbers == [i * i for i in range(30) if i not in {0, 13, 14, 29}]
        assert loader.stats()["skipped"] == 4


async def test_a_batch_of_which_nothing_is_left_is_left_out() -> None:
    async with al.AsyncDataLoader(FailingAt(12, {4, 5, 6, 7}), 4, on_error="skip", num_workers=2) as loader:
        with pytest.warns(LoaderWarning):
            assert [batch[1].tolist() async for batch in loader] == [[0, 1, 4, 9], [64, 81, 100, 121]]
        assert loader.state_dict()["epoch"] == 1


async def test_a_callable_gives_a_replacement(kind: dict[str, Any]) -> None:
    def replace(error: al.AsyncLoaderError) -> tuple[Any, int]:
        assert isinstance(error.__cause__, KeyError)
        return np.zeros(4, np.int32), -(error.position or 0)

    async with al.AsyncDataLoader(FailingAt(20, {3, 13}), 5, on_error=replace, **kind) as loader:
        numbers = [n for _, batch in [b async for b in loader] for n in batch.tolist()]
    assert numbers == [-i if i in (3, 13) else i * i for i in range(20)]


async def test_a_transform_that_exits_ends_neither_the_worker_nor_the_loop() -> None:
    class Exits(Squares):
        def __getitem__(self, position: int) -> Any:
            if position == 6:
                raise SystemExit(3)
            return super().__getitem__(position)

    async with al.AsyncDataLoader(Exits(12), 4, num_workers=1) as loader:
        stream = aiter(loader)
        await anext(stream)
        with pytest.raises(WorkerError, match="SystemExit"):
            await anext(stream)
        assert (await anext(stream))[1].tolist() == [64, 81, 100, 121]


async def test_a_sampler_that_fails_does_so_after_the_batches_before_it() -> None:
    class Broken:
        def __len__(self) -> int:
            return 20

        def __iter__(self) -> Any:
            yield from range(8)
            raise RuntimeError("the sampler broke")

    got = []
    async with al.AsyncDataLoader(Squares(20), 4, sampler=Broken(), num_workers=2, prefetch=8) as loader:

        async def consume() -> None:
            async for _, numbers in loader:
                got.append(numbers.tolist())

        with pytest.raises(RuntimeError, match="the sampler broke"):
            await consume()
    assert got == [[0, 1, 4, 9], [16, 25, 36, 49]]


class Hanging(Squares):
    """One sample waits until it is told not to."""

    def __init__(self, length: int, position: int) -> None:
        super().__init__(length, (4,))
        self.position = position
        self.release = threading.Event()

    def __getitem__(self, position: int) -> Any:
        if position == self.position:
            self.release.wait(60)
        return super().__getitem__(position)


async def test_a_timeout_names_the_batch_and_its_positions() -> None:
    dataset = Hanging(20, 6)
    try:
        async with al.AsyncDataLoader(dataset, 4, num_workers=2, timeout=0.3) as loader:
            stream = aiter(loader)
            await anext(stream)
            with pytest.raises(LoaderTimeoutError, match=r"batch 1 of epoch 0 \(positions 4, 5, 6, 7\).*0.3 s"):
                await anext(stream)
    finally:
        dataset.release.set()


async def test_after_a_timeout_the_rest_goes_on_where_errors_are_skipped() -> None:
    dataset = Hanging(40, 6)
    try:
        async with al.AsyncDataLoader(dataset, 4, num_workers=2, timeout=0.3, on_error="skip") as loader:
            with pytest.warns(LoaderWarning, match="batch 1 of epoch 0"):
                numbers = [n for _, batch in [b async for b in loader] for n in batch.tolist()]
            assert loader.stats()["timeouts"] == 1
    finally:
        dataset.release.set()
    assert numbers == [i * i for i in range(40) if i != 6]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_workers": -1}, "num_workers must be"),
        ({"num_workers": 1.5}, "num_workers must be"),
        ({"prefetch": 0}, "prefetch must be"),
        ({"max_bytes": 0}, "max_bytes must be"),
        ({"timeout": 0}, "timeout must be"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"workers": "fork"}, "'threads' or 'processes'"),
        ({"output": "tensorflow"}, "output must be"),
        ({"pin_memory": True}, "pin_memory is for output='torch'"),
        ({"threads_per_worker": 0}, "threads_per_worker must be"),
    ],
)
def test_wrong_arguments_say_what_is_right(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        al.AsyncDataLoader(Squares(3), **arguments)


def test_a_dataset_without_a_length_says_what_is_needed() -> None:
    with pytest.raises(TypeError, match=r"generator has no length.*__len__"):
        al.AsyncDataLoader(x for x in range(3))
