"""mxnet.recordio's classes: the same names, signatures and results.

What is better: a reader has no position but the one that ``read`` moves, so ``read_idx`` can be called from any number
of threads at once, after a fork, and in a spawned process; a writer's files appear when they are closed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from asyncloader.errors import CorruptRecordError, IndexFileError, LoaderClosedError
from asyncloader.recordio.frames import decode_from
from asyncloader.recordio.index import RecordIndex
from asyncloader.recordio.key_views import KeyList, OffsetMap
from asyncloader.recordio.writer import RecordWriter, index_line
from asyncloader.storage import AtomicFile, LocalFile

__all__ = ["MXIndexedRecordIO", "MXRecordIO"]


class MXRecordIO:
    """Reads or writes the records of a file one after another.

    Parameters
    ----------
    uri : path
        The record file.
    flag : {"r", "w"}
        Whether to read or to write it.

    Attributes
    ----------
    uri : str
        The record file, as it was given.
    flag : str
        "r" or "w".
    writable : bool
        Whether it is open for writing.
    is_open : bool
        Whether it is open.

    Notes
    -----
    A file that is written gets its name when it is closed, also where an object is dropped without; an exception in
    a ``with`` block drops what was written. Pickled, a reader is its path, and begins anew where it is unpickled.

    Raises
    ------
    ValueError
        The flag is neither.
    MissingFileError
        The file that should be read, or the folder that should be written to, is not there.
    """

    def __init__(self, uri: str | os.PathLike[str], flag: str) -> None:
        self.uri = os.fspath(uri)
        self.flag = flag
        self.is_open = False
        self.writable = False
        self.pid: int | None = None
        self._file: LocalFile | None = None
        self._writer: RecordWriter | None = None
        self._position = 0
        self._moving = threading.Lock()
        self.open()

    def open(self) -> None:
        """Open the file, at its beginning."""
        if self.flag == "w":
            if self._writer is not None:
                self._writer.discard()
            self._writer = RecordWriter(self.uri)
            self.writable = True
        elif self.flag == "r":
            self._file = LocalFile(self.uri)
            self._position = 0
            self.writable = False
        else:
            raise ValueError(f"Invalid flag {self.flag}: it is 'r' to read a file, or 'w' to write one")
        self.pid = os.getpid()
        self.is_open = True

    def close(self) -> None:
        """Close the file; one that was written gets its name now."""
        if not self.is_open:
            return
        self.is_open = False
        self.pid = None
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()
        if self._file is not None:
            self._file.close()

    def reset(self) -> None:
        """Begin again: with the first record, or, where the file is written, with an empty file."""
        if self.writable and self.is_open:
            self._discard()
        self.close()
        self.open()

    def write(self, buf: bytes) -> None:
        """Append a record.

        Raises
        ------
        AssertionError
            The file is open for reading.
        RuntimeError
            Another process opened it.
        ValueError
            The record is too long, or the file is closed.
        """
        self._writer_here().write(buf)

    def read(self) -> bytes | None:
        """Give the next record, or None at the end.

        Raises
        ------
        AssertionError
            The file is open for writing.
        CorruptRecordError
            The record is damaged.
        ReadError
            The system refused the read, or the file was cut short since it was opened.
        """
        file = self._readable()
        with self._moving:
            if self._position >= file.size:
                return None
            payload, self._position = self._decode(file, self._position)
        return payload

    def _decode(self, file: LocalFile, offset: int) -> tuple[bytes, int]:
        try:
            return decode_from(file.read, offset, file.size)
        except CorruptRecordError as error:
            raise CorruptRecordError(
                f"{file.path}: the record at byte offset {offset} cannot be read: {error}; "
                "the file is damaged there, or the index is of another file: `asyncloader verify` tells which",
                path=file.path,
                offset=offset,
            ) from error

    def _readable(self) -> LocalFile:
        assert not self.writable, f"{self.uri} is open for writing: it cannot be read"
        if self._file is None:
            raise LoaderClosedError(f"{self.uri} is closed; open it again to read from it", path=self.uri)
        return self._file

    def _writer_here(self) -> RecordWriter:
        assert self.writable, f"{self.uri} is open for reading: it cannot be written to"
        if self._writer is None:
            raise ValueError(f"{self.uri} is closed")
        if self.pid != os.getpid():
            raise RuntimeError(
                f"{self.uri} was opened for writing by process {self.pid}: only that one can write to it"
            )
        return self._writer

    def _discard(self) -> None:
        if self._writer is not None:
            self._writer.discard()
            self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._discard()
        self.close()

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self.writable and self.is_open:
            raise TypeError(f"{self.uri} is open for writing: only readers can be pickled; close it first")
        state = self.__dict__.copy()
        del state["_moving"]
        if not self.is_open:
            state["_file"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._moving = threading.Lock()
        self._position = 0
        self.pid = os.getpid() if self.is_open else None


class MXIndexedRecordIO(MXRecordIO):
    """Reads the records of a file by their keys, or writes them with an index.

    Parameters
    ----------
    idx_path : path
        The index.
    uri : path
        The record file.
    flag : {"r", "w"}
        Whether to read or to write them.
    key_type : callable
        Makes a key of what the index says: int or str mostly.

    Attributes
    ----------
    keys : sequence
        The keys, in the order of the index.
    idx : mapping
        The byte offset of each key's record.

    Raises
    ------
    ValueError
        The flag is neither.
    MissingFileError
        A file that should be read, or the folder that should be written to, is not there.
    IndexFileError
        The index cannot be parsed, or does not fit the record file.
    """

    def __init__(
        self,
        idx_path: str | os.PathLike[str],
        uri: str | os.PathLike[str],
        flag: str,
        key_type: Callable[[Any], Hashable] = int,
    ) -> None:
        self.idx_path = os.fspath(idx_path)
        self.idx: Mapping[Any, int] = {}
        self.keys: Sequence[Any] = []
        self.key_type = key_type
        self.fidx: AtomicFile | None = None
        super().__init__(uri, flag)

    def open(self) -> None:
        """Open both files, and load the index where it is read."""
        if self.fidx is not None:
            self.fidx.discard()
            self.fidx = None
        super().open()
        if self.writable:
            self.idx, self.keys = {}, []
            self.fidx = AtomicFile(self.idx_path)
        else:
            self._load()

    def _load(self) -> None:
        index = RecordIndex.load(self.idx_path, self._readable(), keys="auto" if self.key_type is int else "str")
        if self.key_type is not int:
            self.keys = [self.key_type(key) for key in index.keys]
            self.idx = dict(zip(self.keys, index.offsets.tolist(), strict=True))
            return
        if isinstance(index.keys, list):
            path = os.path.abspath(self.idx_path)
            raise IndexFileError(f"{path}: the keys are not all integers; give key_type=str", path=path)
        self.keys, self.idx = KeyList(index.keys), OffsetMap(index)

    def close(self) -> None:
        """Close both files; those that were written get their names now."""
        if not self.is_open:
            return
        super().close()
        if self.fidx is not None:
            self.fidx.commit()
            self.fidx = None

    def seek(self, idx: Hashable) -> None:
        """Let the next :meth:`read` give the record of this key.

        Raises
        ------
        AssertionError
            The file is open for writing.
        KeyError
            There is no such key.
        """
        self._readable()
        self._position = self.idx[idx]

    def tell(self) -> int:
        """Give the byte offset at which the next record will begin.

        Raises
        ------
        AssertionError
            The file is open for reading.
        """
        return self._writer_here().tell()

    def read_idx(self, idx: Hashable) -> bytes:
        """Give the record of a key; :meth:`read` goes on with the one that follows.

        Raises
        ------
        KeyError
            There is no such key.
        AssertionError, CorruptRecordError, ReadError
            As from :meth:`read`.
        """
        payload, self._position = self._decode(self._readable(), self.idx[idx])
        return payload

    def write_idx(self, idx: Hashable, buf: bytes) -> None:
        """Append a record, and its key to the index.

        Raises
        ------
        AssertionError, RuntimeError, ValueError
            As from :meth:`write`; ValueError also for a key that cannot stand in an index.
        """
        writer = self._writer_here()
        assert self.fidx is not None
        assert isinstance(self.idx, dict)
        assert isinstance(self.keys, list)
        key = self.key_type(idx)
        line = index_line(str(key), writer.tell())
        offset = writer.write(buf)
        self.fidx.write(line)
        self.idx[key] = offset
        self.keys.append(key)

    def _discard(self) -> None:
        super()._discard()
        if self.fidx is not None:
            self.fidx.discard()
            self.fidx = None

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if self.is_open:
            # The index is loaded again, which takes no longer than sending it.
            state["idx"], state["keys"] = {}, []
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.is_open:
            self._load()
