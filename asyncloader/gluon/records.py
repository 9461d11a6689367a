"""Gluon's datasets of records, whose readers any number of threads can use at once."""

from __future__ import annotations

import os

from asyncloader.gluon.framework import mxnet
from asyncloader.recordio import RecordReader

__all__ = ["RecordFileDataset"]


class RecordFileDataset(mxnet.gluon.data.Dataset):  # type: ignore[misc]
    """The records of a file, as bytes.

    Parameters
    ----------
    filename : path
        The record file. The index is the file beside it that ends in ``.idx``; where there is none, one is built in
        memory by a scan.

    Raises
    ------
    MissingFileError, IndexFileError, CorruptRecordError
        At once, for what can be seen at opening.
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)
        self.idx_file = os.path.splitext(self.filename)[0] + ".idx"
        self._reader = RecordReader(self.filename, self.idx_file if os.path.exists(self.idx_file) else None)

    def __len__(self) -> int:
        return len(self._reader)

    def __getitem__(self, idx: int) -> bytes:
        return self._reader.read(self._position(idx))

    def _position(self, idx: int) -> int:
        """Give a position; a negative one counts from the end."""
        length = len(self._reader)
        if not -length <= idx < length:
            raise IndexError(f"{self._reader.path}: position {idx} is not in a file of {length} records")
        return int(idx) % length
