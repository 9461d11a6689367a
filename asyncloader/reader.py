"""AsyncRecordReader: records of a file for coroutines."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from asyncloader.errors import LoaderClosedError, WorkerError
from asyncloader.offload import in_thread
from asyncloader.recordio import RecordReader

__all__ = ["AsyncRecordReader"]

P = ParamSpec("P")
T = TypeVar("T")

#: Records read at once when iterating, and how many such reads are ahead of the consumer.
_RECORDS_PER_READ = 64
_READS_AHEAD = 4


class AsyncRecordReader:
    """Reads records by positional reads, for any number of coroutines at once.

    Parameters
    ----------
    path : path
        The record file.
    index_path : path, optional
        The index, where it is not beside the file. Without any index one is built in memory by a scan.
    max_threads : int
        How many reads may be under way; further ones wait their turn.

    Notes
    -----
    Opening (loading the index, or the scan that builds it) is done by ``async with``, off the event loop.

    Raises
    ------
    MissingFileError, IndexFileError, CorruptRecordError
        By ``async with``, for what can be seen at opening; by the reading methods for the rest.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        index_path: str | os.PathLike[str] | None = None,
        *,
        max_threads: int = 8,
    ) -> None:
        self.path = os.path.abspath(path)
        self._index_path = index_path
        self._max_threads = max_threads
        self._reader: RecordReader | None = None
        self._pool: ThreadPoolExecutor | None = None

    async def __aenter__(self) -> Self:
        self._pool = ThreadPoolExecutor(self._max_threads, thread_name_prefix="asyncloader-reader")
        try:
            opening = _submit(self._pool, RecordReader, self.path, self._index_path)
            self._reader = await asyncio.wrap_future(opening)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Wait for the reads under way, and close the file."""
        pool, self._pool = self._pool, None
        reader, self._reader = self._reader, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
            await in_thread(pool.shutdown)
        if reader is not None:
            reader.close()

    def __len__(self) -> int:
        """Give the number of records."""
        return len(self._opened()[0])

    @property
    def keys(self) -> NDArray[np.int64] | Sequence[int | str]:
        """The records' keys, by position."""
        return self._opened()[0].index.keys

    async def read(self, position: int) -> bytes:
        """Read one record, by its position in the index."""
        reader, pool = self._opened()
        return await asyncio.wrap_future(_submit(pool, reader.read, position))

    async def read_many(self, positions: Sequence[int]) -> list[bytes]:
        """Read records by their positions: one coalesced read, the results in the order asked."""
        reader, pool = self._opened()
        return await asyncio.wrap_future(_submit(pool, _read_many, reader, np.asarray(positions, np.int64)))

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Go through the records in file order, with reads ahead of the consumer."""
        return _FileOrder(*self._opened())

    def _opened(self) -> tuple[RecordReader, ThreadPoolExecutor]:
        if self._reader is None or self._pool is None:
            raise LoaderClosedError(f"{self.path}: the reader is not open; use it inside `async with`", path=self.path)
        return self._reader, self._pool


class _FileOrder:
    """The records of a file in the order they lie in it.

    What is read ahead are futures of the pool, not tasks: an iterator that is dropped leaves nothing pending.
    """

    def __init__(self, reader: RecordReader, pool: ThreadPoolExecutor) -> None:
        self._reader = reader
        self._pool = pool
        self._order = np.argsort(reader.index.offsets, kind="stable")
        self._next = 0
        self._reads: deque[Future[list[bytes | memoryview | Exception]]] = deque()
        self._records: deque[bytes | memoryview | Exception] = deque()

    def __aiter__(self) -> _FileOrder:
        return self

    async def __anext__(self) -> bytes:
        while not self._records:
            self._read_ahead()
            if not self._reads:
                raise StopAsyncIteration
            records = await asyncio.wrap_future(self._reads.popleft())
            self._records.extend(records)
            self._read_ahead()
        record = self._records.popleft()
        if isinstance(record, Exception):
            raise record
        return bytes(record)

    def _read_ahead(self) -> None:
        while len(self._reads) < _READS_AHEAD and self._next < len(self._order):
            positions = self._order[self._next : self._next + _RECORDS_PER_READ]
            self._next += len(positions)
            self._reads.append(_submit(self._pool, _read_each, self._reader, positions))


def _submit(pool: ThreadPoolExecutor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    try:
        return pool.submit(function, *args, **kwargs)
    except RuntimeError as error:
        raise WorkerError(
            f"no thread could be started ({error}): the limit on processes or on memory is reached; "
            "raise it (ulimit -u, ulimit -v), or lower max_threads"
        ) from error


def _read_each(reader: RecordReader, positions: NDArray[np.int64]) -> list[bytes | memoryview | Exception]:
    return reader.read_many(positions, on_error="return")


def _read_many(reader: RecordReader, positions: NDArray[np.int64]) -> list[bytes]:
    return [bytes(payload) for payload in reader.read_many(positions)]
