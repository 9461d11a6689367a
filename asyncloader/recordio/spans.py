"""How far a record can reach at most: to where the next one in the file begins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncloader.recordio.frames import HEAD

__all__ = ["LONGEST_SPAN", "record_spans"]

#: Spans are kept in 32 bits; a longer one is known to be at least this.
LONGEST_SPAN = 0xFFFFFFFC


def record_spans(offsets: NDArray[np.int64], file_size: int) -> NDArray[np.uint32]:
    """Bound the size of each record.

    Parameters
    ----------
    offsets : ndarray of int64, shape (records,)
        Where the records begin, in any order; several may begin at the same place.
    file_size : int
        Where the file ends.

    Returns
    -------
    ndarray of uint32, shape (records,)
        Bytes from each record's beginning to the next one's, or the file's end: at least those of a head, and a
        multiple of 4 as the bytes of every whole record are.
    """
    if len(offsets) == 0:
        return np.empty(0, np.uint32)
    if (offsets[1:] > offsets[:-1]).all():
        return _bounded(np.diff(offsets, append=file_size))
    order, ascending = _sorted(offsets)
    firsts = np.flatnonzero(np.diff(ascending, prepend=-1))
    spans = _bounded(np.diff(ascending[firsts], append=file_size))
    result = np.empty(len(offsets), np.uint32)
    result[order] = np.repeat(spans, np.diff(firsts, append=len(offsets)))
    return result


def _sorted(offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the order that sorts offsets, and the sorted offsets."""
    bits = len(offsets).bit_length()
    if int(offsets.max()) >= 1 << (63 - bits):
        order = np.argsort(offsets)
        return order, offsets[order]
    # Sorting numbers is several times faster than finding their order, so the position is made part of the number.
    packed = offsets << bits
    packed |= np.arange(len(offsets))
    packed.sort()
    return packed & ((1 << bits) - 1), packed >> bits


def _bounded(spans: NDArray[np.int64]) -> NDArray[np.uint32]:
    return (np.clip(spans, HEAD.size, LONGEST_SPAN) & ~3).astype(np.uint32)
