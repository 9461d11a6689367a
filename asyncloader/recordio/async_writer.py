"""AsyncRecordWriter: RecordWriter for coroutines, on aiofiles."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from asyncloader.errors import LoaderClosedError
from asyncloader.recordio.frames import Buffer, encode
from asyncloader.recordio.index import Key
from asyncloader.recordio.writer import index_line
from asyncloader.storage import AtomicFile

__all__ = ["AsyncRecordWriter"]

#: So many bytes are gathered before a thread writes them.
_GATHER = 1 << 20

T = TypeVar("T")


class AsyncRecordWriter:
    """Writes a record file, and its index where one is asked for, without holding up the event loop.

    Parameters
    ----------
    path, index_path, sync
        As :class:`RecordWriter` takes them.

    Notes
    -----
    Any number of coroutines can write: records lie in the file in the order of the calls. As with
    :class:`RecordWriter` the files appear under their names when the ``async with`` block ends well.

    Raises
    ------
    MissingFileError, OSError
        By ``async with``, as from :class:`RecordWriter`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        index_path: str | os.PathLike[str] | None = None,
        *,
        sync: bool = False,
    ) -> None:
        self.path = os.path.abspath(path)
        self._index_path = index_path
        self._sync = sync
        self._count = 0
        self._records: _Stream | None = None
        self._index: _Stream | None = None

    async def __aenter__(self) -> Self:
        self._records = await _Stream.open(self.path)
        if self._index_path is not None:
            try:
                self._index = await _Stream.open(self._index_path)
            except BaseException:
                await self.discard()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.aclose()
        else:
            await self.discard()

    def __len__(self) -> int:
        """Give the number of records written."""
        return self._count

    def tell(self) -> int:
        """Give the byte offset at which the next record will begin."""
        return self._opened().length

    async def write(self, payload: Buffer, key: Key | None = None) -> int:
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
            The record is too long, or the key cannot stand in an index.
        LoaderClosedError
            The writer is not open.
        OSError
            The disk is full.
        """
        records = self._opened()
        offset = records.length
        line = index_line(self._count if key is None else key, offset)
        # All that has an order is done before the first await.
        records.gather(encode(payload))
        if self._index is not None:
            self._index.gather(line)
        self._count += 1
        await records.write_full()
        if self._index is not None:
            await self._index.write_full()
        return offset

    async def aclose(self) -> None:
        """Give the files their names.

        Raises
        ------
        OSError
            The disk is full, or the system does not let an old file be replaced; what was written is gone then.
        """
        records, index = self._records, self._index
        self._records = self._index = None
        try:
            if records is not None:
                await records.commit(self._sync)
            if index is not None:
                await index.commit(self._sync)
        except BaseException:
            for stream in (records, index):
                if stream is not None:
                    await stream.discard()
            raise

    async def discard(self) -> None:
        """Drop what was written; the files of before stay."""
        for stream in (self._records, self._index):
            if stream is not None:
                await stream.discard()
        self._records = self._index = None

    def _opened(self) -> _Stream:
        if self._records is None:
            raise LoaderClosedError(f"{self.path}: the writer is not open; use it inside `async with`", path=self.path)
        return self._records


class _Stream:
    """An :class:`AtomicFile` that threads write to, one at a time and in order."""

    def __init__(self, file: AtomicFile, handle: Any) -> None:
        self.length = 0
        self._file = file
        self._handle = handle
        self._gathered = bytearray()
        self._lock = asyncio.Lock()
        self._writing: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, path: str | os.PathLike[str]) -> _Stream:
        import aiofiles

        file = await _in_thread(lambda: AtomicFile(path))
        # Not buffered: what a failed write left over would be written later, to whatever file has the number then.
        return cls(file, await aiofiles.open(file.descriptor, "wb", buffering=0, closefd=False))

    def gather(self, data: bytes) -> None:
        self._gathered += data
        self.length += len(data)

    async def write_full(self) -> None:
        if len(self._gathered) >= _GATHER:
            await self._write()

    async def _write(self) -> None:
        async with self._lock:
            await self._settle()
            data = bytes(self._gathered)
            self._gathered.clear()
            self._writing = asyncio.ensure_future(self._write_out(data))
            await self._settle()

    async def _write_out(self, data: bytes) -> None:
        with memoryview(data) as view:
            done = 0
            while done < len(view):
                done += await self._handle.write(view[done:])

    async def _settle(self) -> None:
        """Wait for the thread that writes: a caller that is cancelled leaves it to the next one."""
        if self._writing is not None:
            await asyncio.shield(self._writing)
            self._writing = None

    async def commit(self, sync: bool) -> None:
        await self._write()
        await self._handle.close()
        await _in_thread(lambda: self._file.commit(sync=sync))

    async def discard(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await _in_thread(self._file.discard)


async def _in_thread(function: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, function)
