"""Batches as arrays of JAX."""

from __future__ import annotations

import asyncio
import gc
import itertools
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

import asyncloader as al  # noqa: E402
from tests.conftest import LeakCheck  # noqa: E402

pytestmark = pytest.mark.jax

KINDS: dict[str, dict[str, Any]] = {
    "inline": {"num_workers": 0},
    "threads": {"num_workers": 2},
    "processes": {"num_workers": 2, "workers": "processes"},
}


class Planes:
    """Sample ``i`` is full of ``i``, and the number ``i``, and a word."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: int) -> dict[str, Any]:
        return {"plane": np.full((32, 33), position, np.float32), "rest": (position, f"word {position}")}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    return KINDS[request.param]


def spread() -> NamedSharding:
    """Over four devices, by the first axis."""
    return NamedSharding(jax.make_mesh((4,), ("batch",)), PartitionSpec("batch"))


async def test_batches_are_jaxs_arrays_of_the_same_values(kind: dict[str, Any], no_leaks: LeakCheck) -> None:
    async with al.AsyncDataLoader(Planes(21), 4, shuffle=True, output="jax", **kind) as loader:
        ours = [batch async for batch in loader]
    async with al.AsyncDataLoader(Planes(21), 4, shuffle=True, num_workers=0) as loader:
        plain = [batch async for batch in loader]
    assert len(ours) == len(plain) == 6
    for batch, expected in zip(ours, plain, strict=True):
        assert isinstance(batch["plane"], jax.Array)
        assert isinstance(batch["rest"][0], jax.Array)
        assert batch["plane"].dtype == np.float32
        np.testing.assert_array_equal(batch["plane"], expected["plane"])
        np.testing.assert_array_equal(batch["rest"][0], expected["rest"][0])
        assert batch["rest"][1] == expected["rest"][1]


def test_a_plain_for_gives_them_too(kind: dict[str, Any]) -> None:
    with al.DataLoader(Planes(8), 4, output="jax", **kind) as loader:
        assert [batch["rest"][0].tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("sharding", [None, spread], ids=["one device", "four devices"])
def test_kept_arrays_stay_as_they_are_while_memory_is_used_again(kind: dict[str, Any], sharding: Any) -> None:
    """JAX may look into the loader's memory on the CPU, and only as long as its array is there."""
    kept, addresses = [], []
    arguments = {"sharding": sharding()} if sharding is not None else {}
    with al.DataLoader(Planes(4000), 40, output="jax", **kind, **arguments) as loader:
        for number, batch in enumerate(loader):
            addresses.append(batch["plane"].addressable_shards[0].data.unsafe_buffer_pointer())
            if number % 9 == 4:
                kept.append((number, batch["plane"], batch["plane"] + 0))
    assert len(set(addresses)) < len(addresses)
    assert len(kept) == 11
    for number, plane, derived in kept:
        expected = np.arange(40 * number, 40 * number + 40, dtype=np.float32)[:, None, None]
        np.testing.assert_array_equal(plane, np.broadcast_to(expected, (40, 32, 33)))
        np.testing.assert_array_equal(derived, plane)


def test_donated_arrays_do_not_end_up_in_memory_that_is_used_again() -> None:
    step = jax.jit(lambda plane: plane + 0.5, donate_argnums=0)
    with al.DataLoader(Planes(1200), 40, output="jax", num_workers=2) as loader:
        results = [step(batch["plane"]) for batch in loader]
    for number, result in enumerate(results):
        np.testing.assert_array_equal(result[:, 3, 4], np.arange(40 * number, 40 * number + 40) + 0.5)


def test_a_sharding_spreads_each_array_over_the_devices(kind: dict[str, Any]) -> None:
    assert jax.device_count() == 4
    with al.DataLoader(Planes(24), 8, output="jax", sharding=spread(), **kind) as loader:
        batches = list(loader)
    assert len(batches) == 3
    for number, batch in enumerate(batches):
        for array in (batch["plane"], batch["rest"][0]):
            assert array.sharding.is_equivalent_to(spread(), array.ndim)
            assert len({shard.device for shard in array.addressable_shards}) == 4
        for part, shard in enumerate(batch["plane"].addressable_shards):
            assert shard.data.shape == (2, 32, 33)
            assert shard.data[:, 0, 0].tolist() == [8 * number + 2 * part, 8 * number + 2 * part + 1]


def test_a_batch_that_cannot_be_spread_is_an_error_after_those_that_can(kind: dict[str, Any]) -> None:
    with al.DataLoader(Planes(19), 8, output="jax", sharding=spread(), **kind) as loader:
        batches = iter(loader)
        assert [len(next(batches)["plane"]) for _ in range(2)] == [8, 8]
        with pytest.raises(ValueError, match=r"shape \(3, 32, 33\) cannot be spread .*last_batch='discard'"):
            next(batches)
    with al.DataLoader(Planes(19), 8, output="jax", sharding=spread(), last_batch="discard", **kind) as loader:
        assert len(list(loader)) == 2


def live_planes() -> int:
    """How many whole batches of planes are on the devices."""
    return sum(array.shape == (5, 32, 33) and not array.is_deleted() for array in jax.live_arrays())


@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("in_order", [True, False])
async def test_one_batch_is_on_the_device_ahead_of_the_consumer_and_no_more(kind: str, in_order: bool) -> None:
    gc.collect()
    before = live_planes()
    loader = al.AsyncDataLoader(Planes(60), 5, output="jax", prefetch=6, in_order=in_order, **KINDS[kind])
    async with loader:
        positions = []
        stream = aiter(loader)
        for number in range(12):
            batch = await anext(stream)
            positions += batch["rest"][0].tolist()
            expected = 2 if number < 11 else 1
            while live_planes() - before < expected:  # it comes while the consumer has this one
                await asyncio.sleep(0.001)
            for _ in range(5):
                await asyncio.sleep(0.002)
                assert live_planes() - before == expected
            del batch
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert sorted(positions) == list(range(60))


async def test_what_is_ahead_does_not_count_as_given() -> None:
    async with (
        al.AsyncDataLoader(Planes(60), 5, output="jax", num_workers=2, seed=3) as ours,
        al.AsyncDataLoader(Planes(60), 5, num_workers=2, seed=3) as plain,
    ):
        streams = aiter(ours), aiter(plain)
        for _ in range(12):
            for stream in streams:
                await anext(stream)
            await asyncio.sleep(0.005)
            assert ours.state_dict() == plain.state_dict()


async def test_a_break_leaves_nothing_on_the_device(no_leaks: LeakCheck) -> None:
    gc.collect()
    before = live_planes()
    for kind in itertools.islice(KINDS.values(), 1, None):
        async with al.AsyncDataLoader(Planes(60), 5, output="jax", **kind) as loader:
            async for batch in loader:
                assert len(batch["plane"]) == 5
                break
            del batch
        gc.collect()
        assert live_planes() == before


@pytest.mark.parametrize("output", ["numpy", "mxnet"])
def test_a_sharding_is_for_jax_only(output: Any) -> None:
    with pytest.raises(ValueError, match="sharding is for output='jax'"):
        al.DataLoader(Planes(3), output=output, sharding=spread())
