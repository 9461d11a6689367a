from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncloader.samplers import sample_rng, sample_seed

words = st.integers(0, (1 << 63) - 1)


@given(words, words, words)
def test_the_same_triple_gives_the_same_numbers(seed: int, epoch: int, position: int) -> None:
    assert sample_seed(seed, epoch, position) == sample_seed(seed, epoch, position)
    assert 0 <= sample_seed(seed, epoch, position) < 1 << 64
    assert sample_rng(seed, epoch, position).random() == sample_rng(seed, epoch, position).random()


@pytest.mark.parametrize("make", [sample_seed, lambda *triple: sample_rng(*triple).random()])
def test_neighbouring_triples_give_other_numbers(make: object) -> None:
    assert callable(make)
    numbers = {make(seed, epoch, position) for seed in range(10) for epoch in range(10) for position in range(10)}
    assert len(numbers) == 1000


def test_numpy_positions_count_as_the_integers_they_are() -> None:
    for kind in (np.int64, np.uint8, np.int32):
        assert sample_seed(1, 2, kind(3)) == sample_seed(1, 2, 3)


def test_string_positions_have_numbers_of_their_own() -> None:
    assert sample_seed(1, 2, "a") == sample_seed(1, 2, "a")
    assert len({sample_seed(1, 2, key) for key in ("a", "b", "", ("a",), None)}) == 5


def test_first_draws_over_positions_are_uniform_and_uncorrelated() -> None:
    draws = np.array([sample_rng(0, 0, position).random() for position in range(10_000)])
    cells = (draws * 10).astype(int)
    for counts in (np.bincount(cells), np.bincount(cells[:-1] * 10 + cells[1:])):
        expected = counts.sum() / counts.size
        assert ((counts - expected) ** 2 / expected).sum() < counts.size + 5 * np.sqrt(2 * counts.size)


def test_bits_of_seeds_are_balanced() -> None:
    seeds = np.array([sample_seed(0, epoch, 7) for epoch in range(4000)], np.uint64)
    ones = np.array([np.count_nonzero(seeds >> np.uint64(bit) & np.uint64(1)) for bit in range(64)])
    assert np.all(np.abs(ones - 2000) < 5 * np.sqrt(1000))


def test_the_generator_is_numpys_and_can_be_pickled_in_mid_stream() -> None:
    generator = sample_rng(1, 2, 3)
    assert isinstance(generator, np.random.Generator)
    generator.random(5)
    copy = pickle.loads(pickle.dumps(generator))
    assert copy.integers(0, 1 << 62, 5).tolist() == generator.integers(0, 1 << 62, 5).tolist()


@pytest.mark.skipif(not hasattr(np.random.Generator, "spawn"), reason="this NumPy's generators have no spawn")
def test_the_generator_can_spawn_others() -> None:
    def spawn_twice() -> list[float]:
        parent = sample_rng(1, 2, 3)
        return [child.random() for _ in range(2) for child in parent.spawn(2)]

    assert spawn_twice() == spawn_twice()
    assert len(set(spawn_twice())) == 4
