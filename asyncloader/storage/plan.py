"""Which bytes to read for a set of requests: computed without reading anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_GAP", "MAX_READ", "ReadPlan", "merge_neighbours", "plan_reads"]

#: Copying this many unwanted bytes from the page cache takes about as long as one more call into the kernel.
MAX_GAP = 4096

#: Neighbours are merged into reads of about this size at most.
MAX_READ = 4 << 20


class ReadPlan(NamedTuple):
    """Ranges of a file to read, and where each request is found in them.

    Attributes
    ----------
    offsets, sizes : ndarray of int64, shape (ranges,)
        The ranges, by ascending offset.
    ranges : ndarray of int64, shape (requests,)
        Which range holds each request's bytes, in the order of the requests.
    starts : ndarray of int64, shape (requests,)
        Where in its range they begin.
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    ranges: NDArray[np.int64]
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
        return ReadPlan(empty, empty, empty, empty)
    order = None
    if (offsets[1:] < offsets[:-1]).any():
        order = np.argsort(offsets)
        offsets, sizes = offsets[order], sizes[order]
    ends = offsets + sizes
    # A request may reach past its successors, so what counts is how far all of them so far reach.
    splits = np.ones(len(offsets), bool)
    splits[1:] = offsets[1:] > np.maximum.accumulate(ends)[:-1] + max_gap
    range_offsets, range_sizes = _ranges(offsets, ends, splits)
    if range_sizes.max() > max_read:
        splits |= _cuts(offsets, range_offsets, splits, max_read)
        range_offsets, range_sizes = _ranges(offsets, ends, splits)
    ranges = np.cumsum(splits) - 1
    starts = offsets - range_offsets[ranges]
    if order is not None:
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        ranges, starts = ranges[back], starts[back]
    return ReadPlan(range_offsets, range_sizes, ranges, starts)


def _ranges(
    offsets: NDArray[np.int64], ends: NDArray[np.int64], splits: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give offset and size of the ranges that begin with the requests that are marked."""
    firsts = np.flatnonzero(splits)
    range_offsets = offsets[firsts]
    return range_offsets, np.maximum.reduceat(ends, firsts) - range_offsets


def _cuts(
    offsets: NDArray[np.int64], range_offsets: NDArray[np.int64], splits: NDArray[np.bool_], max_read: int
) -> NDArray[np.bool_]:
    """Mark the requests that begin in another stretch of ``max_read`` bytes of their range than the one before."""
    stretch = (offsets - range_offsets[np.cumsum(splits) - 1]) // max_read
    cuts: NDArray[np.bool_] = np.diff(stretch, prepend=0) != 0
    return cuts


def merge_neighbours(
    offsets: Sequence[int], sizes: Sequence[int], max_gap: int = MAX_GAP, max_read: int = MAX_READ
) -> Iterator[tuple[int, int, int, int]]:
    """Merge requests as :func:`plan_reads` does, range by range as they are asked for.

    For few requests, each of which takes long to deal with, this spreads the planning over them.

    Parameters
    ----------
    offsets, sizes : sequence of int, length (requests,)
        What is wanted, by ascending offset; requests may overlap, and be repeated.
    max_gap, max_read : int
        As :func:`plan_reads` takes them.

    Yields
    ------
    first, stop : int
        The requests that the next range holds.
    offset, size : int
        The range.
    """
    first, count = 0, len(offsets)
    while first < count:
        begin = offsets[first]
        end = begin + sizes[first]
        stop = first + 1
        while stop < count and offsets[stop] <= end + max_gap and offsets[stop] - begin < max_read:
            end = max(end, offsets[stop] + sizes[stop])
            stop += 1
        yield first, stop, begin, end - begin
        first = stop
