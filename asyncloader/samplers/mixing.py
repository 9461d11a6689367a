"""Mixing of 64-bit words: where every random choice of the samplers comes from.

Only unsigned 64-bit arithmetic is used, so that the same words give the same choices under any NumPy version, on any
platform. The mixer is the output function of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014, with the constants of D. Stafford's variant 13).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["WORD", "derive_key", "epoch_key", "hash_indexes", "mix64"]

WORD = 1 << 64
_MASK = WORD - 1
_GAMMA = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio, odd: the step of SplitMix64
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_ORDER = 0x6F72646572  # what the key is for


def mix64(value: int) -> int:
    """Map a 64-bit word to another, one to one, so that each bit of it depends on all bits of the argument."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * _FIRST) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND) & _MASK
    return value ^ (value >> 31)


def derive_key(*words: int) -> int:
    """Fold words, in their order, into one 64-bit key.

    Parameters
    ----------
    *words : int
        Each in ``0 .. 2**64 - 1``. The first says what the key is for, so that no two uses share a key.

    Returns
    -------
    int
        In ``0 .. 2**64 - 1``.
    """
    key = 0
    for word in words:
        key = mix64(key + word + _GAMMA)
    return key


def epoch_key(seed: int, epoch: int) -> int:
    """Give the key of all random choices about an epoch's order."""
    return derive_key(_ORDER, seed, epoch)


def hash_indexes(key: int, indexes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Give each index its 64 random bits: the outputs of SplitMix64 seeded with `key`, at those indexes.

    Parameters
    ----------
    key : int
        In ``0 .. 2**64 - 1``.
    indexes : ndarray of uint64
        Any shape but ``()``; left as it is.

    Returns
    -------
    ndarray of uint64
        The shape of `indexes`.
    """
    bits = indexes + np.uint64(1)
    bits *= np.uint64(_GAMMA)
    bits += np.uint64(key)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(_FIRST)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(_SECOND)
    bits ^= bits >> np.uint64(31)
    return bits
