"""Record files as datasets: the bytes of each record, from one file, several, or a glob."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from asyncloader.datasets.base import (
    Dataset,
    Failure,
    LoadContext,
    Location,
    Transform,
    as_indexes,
    sample_error,
    unread,
)
from asyncloader.errors import MissingFileError
from asyncloader.recordio import RecordReader
from asyncloader.recordio.cutting import Cut
from asyncloader.recordio.reader import Scattered

__all__ = ["PathOrPaths", "RecordDataset", "RecordFiles", "expand_paths"]

PathOrPaths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
Payload: TypeAlias = bytes | memoryview | Exception


def expand_paths(paths: PathOrPaths) -> list[str]:
    """Give the files that a path, a glob, or a list of either names; a glob's in sorted order.

    Raises
    ------
    MissingFileError
        A glob matches nothing.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    files: list[str] = []
    for path in [os.fspath(path) for path in paths]:
        if not glob.has_magic(path) or Path(path).exists():
            files.append(path)
            continue
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise MissingFileError(f"no file matches {os.path.abspath(path)}", path=os.path.abspath(path))
        files.extend(found)
    if not files:
        raise ValueError("no path was given: a dataset needs at least one record file")
    return files


class RecordFiles:
    """Several record files seen as one, in the order given."""

    def __init__(self, paths: PathOrPaths, index_path: str | os.PathLike[str] | None = None) -> None:
        files = expand_paths(paths)
        if index_path is not None and len(files) != 1:
            raise ValueError(f"index_path names the index of one file, but {len(files)} were given")
        self.readers = [RecordReader(path, index_path) for path in files]
        self._ends = np.cumsum([len(reader) for reader in self.readers])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def find(self, position: int) -> tuple[RecordReader, int]:
        """Give the file that holds a position, and the position within it."""
        file = int(np.searchsorted(self._ends, position, side="right"))
        return self.readers[file], position - (int(self._ends[file - 1]) if file else 0)

    def locate(self, position: int) -> Location:
        """Say where a record is."""
        reader, local = self.find(position)
        key, offset = reader.locate(local)
        return Location(reader.path, key, offset)

    def read_many(self, positions: Sequence[int]) -> Iterator[Payload]:
        """Give the payloads, an exception where one could not be read: one coalesced read for each file."""
        if len(self.readers) == 1:
            return self.readers[0].iter_many(as_indexes(positions))
        payloads: list[Payload] = [b""] * len(positions)
        for reader, slots, local in self._by_file(positions):
            for slot, payload in zip(slots, reader.iter_many(local), strict=True):
                payloads[slot] = payload
        return iter(payloads)

    def scattered(self, positions: Sequence[int]) -> Scattered | None:
        """Say how to read records one by one; see :meth:`RecordReader.scattered`. None for several files."""
        return self.readers[0].scattered(as_indexes(positions)) if len(self.readers) == 1 else None

    def stream(self, positions: Sequence[int], on_read: Callable[[float], object]) -> Iterator[Cut]:
        """Read in file order, each record when its turn has come, file after file; see :meth:`RecordReader.stream`."""
        if len(self.readers) == 1:
            return self.readers[0].stream(as_indexes(positions), on_read)
        return (
            (slots[place], data, begin, end)
            for reader, slots, local in self._by_file(positions)
            for place, data, begin, end in reader.stream(local, on_read)
        )

    def advise(self, positions: Sequence[int]) -> None:
        """Announce the records of ``positions`` to the kernel."""
        for reader, _, local in self._by_file(positions):
            reader.advise(local)

    def _by_file(self, positions: Sequence[int]) -> list[tuple[RecordReader, list[int], Any]]:
        indexes = as_indexes(positions)
        files = np.searchsorted(self._ends, indexes, side="right")
        groups = []
        for file in np.unique(files).tolist():
            slots = np.flatnonzero(files == file)
            start = self._ends[file - 1] if file else 0
            groups.append((self.readers[file], slots.tolist(), indexes[slots] - start))
        return groups

    def close(self) -> None:
        """Close the files."""
        for reader in self.readers:
            reader.close()


class RecordDataset(Dataset):
    """The records of one or several RecordIO files, as bytes.

    Parameters
    ----------
    path : path, list of paths, or glob
        The record files; several are seen as one, in the order given (a glob's in sorted order).
    index_path : path, optional
        The index, where one file is given and its index is not beside it. Without any index one is built in memory by
        a scan.
    transform : callable, optional
        Applied to each record's bytes; one that has a parameter ``rng`` gets the sample's own
        :class:`numpy.random.Generator` in it.

    Raises
    ------
    MissingFileError, IndexFileError, CorruptRecordError
        At once, for what can be seen at opening.
    """

    def __init__(
        self,
        path: PathOrPaths,
        index_path: str | os.PathLike[str] | None = None,
        *,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        self.files = RecordFiles(path, index_path)
        self.transform = Transform(transform) if transform is not None else None

    def __len__(self) -> int:
        return len(self.files)

    def load_many(self, positions: Sequence[int], context: LoadContext) -> list[Any]:
        """Read the records at ``positions``."""
        with context.time_reading():
            payloads = self.files.read_many(positions)
            if self.transform is None:
                pairs = zip(payloads, positions, strict=True)
                return [unread(p, self.locate(at), at) if isinstance(p, Exception) else bytes(p) for p, at in pairs]
        with context.time_decoding():
            return [self._transformed(*item, context) for item in zip(payloads, positions, strict=True)]

    def _transformed(self, payload: Payload, position: int, context: LoadContext) -> Any:
        assert self.transform is not None
        if isinstance(payload, Exception):
            return unread(payload, self.locate(position), position)
        try:
            context.before_sample(position)
            return self.transform.on_value(bytes(payload), position, context)
        except Exception as error:
            return Failure(sample_error(error, self.locate(position), position, str(self.transform)))

    def locate(self, position: int) -> Location:
        """Say where a record is."""
        return self.files.locate(position)

    def advise(self, positions: Sequence[int]) -> None:
        """Announce the records of ``positions`` to the kernel."""
        self.files.advise(positions)

    def close(self) -> None:
        """Close the files."""
        self.files.close()
