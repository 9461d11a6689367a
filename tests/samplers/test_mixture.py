from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncloader.samplers import MixtureSampler

sets = st.lists(
    st.tuples(st.integers(0, 80) | st.integers(0, 3000), st.sampled_from([0.0, 1e-15, 0.01, 1.0, 2.5, 100.0])),
    min_size=1,
    max_size=4,
)


def dataset_of(positions: list[int], lengths: list[int]) -> list[int]:
    bounds = np.cumsum(lengths)
    result: list[int] = np.searchsorted(bounds, positions, side="right").tolist()
    return result


@given(sets, st.integers(0, 3), st.booleans())
@settings(deadline=None)
def test_exhaust_gives_each_sample_of_each_weighted_dataset_exactly_once(
    datasets: list[tuple[int, float]], seed: int, shuffle: bool
) -> None:
    lengths, weights = [length for length, _ in datasets], [weight for _, weight in datasets]
    got = list(MixtureSampler(lengths, weights, when_exhausted="exhaust", seed=seed, shuffle=shuffle))
    starts = np.cumsum([0, *lengths])
    expected = [
        position
        for start, (length, weight) in zip(starts, datasets, strict=False)
        if weight
        for position in range(start, start + length)
    ]
    assert sorted(got) == expected


@given(sets, st.integers(0, 3))
@settings(deadline=None)
def test_stop_ends_with_the_last_sample_of_the_first_dataset_to_run_out(
    datasets: list[tuple[int, float]], seed: int
) -> None:
    lengths, weights = [length for length, _ in datasets], [weight for _, weight in datasets]
    got = list(MixtureSampler(lengths, weights, when_exhausted="stop", seed=seed))
    assert len(set(got)) == len(got)
    if any(weight and not length for length, weight in datasets) or not any(weights):
        assert not got
        return
    drawn = Counter(dataset_of(got, lengths))
    out = [number for number, length in enumerate(lengths) if length and drawn[number] == length]
    assert out == [dataset_of(got, lengths)[-1]]


@given(
    st.lists(st.tuples(st.integers(1, 80), st.sampled_from([0.01, 1.0, 2.5])), min_size=1, max_size=4),
    st.integers(0, 4000),
)
@settings(deadline=None)
def test_restart_begins_a_dataset_again_only_when_all_of_it_came(
    datasets: list[tuple[int, float]], num_samples: int
) -> None:
    lengths, weights = [length for length, _ in datasets], [weight for _, weight in datasets]
    got = list(MixtureSampler(lengths, weights, num_samples=num_samples))
    assert len(got) == num_samples
    owners = dataset_of(got, lengths)
    for number, length in enumerate(lengths):
        own = [position for position, owner in zip(got, owners, strict=True) if owner == number]
        rounds = [own[start : start + length] for start in range(0, len(own), length)]
        assert all(len(set(one)) == len(one) for one in rounds)


def test_a_dataset_that_begins_again_does_so_in_a_new_order() -> None:
    got = list(MixtureSampler([20], num_samples=40))
    assert sorted(got[:20]) == sorted(got[20:])
    assert got[:20] != got[20:]


@pytest.mark.parametrize("weights", [[1, 1, 1], [5, 3, 2], [1000, 1, 30]])
def test_every_1024_draws_hold_each_share_to_within_one(weights: list[float]) -> None:
    lengths = [50_000, 60_000, 70_000]
    owners = np.array(dataset_of(list(MixtureSampler(lengths, weights, num_samples=1024 * 40)), lengths))
    for block in owners.reshape(-1, 1024):
        for number, weight in enumerate(weights):
            assert abs(np.count_nonzero(block == number) - 1024 * weight / sum(weights)) < 1


def test_rare_datasets_come_as_often_as_their_weight_says_over_many_draws() -> None:
    # 0.2 draws in 1024: in most blocks none. Blocks are independent, so that the count is binomial.
    share = 0.2 / 1024
    order = MixtureSampler([10, 10], [1 - share, share], num_samples=1024 * 2000).order(0)
    count = np.count_nonzero(order.read(0, order.length) >= 10)
    assert abs(count - 400) < 5 * np.sqrt(2000 * 0.2 * 0.8)


def test_datasets_come_in_random_order() -> None:
    owners = np.array(dataset_of(list(MixtureSampler([1000, 1000], [1, 1], num_samples=1024 * 20)), [1000, 1000]))
    changes = np.count_nonzero(np.diff(owners))
    assert abs(changes - len(owners) / 2) < 5 * np.sqrt(len(owners) / 4)


@given(sets, st.sampled_from(["stop", "exhaust"]), st.integers(0, 5000), st.integers(0, 5000))
@settings(deadline=None)
def test_any_part_can_be_computed_by_itself(
    datasets: list[tuple[int, float]], rule: Any, start: int, stop: int
) -> None:
    order = MixtureSampler(
        [length for length, _ in datasets], [weight for _, weight in datasets], when_exhausted=rule
    ).order(3)
    start, stop = sorted((min(start, order.length), min(stop, order.length)))
    assert order.read(start, stop).tolist() == order.read(0, order.length)[start:stop].tolist()


def test_a_part_far_into_large_datasets_is_computed_at_once() -> None:
    order = MixtureSampler([10**9, 10**8], [2, 1], num_samples=10**8).order(0)
    assert len(set(order.read(10**8 - 500, 10**8).tolist())) == 500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lengths": [1, 2], "weights": [1]}, "1 weights for 2 datasets"),
        ({"lengths": [1, 2], "weights": [1, -1]}, "the weight of dataset 1 is -1"),
        ({"lengths": [1, 2], "weights": [float("nan"), 1]}, "the weight of dataset 0 is nan"),
        ({"lengths": [1, 2], "weights": [1e308, 1e308]}, "add up to infinity"),
        ({"lengths": [1, 2], "weights": [0, 0]}, "all weights are 0"),
        ({"lengths": [1, 0], "weights": [1, 1]}, "dataset 1 has no samples"),
        ({"lengths": [1, 2], "when_exhausted": "loop"}, "when_exhausted is 'loop'"),
        ({"lengths": [1, 2], "when_exhausted": "stop", "num_samples": 3}, "num_samples is for"),
        ({"lengths": [-1]}, "length is -1"),
    ],
)
def test_mixtures_that_make_no_sense_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixtureSampler(**arguments)


@pytest.mark.parametrize("rule", ["restart", "stop", "exhaust"])
def test_a_mixture_of_nothing_is_empty(rule: Any) -> None:
    assert list(MixtureSampler([], when_exhausted=rule)) == []
    assert list(MixtureSampler([0, 0], when_exhausted=rule)) == []
