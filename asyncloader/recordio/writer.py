"""RecordWriter: records to a file, which appears only when it is whole."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from asyncloader.recordio.frames import Buffer, encode
from asyncloader.recordio.index import Key
from asyncloader.storage import AtomicFile

__all__ = ["RecordWriter", "index_line"]


class RecordWriter:
    """Writes a record file, and its index where one is asked for.

    Parameters
    ----------
    path : path
        The record file.
    index_path : path, optional
        Where to write the index.
    sync : bool
        Whether the files are on the disk, not just in the system's memory, before they get their names.

    Notes
    -----
    Both are written beside their final names, readable by their owner alone, and get them by :meth:`close`, the index
    last. After an exception in a ``with`` block, or a crash, the files of before are as they were. A writer is for one
    thread at a time.

    Raises
    ------
    MissingFileError
        The folder is not there, or a path is a directory.
    OSError
        The system refuses.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        index_path: str | os.PathLike[str] | None = None,
        *,
        sync: bool = False,
    ) -> None:
        self._sync = sync
        self._count = 0
        self._records = AtomicFile(path)
        self._index: AtomicFile | None = None
        if index_path is not None:
            try:
                self._index = AtomicFile(index_path)
            except BaseException:
                self._records.discard()
                raise
        self.path = self._records.path

    def __len__(self) -> int:
        """Give the number of records written."""
        return self._count

    def tell(self) -> int:
        """Give the byte offset at which the next record will begin."""
        return self._records.written

    def write(self, payload: Buffer, key: Key | None = None) -> int:
        """Append a record.

        Parameters
        ----------
        payload : bytes-like
            The record.
        key : int or str, optional
            Its key in the index; its number, from 0, where none is given.

        Returns
        -------
        int
            The byte offset at which it begins.

        Raises
        ------
        ValueError
            The record is too long, the key cannot be a line's beginning, or the writer is closed.
        OSError
            The disk is full.
        """
        line = index_line(self._count if key is None else key, self._records.written)
        offset = self._records.written
        self._records.write(encode(payload))
        if self._index is not None:
            self._index.write(line)
        self._count += 1
        return offset

    def close(self) -> None:
        """Give the files their names.

        Raises
        ------
        OSError
            The disk is full, or the system does not let an old file be replaced; what was written is gone then.
        """
        try:
            self._records.commit(sync=self._sync)
        except BaseException:
            if self._index is not None:
                self._index.discard()
            raise
        if self._index is not None:
            self._index.commit(sync=self._sync)

    def discard(self) -> None:
        """Drop what was written; the files of before stay."""
        self._records.discard()
        if self._index is not None:
            self._index.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def index_line(key: Key, offset: int) -> bytes:
    """Make a line of an index.

    Raises
    ------
    ValueError
        The key could not be read back: it is empty, or has a tab, a line end, or blanks around it.
    """
    text = str(key)
    if not text or text != text.strip() or any(mark in text for mark in "\t\n\r"):
        raise ValueError(
            f"the key {text!r} cannot stand in an index: it is empty, or has a tab, a line end or blanks around it"
        )
    return f"{text}\t{offset}\n".encode()
