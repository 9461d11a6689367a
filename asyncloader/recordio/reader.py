"""RecordReader: records by their position in the index."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Literal, NamedTuple, Self, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncloader.errors import CorruptRecordError, IndexFileError, ReadError
from asyncloader.recordio.cutting import Cut, cut_in_file_order, cut_long, cut_short, whole
from asyncloader.recordio.frames import HEAD, MAGIC, decode_from
from asyncloader.recordio.index import RecordIndex, index_path_beside
from asyncloader.storage import MAX_GAP, LocalFile, plan_reads

__all__ = ["Payload", "RecordReader", "Scattered"]

Payload: TypeAlias = bytes | memoryview

#: A record that may be longer than this is read by what its head says. The span is only a bound: an index that names
#: one record in a thousand must not make each read a thousand times too long.
_LONG = 1 << 18

_ADVICE = (
    "; the file is damaged there, or the index is of another file: `asyncloader verify` tells which, "
    "`asyncloader index` writes a new index"
)

#: Payloads up to this size, on average, are copied out: that takes less than a view does, and lets the batch go.
_SHORT = 1024


#: Neighbours in the file that are fewer than one in this many are not worth the planning that reads them together.
_FEW = 4


class Scattered(NamedTuple):
    """Records that lie apart, in file order.

    Attributes
    ----------
    read : callable
        ``read(size, offset)`` as the system has it: it may come out short, or raise an OSError.
    slots : list of int
        The records' places among those asked for.
    offsets, sizes : list of int
        Where each begins in the file, and how many bytes hold it if it is whole and not longer than the index allows.
    """

    read: Callable[[int, int], bytes]
    slots: list[int]
    offsets: list[int]
    sizes: list[int]


class RecordReader:
    """Reads records by positional reads: no position is shared, so any number of threads can ask at once.

    Parameters
    ----------
    path : path
        The record file.
    index_path : path, optional
        Its index. Where none is given, the one beside the file (``.idx`` for ``.rec``) is used if it is there; else one
        is built in memory by a scan.
    index : RecordIndex, optional
        An index that is loaded or built already; nothing is looked for then.

    Attributes
    ----------
    path : str
        The record file's absolute path.
    index : RecordIndex
        Keys and offsets, by position.

    Notes
    -----
    Pickled, a reader is the paths with size and modification time of the record file; the index travels only where
    there is no file to load it from again.

    Raises
    ------
    MissingFileError
        The record file, or the index named, is not there or is a directory.
    ReadError
        A file cannot be read.
    IndexFileError
        The index cannot be parsed, or does not fit the record file.
    CorruptRecordError
        There is no index, and the scan met a damaged record.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        index_path: str | os.PathLike[str] | None = None,
        *,
        index: RecordIndex | None = None,
    ) -> None:
        self._file = LocalFile(path)
        self.path = self._file.path
        #: Where the index can be loaded again; None where it was built, or given.
        self._index_file: LocalFile | None = None
        if index is None:
            beside = index_path_beside(self.path)
            if index_path is None and os.path.exists(beside):
                index_path = beside
            if index_path is None:
                index = RecordIndex.build(self._file)
            else:
                self._index_file = LocalFile(index_path)
                index = _load_index(self._index_file, self._file)
        self.index = index

    def __len__(self) -> int:
        return len(self.index)

    def read(self, position: int) -> bytes:
        """Read one record.

        Raises
        ------
        IndexError
            There is no such position.
        CorruptRecordError
            The record is damaged, or the index is of another file.
        ReadError
            The system refused the read, or the file was cut short since it was opened.
        """
        self.index.check(position)
        offset, span = int(self.index.offsets[position]), int(self.index.spans[position])
        if span <= _LONG:
            try:
                data = self._file.read(offset, span)
            except ReadError:
                return self._read_slowly(position)
            magic, word = HEAD.unpack_from(data)
            if magic == MAGIC and word <= span - HEAD.size:
                return data[HEAD.size : HEAD.size + word]
        return self._read_slowly(position)

    @overload
    def read_many(
        self, positions: ArrayLike, *, on_error: Literal["raise"] = "raise", copy: Literal[True]
    ) -> list[bytes]: ...
    @overload
    def read_many(
        self, positions: ArrayLike, *, on_error: Literal["raise"] = "raise", copy: bool = False
    ) -> list[bytes | memoryview]: ...
    @overload
    def read_many(
        self, positions: ArrayLike, *, on_error: Literal["return"], copy: bool = False
    ) -> list[bytes | memoryview | Exception]: ...
    def read_many(
        self, positions: ArrayLike, *, on_error: Literal["raise", "return"] = "raise", copy: bool = False
    ) -> Sequence[bytes | memoryview | Exception]:
        """Read several records at once: neighbours in the file are one read.

        Parameters
        ----------
        positions : array of int, shape (n,)
            Any order; repetitions are allowed.
        on_error : {"raise", "return"}
            With "return" a record that cannot be read has the error in its place in the list.
        copy : bool
            Whether every payload is ``bytes``. Without, long ones are views of what was read in one go, which lives
            until the last of them is gone.

        Returns
        -------
        list of bytes, memoryview or Exception
            The payloads in the order asked.

        Raises
        ------
        IndexError
            There is no such position.
        CorruptRecordError, ReadError
            As from :meth:`read`; the first of them in the order asked.
        """
        payloads = list(self.iter_many(positions, on_error=on_error))
        if copy:
            return [bytes(payload) if isinstance(payload, memoryview) else payload for payload in payloads]
        return payloads

    def iter_many(
        self, positions: ArrayLike, *, on_error: Literal["raise", "return"] = "return"
    ) -> Iterator[bytes | memoryview | Exception]:
        """Read several records at once, as :meth:`read_many` does, and cut them out one by one.

        The reading is done when this returns.

        Raises
        ------
        IndexError
            There is no such position.
        CorruptRecordError, ReadError
            As from :meth:`read`, where ``on_error`` is "raise"; here, or when the record's turn has come.
        """
        asked = np.asarray(positions, np.int64)
        if len(asked) == 0:
            return iter(())
        offsets, sizes = self._extents(asked)
        plan = plan_reads(offsets, sizes)

        read_apart = self._read_slowly if on_error == "raise" else self._read_apart
        try:
            if plan.sizes.sum() <= _SHORT * len(asked):
                data = self._file.read_joined(plan.offsets, plan.sizes)
                return iter(cut_short(data, plan, sizes, asked, read_apart))
            pieces = self._file.read_ranges(plan.offsets, plan.sizes)
            return cut_long(pieces, plan, sizes, asked, read_apart)
        except ReadError:
            return map(read_apart, asked.tolist())  # one bad range must not take the others' records along

    def stream(self, positions: ArrayLike, on_read: Callable[[float], object]) -> Iterator[Cut]:
        """Read several records in file order, each when its turn has come.

        What is read is at once in the processor's nearest cache for the one who decodes it, and a thread that reads
        and decodes by turns never keeps the GIL for long.

        Parameters
        ----------
        positions : array of int, shape (n,)
            Any order; repetitions are allowed.
        on_read : callable
            Told at the end how many seconds the reads took.

        Yields
        ------
        slot : int
            The record's place in ``positions``.
        data : bytes-like or Exception
            What holds its payload, or why it cannot be read.
        begin, end : int
            Where in ``data`` the payload is.

        Raises
        ------
        IndexError
            There is no such position.
        """
        asked = np.asarray(positions, np.int64)
        offsets, sizes = self._extents(asked)
        if sizes.sum() <= _SHORT * len(asked):
            begun = time.perf_counter()
            payloads = self.iter_many(asked)
            on_read(time.perf_counter() - begun)
            yield from map(whole, itertools.count(), payloads)
            return
        yield from cut_in_file_order(self._file.positional_read(), offsets, sizes, asked, self._read_apart, on_read)

    def scattered(self, positions: ArrayLike) -> Scattered | None:
        """Give what it takes to read records one by one, in file order; None where many can be read together.

        For a caller that wants no code of this class's between a read and what it does with it.

        Raises
        ------
        IndexError
            There is no such position.
        """
        asked = np.asarray(positions, np.int64)
        offsets, sizes = self._extents(asked)
        if sizes.sum() <= _SHORT * len(asked):
            return None
        order = np.argsort(offsets, kind="stable")
        offsets, sizes = offsets[order], sizes[order]
        neighbours = np.count_nonzero(offsets[1:] <= offsets[:-1] + sizes[:-1] + MAX_GAP)
        if neighbours * _FEW > len(asked):
            return None
        return Scattered(self._file.positional_read(), order.tolist(), offsets.tolist(), sizes.tolist())

    def _extents(self, asked: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give the offsets of records, and how much to read of each."""
        # As unsigned numbers negative positions are past the end as well.
        if len(asked) and asked.view(np.uint64).max() >= len(self.index):
            self.index.check(next(p for p in asked.tolist() if not 0 <= p < len(self.index)))
        sizes = self.index.spans[asked].astype(np.int64)
        sizes[sizes > _LONG] = HEAD.size
        return self.index.offsets[asked], sizes

    def _read_apart(self, position: int) -> bytes | Exception:
        try:
            return self._read_slowly(position)
        except (CorruptRecordError, ReadError) as error:
            return error

    def _read_slowly(self, position: int) -> bytes:
        """Read a record part by part, as the heads say."""
        key, offset = self.locate(position)
        try:
            return decode_from(self._file.read, offset, self._file.size)[0]
        except (CorruptRecordError, ReadError) as error:
            where = f"{self.path}: the record at position {position} (key {key!r}, byte offset {offset}) cannot be read"
            advice = _ADVICE if isinstance(error, CorruptRecordError) else ""
            raise type(error)(
                f"{where}: {error}{advice}", path=self.path, position=position, key=key, offset=offset
            ) from error

    def locate(self, position: int) -> tuple[int | str, int]:
        """Give the key and the byte offset of a record."""
        self.index.check(position)
        return self.index.key(position), int(self.index.offsets[position])

    def advise(self, positions: ArrayLike) -> None:
        """Tell the kernel that these records will be read soon; does nothing where it cannot be told."""
        asked = np.asarray(positions, np.int64)
        if len(asked):
            sizes = np.minimum(self.index.spans[asked].astype(np.int64), _LONG)
            plan = plan_reads(self.index.offsets[asked], sizes)
            self._file.advise(zip(plan.offsets.tolist(), plan.sizes.tolist(), strict=True))

    def close(self) -> None:
        """Close the file; reads under way in other threads still end well."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> tuple[LocalFile, LocalFile | RecordIndex]:
        if self._index_file is not None and self._index_file.unchanged():
            return self._file, self._index_file
        return self._file, self.index

    def __setstate__(self, state: tuple[LocalFile, LocalFile | RecordIndex]) -> None:
        self._file, index = state
        self.path = self._file.path
        if isinstance(index, LocalFile):
            self._index_file = index
            self.index = _load_index(index, self._file)
        else:
            self._index_file = None
            self.index = index


def _load_index(text: LocalFile, file: LocalFile) -> RecordIndex:
    with text:
        index = RecordIndex.load(text, file)
    if len(index) == 0 and file.size:
        raise IndexFileError(
            f"{text.path} names no record, but {file.path} has {file.size} bytes; "
            "write the index anew with `asyncloader index`",
            path=text.path,
        )
    return index
