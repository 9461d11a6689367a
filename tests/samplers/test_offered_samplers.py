from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncloader.samplers import (
    BlockShuffleSampler,
    BucketSampler,
    MixtureSampler,
    OrderedSampler,
    RandomSampler,
    Schedule,
    SequentialSampler,
    SubsetSampler,
    WeightedSampler,
)

SAMPLERS: list[Any] = [
    lambda: SequentialSampler(50),
    lambda: RandomSampler(50, seed=1),
    lambda: RandomSampler(50, replacement=True, num_samples=70),
    lambda: SubsetSampler(range(0, 50, 3), shuffle=True),
    lambda: WeightedSampler(np.arange(50), 60),
    lambda: BlockShuffleSampler(50, block_size=4, buffer_size=8),
    lambda: MixtureSampler([20, 30], [1, 1]),
]


@pytest.mark.parametrize("make", SAMPLERS)
def test_a_loader_and_a_plain_loop_get_the_same_positions(make: Any) -> None:
    sampler: OrderedSampler = make()
    schedule = Schedule(50, sampler=make(), batch_size=7)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        looped = list(sampler)
        assert len(looped) == len(sampler)
        assert all(type(position) is int for position in looped)
        run = schedule.begin()
        assert [int(position) for batch in run for position in batch.positions] == looped
        run.finished()


@pytest.mark.parametrize("make", SAMPLERS[1:])
def test_each_epoch_has_an_order_of_its_own(make: Any) -> None:
    sampler = make()
    orders = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        orders.append(tuple(sampler))
    assert len(set(orders)) == 3


@pytest.mark.parametrize("make", SAMPLERS)
def test_a_sampler_for_a_larger_dataset_is_found_out(make: Any) -> None:
    sampler = make()
    with pytest.raises(ValueError, match=f"{type(sampler).__name__} gave position .* the dataset has 9 samples"):
        list(Schedule(9, sampler=sampler, batch_size=100).begin())


def test_an_iteration_keeps_the_epoch_it_began_with() -> None:
    sampler = RandomSampler(20)
    begun = iter(sampler)
    sampler.set_epoch(1)
    later = list(sampler)
    sampler.set_epoch(0)
    assert list(begun) == list(sampler) != later


def test_draws_with_replacement_are_uniform_and_independent_of_each_other() -> None:
    draws = np.array(list(RandomSampler(10, replacement=True, num_samples=40_000)))
    for counts in (np.bincount(draws), np.bincount(draws[:-1] * 10 + draws[1:])):
        expected = counts.sum() / counts.size
        assert ((counts - expected) ** 2 / expected).sum() < counts.size + 5 * np.sqrt(2 * counts.size)


def test_a_number_of_samples_without_replacement_is_refused() -> None:
    with pytest.raises(ValueError, match="replacement=True"):
        RandomSampler(10, num_samples=5)


def test_nothing_can_be_drawn_from_nothing() -> None:
    assert list(RandomSampler(0, replacement=True)) == []
    with pytest.raises(ValueError, match="num_samples is 3"):
        RandomSampler(0, replacement=True, num_samples=3)


@given(st.lists(st.integers(0, 99)), st.booleans())
def test_a_subset_is_all_that_was_listed(positions: list[int], shuffle: bool) -> None:
    got = list(SubsetSampler(positions, shuffle=shuffle))
    assert sorted(got) == sorted(positions)
    if not shuffle:
        assert got == positions


def test_a_subset_does_not_follow_later_changes_of_the_array() -> None:
    positions = np.arange(3)
    sampler = SubsetSampler(positions)
    positions[:] = 9
    assert list(sampler) == [0, 1, 2]


def test_draws_are_in_proportion_to_weights() -> None:
    weights = np.array([0, 3, 0, 1, 6, 0])
    counts = np.bincount(list(WeightedSampler(weights, 50_000, seed=2)), minlength=6)
    expected = 50_000 * weights / weights.sum()
    assert not counts[weights == 0].any()
    kept = weights > 0
    assert ((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum() < 2 + 5 * np.sqrt(4)


@pytest.mark.parametrize(
    "weights", [[0.0, 0.0], [1.0, -1.0], [float("nan")], [float("inf"), 1.0], [1e308, 1e308], [[1.0]]]
)
def test_weights_that_make_no_sense_are_refused(weights: Any) -> None:
    with pytest.raises(ValueError, match="weight"):
        WeightedSampler(weights)


def test_no_weights_are_no_draws() -> None:
    assert list(WeightedSampler([])) == []


@given(
    st.lists(st.integers(0, 50), max_size=80),
    st.integers(1, 9),
    st.integers(1, 30),
    st.sampled_from(["keep", "discard"]),
)
def test_buckets_hold_each_sample_once(lengths: list[int], batch_size: int, pool_size: int, last: Any) -> None:
    sampler = BucketSampler(lengths, batch_size, pool_size=pool_size, last_batch=last)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    positions = [position for batch in batches for position in batch]
    assert len(set(positions)) == len(positions)
    sizes = sorted(map(len, batches), reverse=True)
    full, rest = divmod(len(lengths), batch_size)
    assert sizes == [batch_size] * full + ([rest] if rest and last == "keep" else [])


def test_buckets_pad_much_less_than_random_batches() -> None:
    lengths = np.random.default_rng(0).integers(1, 500, 5000)

    def padding(batches: Any) -> float:
        return float(sum(len(batch) * lengths[batch].max() - lengths[batch].sum() for batch in batches))

    at_random = [list(range(start, start + 32)) for start in range(0, 4992, 32)]
    assert padding(BucketSampler(lengths, 32)) < padding(at_random) / 10


def test_buckets_are_a_batch_sampler_with_another_order_each_epoch() -> None:
    schedule = Schedule(100, batch_sampler=BucketSampler(np.arange(100) % 7, 8, last_batch="discard"))
    epochs = []
    for _ in range(2):
        run = schedule.begin()
        epochs.append([batch.positions.tolist() for batch in run])  # type: ignore[union-attr]
        run.finished()
    assert len(epochs[0]) == len(epochs[1]) == 12
    assert epochs[0] != epochs[1]
    left_out = [set(range(100)) - {position for batch in epoch for position in batch} for epoch in epochs]
    assert left_out[0] != left_out[1]


@pytest.mark.parametrize("lengths", [["a"], [[1, 2]], [1 + 2j]])
def test_lengths_that_are_no_numbers_are_refused(lengths: Any) -> None:
    with pytest.raises(ValueError, match="lengths are"):
        BucketSampler(lengths, 2)


def test_equal_lengths_keep_their_random_order() -> None:
    batches = list(BucketSampler([1] * 1000, 10))
    assert Counter(position for batch in batches for position in batch) == Counter(range(1000))
    assert not any(batch == sorted(batch) for batch in batches)
