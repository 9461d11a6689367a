"""What comes out: all samples, in order, the same for any workers, pass after pass."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

import numpy as np
import pytest

import asyncloader as al
from tests.loader.conftest import KINDS, Squares


async def collect(loader: al.AsyncDataLoader) -> list[Any]:
    return [batch async for batch in loader]


async def test_each_sample_comes_once_in_order_with_its_own_content(kind: dict[str, Any], no_leaks: object) -> None:
    async with al.AsyncDataLoader(Squares(103), 10, **kind) as loader:
        batches = await collect(loader)
    assert [len(numbers) for _, numbers in batches] == [10] * 10 + [3]
    assert np.concatenate([numbers for _, numbers in batches]).tolist() == [i * i for i in range(103)]
    assert np.concatenate([arrays[:, 0, 0] for arrays, _ in batches]).tolist() == list(range(103))
    assert all((arrays == arrays[:, :1, :1]).all() for arrays, _ in batches)


async def test_a_batch_that_is_kept_never_changes(kind: dict[str, Any]) -> None:
    async with al.AsyncDataLoader(Squares(400), 8, shuffle=True, **kind) as loader:
        kept, copies, parts = [], [], []
        for _ in range(3):
            async for arrays, numbers in loader:
                if len(kept) % 3 == 0:
                    parts.append((arrays[3:5, 1], arrays[3:5, 1].copy()))  # only a view of it is kept
                kept.append((arrays, numbers))
                copies.append((arrays.copy(), numbers.copy()))
                if len(kept) % 5 == 0:
                    kept.pop(0), copies.pop(0)
    for (arrays, numbers), (arrays_then, numbers_then) in zip(kept, copies, strict=True):
        assert (arrays == arrays_then).all()
        assert (numbers == numbers_then).all()
    assert all((now == then).all() for now, then in parts)


async def test_batches_are_the_same_for_any_workers() -> None:
    class Augmented(Squares):
        pass

    results = []
    for arguments in KINDS.values():
        async with al.AsyncDataLoader(Augmented(57), 8, shuffle=True, seed=3, **arguments) as loader:
            results.append([[a.tobytes() + n.tobytes() for a, n in await collect(loader)] for _ in range(2)])
    assert all(result == results[0] for result in results[1:])
    assert results[0][0] != results[0][1]  # another epoch, another order


async def test_the_batches_do_not_depend_on_prefetch_or_bytes_under_way() -> None:
    expected = None
    for arguments in ({}, {"prefetch": 1}, {"prefetch": 13}, {"max_bytes": 1}, {"max_bytes": 300_000}):
        async with al.AsyncDataLoader(Squares(61), 4, shuffle=True, num_workers=3, **arguments) as loader:
            got = [numbers.tolist() for _, numbers in await collect(loader)]
        expected = expected or got
        assert got == expected


async def test_several_consumers_each_get_their_own_pass(kind: dict[str, Any]) -> None:
    async with al.AsyncDataLoader(Squares(40), 7, **kind) as loader:
        passes = await asyncio.gather(*(collect(loader) for _ in range(3)))
    for batches in passes:
        assert np.concatenate([numbers for _, numbers in batches]).tolist() == [i * i for i in range(40)]


async def test_two_loaders_share_a_loop() -> None:
    async with al.AsyncDataLoader(Squares(30), 4) as one, al.AsyncDataLoader(Squares(50), 9) as other:
        left, right = await asyncio.gather(collect(one), collect(other))
    assert len(left) == 8
    assert len(right) == 6


def test_one_loader_serves_event_loops_in_succession() -> None:
    loader = al.AsyncDataLoader(Squares(20), 6, num_workers=2)
    for _ in range(3):
        assert len(asyncio.run(collect(loader))) == 4
    asyncio.run(loader.aclose())


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop has no Windows")
def test_it_runs_under_uvloop(kind: dict[str, Any]) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> int:
        async with al.AsyncDataLoader(Squares(50), 8, **kind) as loader:
            return len(await collect(loader))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == 7


@pytest.mark.parametrize("length", [0, 1, 5])
async def test_small_sets_and_batches_larger_than_them(length: int, kind: dict[str, Any]) -> None:
    async with al.AsyncDataLoader(Squares(length), 8, **kind) as loader:
        batches = await collect(loader)
    assert len(batches) == (length > 0)
    assert sum(len(numbers) for _, numbers in batches) == length


async def test_no_batch_size_gives_single_samples() -> None:
    async with al.AsyncDataLoader(Squares(5), None, num_workers=2) as loader:
        samples = await collect(loader)
    assert [number for _, number in samples] == [0, 1, 4, 9, 16]
    assert samples[2][0].shape == (64, 64)


async def test_out_of_order_gives_the_rest_while_one_batch_is_slow() -> None:
    import threading

    gate = threading.Event()

    class Slow(Squares):
        def __getitem__(self, position: int) -> Any:
            if position == 0:
                assert gate.wait(20)
            return super().__getitem__(position)

    async with al.AsyncDataLoader(Slow(12), 2, num_workers=2, in_order=False, prefetch=3) as loader:
        stream = aiter(loader)
        first = [(await anext(stream))[1].tolist() for _ in range(4)]
        gate.set()
        rest = [numbers.tolist() async for _, numbers in stream]
    assert [0, 1] not in first
    assert sorted(itertools.chain(*first, *rest)) == [i * i for i in range(12)]


async def test_read_many_gets_whole_batches() -> None:
    asked = []

    class Many:
        def __len__(self) -> int:
            return 10

        def read_many(self, positions: list[int]) -> list[int]:
            asked.append(list(positions))
            return [10 * position for position in positions]

    async with al.AsyncDataLoader(Many(), 4, num_workers=1) as loader:
        assert [batch.tolist() async for batch in loader] == [[0, 10, 20, 30], [40, 50, 60, 70], [80, 90]]
    assert asked == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


async def test_a_transform_draws_the_same_whatever_the_workers(tmp_path: Any) -> None:
    from asyncloader import recordio

    with recordio.RecordWriter(tmp_path / "a.rec", tmp_path / "a.idx") as writer:
        for number in range(40):
            writer.write(bytes([number]))

    def noisy(record: bytes, rng: np.random.Generator) -> tuple[int, float]:
        return record[0], float(rng.random())

    results = []
    for arguments in KINDS.values():
        dataset = al.RecordDataset(tmp_path / "a.rec", transform=noisy)
        async with al.AsyncDataLoader(dataset, 8, shuffle=True, seed=7, **arguments) as loader:
            results.append([[(n.tolist(), r.tolist()) for n, r in await collect(loader)] for _ in range(2)])
    assert all(result == results[0] for result in results[1:])
    draws, again = (
        {number: draw for numbers, rs in batches for number, draw in zip(numbers, rs, strict=True)}
        for batches in results[0]
    )
    assert len(set(draws.values())) == 40
    assert all(draws[number] != again[number] for number in draws)  # every epoch draws anew


async def test_processes_seed_the_global_generators_for_each_sample() -> None:
    class Global:
        def __len__(self) -> int:
            return 24

        def __getitem__(self, position: int) -> tuple[float, float]:
            import random

            return random.random(), np.random.rand()

    results = []
    for workers in (1, 3):
        async with al.AsyncDataLoader(Global(), 4, workers="processes", num_workers=workers) as loader:
            results.append([(a.tolist(), b.tolist()) async for a, b in loader])
    assert results[0] == results[1]
    assert len({draw for a, _ in results[0] for draw in a}) == 24
