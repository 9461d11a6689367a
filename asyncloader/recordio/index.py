"""RecordIndex: where each record begins, and what its key is, as arrays."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncloader.errors import IndexFileError
from asyncloader.recordio.frames import HEAD
from asyncloader.recordio.index_text import KeyType, parse_index
from asyncloader.recordio.scan import Progress, scan_offsets
from asyncloader.recordio.spans import record_spans
from asyncloader.storage import AtomicFile, LocalFile

__all__ = ["Key", "RecordIndex", "index_path_beside"]

Key: TypeAlias = int | str

_CHUNK = 1 << 20
_LINES = 1 << 16


def index_path_beside(path: str | os.PathLike[str]) -> str:
    """Give the path of the index that lies beside a record file: ``.idx`` in place of the file's own extension."""
    return os.path.splitext(os.fspath(path))[0] + ".idx"


class RecordIndex:
    """Keys and byte offsets of a file's records, by position.

    Parameters
    ----------
    keys : ndarray of int64, list of str, or None
        By position; None stands for 0, 1, 2, ...
    offsets : array of int64
        Where each record begins.
    file_size : int
        Where the record file ends.

    Attributes
    ----------
    keys : ndarray of int64, or list of str
        By position: line by line, as the index has them.
    offsets : ndarray of int64
        Where each record begins.
    spans : ndarray of uint32
        How many bytes each record takes at most: to the next offset, or the file's end.

    Notes
    -----
    Integer keys take 24 bytes a record at most: 8 for the key, 8 for the offset, 4 for the span, and 4 for the order of
    the keys, which is made when the first key is looked up, and only where they do not ascend.
    """

    def __init__(self, keys: NDArray[np.int64] | list[str] | None, offsets: ArrayLike, file_size: int) -> None:
        self.offsets: NDArray[np.int64] = np.asarray(offsets, np.int64)
        self.keys: NDArray[np.int64] | list[str] = np.arange(len(self.offsets)) if keys is None else keys
        self.spans = record_spans(self.offsets, file_size)
        self._order: NDArray[np.uint32] | None = None
        self._places: dict[str, int] | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str] | LocalFile, file: LocalFile, *, keys: KeyType = "auto") -> RecordIndex:
        """Load the index of a record file.

        Parameters
        ----------
        path : path or LocalFile
            The index.
        file : LocalFile
            The record file.
        keys : {"auto", "str"}
            Keys are integers where all of them are, else strings; or strings always.

        Raises
        ------
        MissingFileError, ReadError
            The index cannot be read.
        IndexFileError
            It cannot be parsed, or does not fit the record file; the message has the line's number.
        """
        text = path if isinstance(path, LocalFile) else LocalFile(path)
        lines = parse_index(_chunks(text), text.path, keys)
        _check(lines.offsets, text.path, file)
        return cls(lines.keys, lines.offsets, file.size)

    @classmethod
    def build(cls, file: LocalFile, progress: Progress | None = None) -> RecordIndex:
        """Find the records of a file by reading it; the keys are 0, 1, 2, ...

        Parameters
        ----------
        file : LocalFile
            The record file.
        progress : callable, optional
            Told how many bytes are done, now and then.

        Raises
        ------
        CorruptRecordError
            The file is damaged.
        ReadError
            It cannot be read.
        """
        return cls(None, scan_offsets(file, file.path, progress), file.size)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index as text; it appears under its name only when it is whole.

        Raises
        ------
        MissingFileError
            The folder is not there.
        OSError
            The system refuses.
        """
        with AtomicFile(path) as file:
            for start in range(0, len(self), _LINES):
                keys, offsets = self.keys[start : start + _LINES], self.offsets[start : start + _LINES].tolist()
                plain = keys.tolist() if isinstance(keys, np.ndarray) else keys
                file.write("".join(f"{key}\t{offset}\n" for key, offset in zip(plain, offsets, strict=True)).encode())

    def __len__(self) -> int:
        return len(self.offsets)

    def check(self, position: int) -> None:
        """Raise IndexError unless there is such a position."""
        if not 0 <= position < len(self):
            raise IndexError(f"there is no record at position {position}: there are {len(self)}, counted from 0")

    def key(self, position: int) -> Key:
        """Give a record's key."""
        self.check(position)
        key = self.keys[position]
        return key if isinstance(key, str) else int(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int | str | np.integer) and self._find(key) is not None

    def position_of(self, key: Key) -> int:
        """Give the position of a key; where several records have it, the last one's, as mxnet does.

        Raises
        ------
        KeyError
            No record has the key.
        """
        position = self._find(key)
        if position is None:
            raise KeyError(key)
        return position

    def positions_of(self, keys: ArrayLike) -> NDArray[np.int64]:
        """Give the positions of many keys.

        Raises
        ------
        KeyError
            No record has one of the keys.
        """
        if not isinstance(self.keys, np.ndarray):
            return np.array([self.position_of(key) for key in np.asarray(keys).tolist()], np.int64)
        wanted = np.asarray(keys, np.int64)
        order = self._key_order()
        places = np.searchsorted(self.keys if order is None else self.keys[order], wanted, side="right") - 1
        positions: NDArray[np.int64] = places if order is None else order[places].astype(np.int64)
        # Where a key is below all others its place is -1, which is the last one and has another key.
        missing = self.keys[positions] != wanted if len(self) else np.ones(len(wanted), bool)
        if missing.any():
            raise KeyError(int(wanted[missing][0]))
        return positions

    def _find(self, key: Key | np.integer) -> int | None:
        keys = self.keys
        if not isinstance(keys, np.ndarray):
            if self._places is None:
                self._places = {name: position for position, name in enumerate(keys)}
            return self._places.get(key) if isinstance(key, str) else None
        if isinstance(key, str):
            return None
        order = self._key_order()
        if order is None:
            position = bisect_right(keys, key) - 1
        else:
            place = bisect_right(order, key, key=keys.__getitem__) - 1
            position = int(order[place]) if place >= 0 else -1
        return position if position >= 0 and keys[position] == key else None

    def _key_order(self) -> NDArray[np.uint32] | None:
        """Give the positions by ascending key; None where the keys ascend as they are."""
        keys = self.keys
        if self._order is None:
            assert isinstance(keys, np.ndarray)
            if (keys[1:] > keys[:-1]).all():
                self._order = np.empty(0, np.uint32)
            else:
                self._order = np.argsort(keys, kind="stable").astype(np.uint32)
        return self._order if len(self._order) else None


def _chunks(text: LocalFile) -> Iterator[bytes]:
    for offset in range(0, text.size, _CHUNK):
        yield text.read(offset, min(_CHUNK, text.size - offset))


def _check(offsets: NDArray[np.int64], path: str, file: LocalFile) -> None:
    """Find out what is cheap to see of an index that is not this file's."""
    wrong = (offsets > file.size - HEAD.size) | (offsets & 3 != 0)
    if not wrong.any():
        return
    line = int(np.argmax(wrong))
    offset = int(offsets[line])
    fault = "is not a multiple of 4" if offset % 4 else f"is past the last record of {file.path} ({file.size} bytes)"
    raise IndexFileError(
        f"{path}, line {line + 1}: the byte offset {offset} {fault}: the index is damaged, or of another file; "
        "write it anew with `asyncloader index`",
        path=path,
        position=line,
        offset=offset,
    )
