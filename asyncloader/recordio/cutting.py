"""Records cut out of what was read: in bulk, one by one, or in file order while reading."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncloader.recordio.frames import HEAD, MAGIC
from asyncloader.storage import ReadPlan, merge_neighbours

__all__ = ["Cut", "ReadApart", "cut_in_file_order", "cut_long", "cut_short", "whole"]

#: A record's slot among those asked for, what holds its payload (or why it cannot be read), its begin and end there.
Cut: TypeAlias = tuple[int, bytes | memoryview | Exception, int, int]

#: Reads the record at a position by itself, part by part; what is wrong with it is raised or returned.
ReadApart: TypeAlias = Callable[[int], bytes | Exception]


def cut_short(
    data: bytes, plan: ReadPlan, sizes: NDArray[np.int64], asked: NDArray[np.int64], read_apart: ReadApart
) -> list[bytes | Exception]:
    """Cut records out of what was read, looking at the heads of all together; odd ones are read apart.

    Offsets and sizes are multiples of 4, so the heads are aligned words.
    """
    starts = (np.cumsum(plan.sizes) - plan.sizes)[plan.ranges] + plan.starts
    words = np.frombuffer(data, "<u4")
    heads = starts >> 2
    lengths = words[heads + 1].astype(np.int64)
    # The word holds the kind as well: it is a length that fits into a span this short only where the kind is 0.
    whole = (words[heads] == MAGIC) & (lengths <= sizes - HEAD.size)
    begins = starts + HEAD.size
    ends = begins + lengths
    payloads: list[bytes | Exception]
    payloads = [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    if not whole.all():
        for slot in np.flatnonzero(~whole).tolist():
            payloads[slot] = read_apart(int(asked[slot]))
    return payloads


def cut_long(
    pieces: list[bytes], plan: ReadPlan, sizes: NDArray[np.int64], asked: NDArray[np.int64], read_apart: ReadApart
) -> Iterator[bytes | memoryview | Exception]:
    """Do the same, one by one, for records that are not worth copying: their payloads are views."""
    views = [memoryview(piece) for piece in pieces]
    limits = sizes - HEAD.size
    for position, piece, start, limit in zip(
        asked.tolist(), plan.ranges.tolist(), plan.starts.tolist(), limits.tolist(), strict=True
    ):
        view = views[piece]
        magic, length = HEAD.unpack_from(view, start)
        if magic == MAGIC and length <= limit:
            begin = start + HEAD.size
            yield view[begin : begin + length]
        else:
            yield read_apart(position)


def cut_in_file_order(
    read: Callable[[int, int], bytes],
    offsets: NDArray[np.int64],
    sizes: NDArray[np.int64],
    asked: NDArray[np.int64],
    read_apart: ReadApart,
    on_read: Callable[[float], object],
) -> Iterator[Cut]:
    """Read and cut out records in file order, each when its turn has come."""
    order = np.argsort(offsets, kind="stable")
    columns = (order, offsets[order], sizes[order])
    slots, starts, spans = (column.tolist() for column in columns)
    unpack, clock, seconds = HEAD.unpack_from, time.perf_counter, 0.0
    for first, stop, offset, size in merge_neighbours(starts, spans):
        begun = clock()
        try:
            data = read(size, offset)
        except OSError:
            data = b""
        seconds += clock() - begun
        complete = len(data) == size
        for place in range(first, stop):
            if complete:
                head = starts[place] - offset
                magic, length = unpack(data, head)
                if magic == MAGIC and length <= spans[place] - HEAD.size:
                    begin = head + HEAD.size
                    yield slots[place], data, begin, begin + length
                    continue
            # The read failed, or the record is of several parts, long, or damaged.
            yield whole(slots[place], read_apart(int(asked[slots[place]])))
    on_read(seconds)


def whole(slot: int, payload: bytes | memoryview | Exception) -> Cut:
    """Give a payload that stands by itself, or an error, as a cut."""
    return slot, payload, 0, 0 if isinstance(payload, Exception) else len(payload)
