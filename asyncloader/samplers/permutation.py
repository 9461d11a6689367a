"""A keyed pseudo-random permutation of ``range(n)``, computed where it is asked and stored nowhere."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.mixing import derive_key, hash_indexes

__all__ = ["Permutation"]

# Up to here the permutation is written out (32 KB), and uniform; a Feistel network of few values would not be.
_TABLE_LIMIT = 4096
_ROUNDS = 8
_FIRST = np.uint64(0xFF51AFD7ED558CCD)
_SECOND = np.uint64(0xC4CEB9FE1A85EC53)
_HALF = np.uint64(32)


class Permutation:
    """A permutation of ``range(length)`` chosen by a key.

    Memory and time to build do not depend on the length, any place can be asked for by itself, and only unsigned 64-bit
    arithmetic is used, so that it is the same under any NumPy version and on any platform.

    Parameters
    ----------
    length : int
        Number of values, ``0 .. 2**63 - 1``.
    key : int
        64 bits that choose the permutation.

    Notes
    -----
    The method is the generalised Feistel cipher with cycle walking of J. Black and P. Rogaway, "Ciphers with arbitrary
    finite domains", CT-RSA 2002: a value is written as (left, right) in a rectangle of about ``sqrt(length)`` by
    ``sqrt(length)`` cells, each round adds to one side a keyed hash of the other, and what falls on a cell past the end
    is sent through again. As the rectangle has less than a row more than needed, that happens to one value in 64 at
    most. The round function is the finaliser of MurmurHash3 (A. Appleby), less its first and last step.

    Short permutations sort random 64-bit words instead: each of them is then equally likely.
    """

    def __init__(self, length: int, key: int) -> None:
        if not 0 <= length < 1 << 63:
            raise ValueError(f"a permutation of {length} values was asked for; 0 to 2**63 - 1 are possible")
        self._length = length
        self._table: NDArray[np.int64] | None = None
        if length <= _TABLE_LIMIT:
            words = hash_indexes(key, np.arange(length, dtype=np.uint64))
            self._table = np.argsort(words, kind="stable").astype(np.int64)
            return
        rows = math.isqrt(length - 1) + 1
        columns = -(-length // rows)
        self._rows = np.uint64(rows)
        self._columns = np.uint64(columns)
        self._keys = [np.uint64(derive_key(key, number)) for number in range(_ROUNDS)]

    def __len__(self) -> int:
        return self._length

    def at(self, indexes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the values at some places of the permutation.

        Parameters
        ----------
        indexes : ndarray of int64, shape (k,)
            Places, each in ``0 .. length - 1``.

        Returns
        -------
        ndarray of int64, shape (k,)
        """
        if self._table is not None:
            return self._table[indexes]
        end = np.uint64(self._length)
        values = self._encipher(indexes.astype(np.uint64))
        outside = np.flatnonzero(values >= end)
        while outside.size:
            again = self._encipher(values[outside])
            values[outside] = again
            outside = outside[again >= end]
        return values.view(np.int64)

    def _encipher(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left = values // self._columns
        right = values - left * self._columns
        for number in range(0, _ROUNDS, 2):
            _add_hash(left, self._rows, right, self._keys[number])
            _add_hash(right, self._columns, left, self._keys[number + 1])
        left *= self._columns
        left += right
        return left


def _add_hash(side: NDArray[np.uint64], modulus: np.uint64, other: NDArray[np.uint64], key: np.uint64) -> None:
    """Add to `side`, in place and modulo `modulus`, a hash of `other`."""
    bits = other + key
    bits *= _FIRST
    bits ^= bits >> _HALF
    bits *= _SECOND
    bits >>= _HALF
    # The upper half of the product with the modulus is a number below the modulus, as likely each (D. Lemire, 2019).
    bits *= modulus
    bits >>= _HALF
    side += bits
    # Below the modulus the subtraction wraps round to something larger; else it gives the remainder.
    np.subtract(side, modulus, out=bits)
    np.minimum(side, bits, out=side)
