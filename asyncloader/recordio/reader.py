"""RecordReader: records by their position in the index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncloader.errors import CorruptRecordError, ReadError
from asyncloader.recordio.frames import HEAD, MAGIC, decode_from
from asyncloader.recordio.index import RecordIndex, index_path_beside
from asyncloader.storage import LocalFile, plan_reads

__all__ = ["Payload", "RecordReader"]

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
                index = RecordIndex.load(self._index_file, self._file)
                self._index_file.close()
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
            Whether every payload is ``bytes``. Without, long ones are views of one buffer that holds the whole batch,
            and lives until the last of them is gone.

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
        asked = np.asarray(positions, np.int64)
        if len(asked) == 0:
            return []
        # As unsigned numbers negative positions are past the end as well.
        if asked.view(np.uint64).max() >= len(self.index):
            self.index.check(next(p for p in asked.tolist() if not 0 <= p < len(self.index)))
        offsets = self.index.offsets[asked]
        sizes = self.index.spans[asked].astype(np.int64)
        if sizes.max() > _LONG:
            sizes[sizes > _LONG] = HEAD.size
        plan = plan_reads(offsets, sizes)
        try:
            data = self._file.read_ranges(plan.offsets, plan.sizes)
        except ReadError:
            # One bad range must not take the others' records along.
            return [self._read_apart(position, on_error) for position in asked.tolist()]
        payloads, odd = _cut_out(data, plan.starts, sizes, copy)
        for slot in odd:
            payloads[slot] = self._read_apart(int(asked[slot]), on_error)
        return payloads

    def _read_apart(self, position: int, on_error: str) -> bytes | Exception:
        try:
            return self._read_slowly(position)
        except (CorruptRecordError, ReadError) as error:
            if on_error == "raise":
                raise
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
            self.index = RecordIndex.load(index, self._file)
            index.close()
        else:
            self._index_file = None
            self.index = index


def _cut_out(
    data: Payload, starts: NDArray[np.int64], sizes: NDArray[np.int64], copy: bool
) -> tuple[list[bytes | memoryview | Exception], list[int]]:
    """Cut records of one part out of a buffer; the slots of all others come second, and are empty.

    Offsets and sizes are multiples of 4, so all heads are aligned words.
    """
    words = np.frombuffer(data, "<u4")
    heads = starts >> 2
    lengths = words[heads + 1].astype(np.int64)
    # The word holds the kind as well: it is a length that fits into a span this short only where the kind is 0.
    whole = (words[heads] == MAGIC) & (lengths <= sizes - HEAD.size)
    odd: list[int] = []
    if not whole.all():
        odd = np.flatnonzero(~whole).tolist()
        lengths[odd] = 0
    begins = starts + HEAD.size
    ends = begins + lengths
    if len(data) <= _SHORT * len(starts):
        copy = True
    if copy and not isinstance(data, bytes):
        return [data[begin:end].tobytes() for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)], odd
    source = data if copy else memoryview(data)
    return [source[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)], odd
