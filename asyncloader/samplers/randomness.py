"""Random numbers for one sample: from the seed, the epoch and the position, whoever makes the sample and when."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import DTypeLike, NDArray

from asyncloader.samplers.mixing import derive_key

__all__ = ["sample_rng", "sample_seed"]

# What a key is for.
_GLOBAL, _GENERATOR = 0x676C6F62, 0x67656E65


def sample_seed(seed: int, epoch: int, position: object) -> int:
    """Mix seed, epoch and position to one number, to seed generators that are global in a process.

    Parameters
    ----------
    seed, epoch : int
        The loader's seed; the epoch.
    position : int or object
        The sample's position. Of what is not an integer, such as a string key, the ``repr`` counts.

    Returns
    -------
    int
        In ``0 .. 2**64 - 1``.
    """
    return derive_key(_GLOBAL, seed, epoch, _word(position))


def sample_rng(seed: int, epoch: int, position: object) -> np.random.Generator:
    """Make the generator of one sample.

    Parameters
    ----------
    seed, epoch, position
        As for `sample_seed`.

    Returns
    -------
    numpy.random.Generator
        A PCG64 whose whole state is mixed from the three. It takes some microseconds to make.
    """
    key = derive_key(_GENERATOR, seed, epoch, _word(position))
    mixed = _MixedSeed([derive_key(key, number) for number in range(4)])
    return np.random.Generator(np.random.PCG64(mixed))  # type: ignore[arg-type]  # NumPy's stubs leave out ISeedSequence


def _word(position: object) -> int:
    if isinstance(position, int | np.integer):
        return int(position)
    return int.from_bytes(hashlib.blake2b(repr(position).encode(), digest_size=8).digest(), "little")


class _MixedSeed(ISpawnableSeedSequence):
    """Words that are well mixed already, in the place of a SeedSequence, whose own mixing takes ten times as long."""

    def __init__(self, words: list[int]) -> None:
        self._words = words
        self._sequence: np.random.SeedSequence | None = None

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint32) -> NDArray[np.uint32 | np.uint64]:
        """Give PCG64 its 256 bits of state."""
        return np.array(self._words[:n_words], dtype)

    def spawn(self, n_children: int) -> list[np.random.SeedSequence]:  # type: ignore[override]  # not of our class
        """Make seeds for ``Generator.spawn``, other ones at each call."""
        if self._sequence is None:
            self._sequence = np.random.SeedSequence(self._words)
        return self._sequence.spawn(n_children)
