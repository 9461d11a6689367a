from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from asyncloader.samplers.mixing import derive_key, epoch_key, hash_indexes, mix64
from asyncloader.samplers.permutation import Permutation

LARGEST = (1 << 63) - 1
keys = st.integers(0, (1 << 64) - 1)


def whole(length: int, key: int) -> NDArray[np.int64]:
    return Permutation(length, key).at(np.arange(length))


def excess(counts: NDArray[np.int64]) -> float:
    """Give Pearson's chi-square of equally likely cells, in standard deviations above its mean."""
    expected = counts.sum() / counts.size
    degrees = counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - degrees) / np.sqrt(2 * degrees))


@given(st.integers(0, 20_000), keys)
@settings(deadline=None)
def test_each_value_comes_exactly_once(length: int, key: int) -> None:
    assert np.array_equal(np.sort(whole(length, key)), np.arange(length))


@pytest.mark.parametrize("length", [4095, 4096, 4097, 4098, 65_535, 65_536, 65_537, 999_983, 1_048_576])
def test_each_value_comes_exactly_once_around_squares_powers_and_primes(length: int) -> None:
    assert np.array_equal(np.sort(whole(length, 1)), np.arange(length))


@given(st.integers(4097, LARGEST), keys, st.data())
@settings(deadline=None)
def test_values_of_any_length_are_in_range_and_distinct(length: int, key: int, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, length - 1), unique=True, min_size=1))
    values = Permutation(length, key).at(np.array(places, np.int64))
    assert values.dtype == np.int64
    assert values.min() >= 0
    assert values.max() < length
    assert len(set(values.tolist())) == len(places)


@given(st.integers(1, 10_000), keys, st.data())
@settings(deadline=None)
def test_a_place_has_the_same_value_however_it_is_asked_for(length: int, key: int, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, length - 1)))
    assert np.array_equal(Permutation(length, key).at(np.array(places, np.int64)), whole(length, key)[places])


def test_indexes_handed_in_are_left_as_they_were() -> None:
    for length in (10, 10_000):
        indexes = np.arange(10)
        Permutation(length, 3).at(indexes)
        assert np.array_equal(indexes, np.arange(10))


def test_impossible_lengths_are_refused() -> None:
    for length in (-1, 1 << 63):
        with pytest.raises(ValueError, match="possible"):
            Permutation(length, 0)


def test_arrays_are_mixed_as_python_integers_are() -> None:
    # The arithmetic written with unbounded integers, which know no overflow, is the reference for the arrays'.
    indexes = [0, 1, 2, 1 << 40, LARGEST]
    key = derive_key(1, 2, 3)
    expected = [mix64(key + (index + 1) * 0x9E3779B97F4A7C15) for index in indexes]
    assert hash_indexes(key, np.array(indexes, np.uint64)).tolist() == expected


def test_a_feistel_network_of_plain_integers_gives_the_same_values() -> None:
    length, key = 10_007, 99
    rows, columns = 101, 100
    assert (rows - 1) ** 2 < length <= rows * columns

    def feistel(value: int) -> int:
        left, right = divmod(value, columns)
        for number in range(8):
            other, modulus = (right, rows) if number % 2 == 0 else (left, columns)
            bits = ((other + derive_key(key, number)) * 0xFF51AFD7ED558CCD) % 2**64
            bits = ((bits ^ (bits >> 32)) * 0xC4CEB9FE1A85EC53) % 2**64
            added = ((bits >> 32) * modulus) >> 32
            left, right = ((left + added) % rows, right) if number % 2 == 0 else (left, (right + added) % columns)
        return left * columns + right

    for place, value in enumerate(whole(length, key).tolist()):
        expected = feistel(place)
        while expected >= length:
            expected = feistel(expected)
        assert value == expected


# With fixed keys these either hold or do not; with random ones, 5 standard deviations would fail once in a million.


