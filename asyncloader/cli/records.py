"""Opening the record files that commands are given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asyncloader.cli.console import progress
from asyncloader.recordio.index import RecordIndex, index_path_beside
from asyncloader.recordio.reader import RecordReader
from asyncloader.storage import LocalFile

__all__ = ["build_index", "chunks", "find_index", "open_reader", "spread"]


def find_index(path: Path) -> str | None:
    """Give the absolute path of the index beside a record file, or None where there is none."""
    beside = os.path.abspath(index_path_beside(path))
    return beside if os.path.exists(beside) else None


def open_reader(path: Path) -> RecordReader:
    """Open a record file, with the index beside it, or one that is built while progress shows."""
    beside = find_index(path)
    return RecordReader(path, beside) if beside is not None else RecordReader(path, index=build_index(path))


def build_index(path: Path) -> RecordIndex:
    """Find the records of a file while progress shows."""
    with LocalFile(path) as file, progress("Finding the records", file.size, in_bytes=True) as done:
        return RecordIndex.build(file, done)


def spread(sizes: NDArray[np.int64], most: int, most_bytes: int) -> NDArray[np.int64]:
    """Choose positions evenly over a file: no more than so many, nor so many bytes.

    Parameters
    ----------
    sizes : ndarray of int64
        Bytes of each record, by position.
    most, most_bytes : int
        The bounds. One record is chosen even where it is larger.

    Returns
    -------
    ndarray of int64
        Ascending positions.
    """
    total = len(sizes)
    count = min(total, most)
    while True:
        chosen = np.arange(count, dtype=np.int64) * total // max(count, 1)
        taken = int(sizes[chosen].sum())
        if count <= 1 or taken <= most_bytes:
            return chosen
        count = max(1, min(count - 1, int(count * most_bytes / taken)))


def chunks(
    positions: NDArray[np.int64], sizes: NDArray[np.int64], most_bytes: int = 16 << 20
) -> Iterator[NDArray[np.int64]]:
    """Cut positions into runs that are read at once: of no more than so many bytes, but for a single larger record."""
    ends = np.cumsum(sizes[positions])
    start = 0
    while start < len(positions):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + most_bytes, side="right")))
        end = min(end, start + 4096)
        yield positions[start:end]
        start = end
