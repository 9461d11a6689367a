"""Which bytes to read for a set of requests: computed without reading anything."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_GAP", "MAX_READ", "ReadPlan", "plan_reads"]

#: Copying this many unwanted bytes from the page cache takes about as long as one more call into the kernel.
MAX_GAP = 4096

#: Neighbours are merged into reads of about this size at most.
MAX_READ = 4 << 20


class ReadPlan(NamedTuple):
    """Ranges of a file to read one after another into a buffer, and where each request is found in that buffer.

    Attributes
    ----------
    offsets, sizes : ndarray of int64, shape (ranges,)
        The ranges, by ascending offset.
    starts : ndarray of int64, shape (requests,)
        Where each request's bytes begin in the buffer, in the order of the requests.
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    starts: NDArray[np.int64]


def plan_reads(
    offsets: NDArray[np.int64], sizes: NDArray[np.int64], max_gap: int = MAX_GAP, max_read: int = MAX_READ
) -> ReadPlan:
    """Merge requests that are neighbours in the file.

    Parameters
    ----------
    offsets, sizes : ndarray of int64, shape (requests,)
        What is wanted, in any order; requests may overlap, and be repeated.
    max_gap : int
        Neighbours are merged when at most this many unwanted bytes lie between them.
    max_read : int
        A merged range grows no longer than this, but for the last request in it, which is never cut.

    Returns
    -------
    ReadPlan
    """
    if len(offsets) == 0:
        empty = np.empty(0, np.int64)
        return ReadPlan(empty, empty, empty)
    order = None
    if (offsets[1:] < offsets[:-1]).any():
        order = np.argsort(offsets)
        offsets, sizes = offsets[order], sizes[order]
    ends = offsets + sizes
    # A request may reach past its successors, so what counts is how far all of them so far reach.
    splits = offsets[1:] > np.maximum.accumulate(ends)[:-1] + max_gap
    firsts = np.concatenate(([0], np.flatnonzero(splits) + 1))
    range_offsets, range_sizes = _ranges(offsets, ends, firsts)
    if range_sizes.max() > max_read:
        firsts = _cut(offsets, firsts, max_read)
        range_offsets, range_sizes = _ranges(offsets, ends, firsts)
    shifts = np.cumsum(range_sizes) - range_sizes - range_offsets
    starts = offsets + np.repeat(shifts, np.diff(firsts, append=len(offsets)))
    if order is not None:
        unsorted = np.empty_like(starts)
        unsorted[order] = starts
        starts = unsorted
    return ReadPlan(range_offsets, range_sizes, starts)


def _ranges(
    offsets: NDArray[np.int64], ends: NDArray[np.int64], firsts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give offset and size of the ranges that begin with the requests ``firsts``."""
    range_offsets = offsets[firsts]
    return range_offsets, np.maximum.reduceat(ends, firsts) - range_offsets


def _cut(offsets: NDArray[np.int64], firsts: NDArray[np.int64], max_read: int) -> NDArray[np.int64]:
    """Start a further range wherever a request begins in the next stretch of ``max_read`` bytes of its range."""
    stretch = (offsets - np.repeat(offsets[firsts], np.diff(firsts, append=len(offsets)))) // max_read
    splits = np.diff(stretch, prepend=-1) != 0
    splits[firsts] = True
    return np.flatnonzero(splits)