@pytest.mark.parametrize("length", range(2, 11))
def test_in_short_permutations_each_value_is_equally_likely_at_each_place(length: int) -> None:
    values = np.array([whole(length, epoch_key(seed, 0)) for seed in range(6000)])
    counts = np.array([np.bincount(column, minlength=length) for column in values.T])
    for row in (*counts, *counts.T):
        assert excess(row) < 5


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_all_short_permutations_are_equally_likely(length: int) -> None:
    names = {order: number for number, order in enumerate(itertools.permutations(range(length)))}
    drawn = [names[tuple(whole(length, epoch_key(0, epoch)).tolist())] for epoch in range(12_000)]
    assert abs(excess(np.bincount(drawn, minlength=len(names)))) < 5


@pytest.mark.parametrize("length", [2, 3, 5, 8, 10])
def test_an_epoch_says_nothing_of_the_next_nor_of_the_next_seed(length: int) -> None:
    for following in (lambda n: epoch_key(0, n + 1), lambda n: epoch_key(1, n)):
        pairs = np.zeros((length, length), np.int64)
        for number in range(0, 8000, 2):
            pairs[whole(length, epoch_key(0, number))[0], whole(length, following(number))[0]] += 1
        assert abs(excess(pairs.ravel())) < 5


@pytest.mark.parametrize("length", [5, 10, 100, 4097, 5000, 1 << 20, (1 << 40) + 7])
def test_neighbours_are_not_correlated(length: int) -> None:
    # Also a row of the network's rectangle apart, where its inner structure would show.
    for apart in (1, int(np.ceil(np.sqrt(length)))):
        keys = [epoch_key(seed, apart) for seed in range(3000)]
        start = np.array([0, apart % length])
        pairs = np.array([Permutation(length, key).at(start) for key in keys], np.float64) / length
        correlation = np.corrcoef(pairs.T)[0, 1]
        without_replacement = -1 / (length - 1)
        assert abs(correlation - without_replacement) < 5 / np.sqrt(len(keys))


@pytest.mark.parametrize("length", [4097, 5000, 1_000_003, 1 << 40])
def test_two_places_of_a_long_permutation_are_jointly_uniform(length: int) -> None:
    row = int(np.ceil(np.sqrt(length)))
    for other in (1, row, row + 1, length - 1):
        places = np.array([0, other])
        values = np.array([Permutation(length, epoch_key(7, number)).at(places) for number in range(4000)])
        cells = (values[:, 0] * 10 // length) * 10 + values[:, 1] * 10 // length
        apart = (values[:, 0] - values[:, 1]) % length * 40 // length
        assert abs(excess(np.bincount(cells, minlength=100))) < 5
        assert abs(excess(np.bincount(apart, minlength=40))) < 5


def test_fixed_points_and_rises_are_as_many_as_in_random_permutations() -> None:
    length, repeats = 5000, 600
    orders = [whole(length, epoch_key(3, number)) for number in range(repeats)]
    fixed = np.array([np.count_nonzero(order == np.arange(length)) for order in orders])
    rises = np.array([np.count_nonzero(np.diff(order) > 0) for order in orders])
    assert abs(fixed.mean() - 1) < 5 / np.sqrt(repeats)  # Poisson, of mean 1
    assert abs(rises.mean() - (length - 1) / 2) < 5 * np.sqrt((length + 1) / 12 / repeats)
    assert abs(rises.var() / ((length + 1) / 12) - 1) < 5 * np.sqrt(2 / repeats)


def test_one_order_spreads_neighbours_evenly() -> None:
    order = whole(1 << 20, epoch_key(0, 0))
    cells = (np.arange(1 << 20) >> 14) * 64 + (order >> 14)
    assert abs(excess(np.bincount(cells, minlength=4096))) < 5
    steps = (order[1:] - order[:-1]) % (1 << 20) >> 12
    assert abs(excess(np.bincount(steps, minlength=256))) < 5
