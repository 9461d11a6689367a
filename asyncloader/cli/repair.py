"""Saving what is whole of a damaged record file, with an index that keeps the old one's keys and order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from asyncloader.recordio.index import RecordIndex, index_path_beside
from asyncloader.recordio.index_text import IndexLines
from asyncloader.recordio.writer import RecordWriter

__all__ = ["Repair"]


class Repair:
    """Writes a record file of the records it is given, and its index.

    Parameters
    ----------
    path : path
        The new file; the index is written beside it. Both appear when the ``with`` block ends well.
    lines : IndexLines, optional
        The old index.
    """

    def __init__(self, path: str | os.PathLike[str], lines: IndexLines | None) -> None:
        self._lines = lines
        self._writer = RecordWriter(path)
        self._old: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        self._new: list[int] = []
        self.path = self._writer.path
        self.index_path = index_path_beside(self.path)

    def __len__(self) -> int:
        """Give the number of records saved."""
        return len(self._writer)

    def save(self, offsets: NDArray[np.int64], payloads: Sequence[bytes]) -> None:
        """Append records, with where they were in the old file."""
        self._old.append(offsets)
        self._new += [self._writer.write(payload) for payload in payloads]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.discard()
            return
        keys, offsets = _carried_over(self._lines, np.concatenate(self._old), np.array(self._new, np.int64))
        index = RecordIndex(keys, offsets, self._writer.tell())
        self._writer.close()
        index.save(self.index_path)


def _carried_over(
    lines: IndexLines | None, old: NDArray[np.int64], new: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | list[str] | None, NDArray[np.int64]]:
    """Give the keys and offsets of the new index: the old lines whose record was saved, then the rest."""
    if lines is None or len(old) == 0:
        return None, new
    places = np.minimum(np.searchsorted(old, lines.offsets), len(old) - 1)
    kept = old[places] == lines.offsets
    unnamed = ~np.isin(old, lines.offsets)
    offsets = np.concatenate([new[places[kept]], new[unnamed]])
    if isinstance(lines.keys, np.ndarray):
        first = int(lines.keys.max(initial=-1)) + 1
        return np.concatenate([lines.keys[kept], first + np.arange(unnamed.sum())]), offsets
    strings = [key for key, keep in zip(lines.keys, kept.tolist(), strict=True) if keep]
    return strings + [f"unnamed-{offset}" for offset in old[unnamed].tolist()], offsets
