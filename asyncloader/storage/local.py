"""Local files, read at an offset: no file position, so any number of threads can read at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from asyncloader.errors import FileChangedError, LoaderClosedError, MissingFileError, ReadError
from asyncloader.storage.descriptor import MAX_CALL, Descriptor, open_shared

__all__ = ["LocalFile"]


class LocalFile:
    """A file open for positional reads.

    Parameters
    ----------
    path : path
        The file.

    Attributes
    ----------
    path : str
        Its absolute path.
    size : int
        Bytes, when it was opened.
    mtime_ns : int
        Time of the last change, when it was opened: nanoseconds since the epoch.

    Notes
    -----
    All objects of a process that read the same file share one descriptor. It is not inherited by programs that the
    process starts; after a fork the child can go on reading. Pickled, an object is its path, size and modification
    time; unpickled, it opens the file again.

    Raises
    ------
    MissingFileError
        The file is not there, or is a directory.
    ReadError
        It cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        try:
            descriptor = open_shared(self.path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingFileError(f"{self.path} is not there; check the path", path=self.path) from error
        except IsADirectoryError as error:
            raise MissingFileError(f"{self.path} is a directory, but a file was expected", path=self.path) from error
        except (OSError, ValueError) as error:
            raise ReadError(f"{self.path} cannot be opened: {error}", path=self.path) from error
        self._descriptor: Descriptor | None = descriptor
        self.size = descriptor.identity.size
        self.mtime_ns = descriptor.identity.mtime_ns

    def __getstate__(self) -> tuple[str, int, int]:
        return self.path, self.size, self.mtime_ns

    def __setstate__(self, state: tuple[str, int, int]) -> None:
        path, size, mtime_ns = state
        LocalFile.__init__(self, path)
        if (self.size, self.mtime_ns) != (size, mtime_ns):
            raise FileChangedError(
                f"{path} has changed since it was opened first: it had {size} bytes and was last modified at "
                f"{mtime_ns} ns, now it has {self.size} bytes and was modified at {self.mtime_ns} ns; "
                "open it anew, and do not write to files that are being read",
                path=path,
            )

    def unchanged(self) -> bool:
        """Whether the path still leads to a file of the same size and modification time."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.mtime_ns)

    def read(self, offset: int, size: int) -> bytes:
        """Read exactly ``size`` bytes at ``offset``.

        Raises
        ------
        ReadError
            The system refused, or the file ends earlier.
        LoaderClosedError
            The file is closed.
        """
        descriptor = self._opened()
        try:
            data = descriptor.read(min(size, MAX_CALL), offset)
            if len(data) == size:
                return data
            pieces = [data]
            done = len(data)
            while done < size and pieces[-1]:
                pieces.append(descriptor.read(min(size - done, MAX_CALL), offset + done))
                done += len(pieces[-1])
        except OSError as error:
            raise self._refused(error, offset, size) from error
        if done < size:
            raise self._cut_short(offset, size, done)
        return b"".join(pieces)

    def read_ranges(self, offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[bytes]:
        """Read several ranges, each into a byte string of its own.

        Filling one buffer by ``preadv`` instead takes longer a call and no less memory, and one record that is kept
        would keep all the others' bytes.

        Parameters
        ----------
        offsets, sizes : ndarray of int64
            The ranges.

        Raises
        ------
        ReadError
            The system refused, or the file ends earlier.
        LoaderClosedError
            The file is closed.
        """
        try:
            pieces = list(self.iter_ranges(offsets, sizes))
        except OSError:
            pieces = []
        if sum(map(len, pieces)) != sizes.sum():
            # Once more with care, for a read that came out short, or for an error that says where it happened.
            pieces = list(map(self.read, offsets.tolist(), sizes.tolist()))
        return pieces

    def read_joined(self, offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> bytes:
        """Read several ranges into one byte string, one after another.

        Parameters
        ----------
        offsets, sizes : ndarray of int64
            The ranges.

        Raises
        ------
        ReadError
            The system refused, or the file ends earlier.
        LoaderClosedError
            The file is closed.
        """
        if len(offsets) == 1:
            return self.read(int(offsets[0]), int(sizes[0]))
        try:
            data = b"".join(self.iter_ranges(offsets, sizes))
        except OSError:
            data = b""
        if len(data) != sizes.sum():
            data = b"".join(map(self.read, offsets.tolist(), sizes.tolist()))
        return data

    def iter_ranges(self, offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> Iterator[bytes]:
        """Read several ranges, each when it is asked for; one that ends behind the file's end comes out short.

        Raises
        ------
        OSError
            As the system gives it, by the step that asks for the range; the next step goes on behind it.
        LoaderClosedError
            The file is closed.
        """
        descriptor = self._opened()
        if not hasattr(os, "pread"):
            return map(descriptor.read, sizes.tolist(), offsets.tolist())
        # No Python frame for each range: it would take as long as the read itself.
        return map(os.pread, repeat(descriptor.number), sizes.tolist(), offsets.tolist())

    def positional_read(self) -> Callable[[int, int], bytes]:
        """Give ``read(size, offset)`` as the system has it: it may come out short, or raise an OSError.

        The file stays open as long as the function is held.

        Raises
        ------
        LoaderClosedError
            The file is closed.
        """
        descriptor = self._opened()
        if not hasattr(os, "pread"):
            return descriptor.read
        read = partial(os.pread, descriptor.number)  # no Python frame, which would take as long as the read itself
        read.descriptor = descriptor  # type: ignore[attr-defined]
        return read

    def advise(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Tell the kernel which ranges (offset, size) will be read soon, where it can be told.

        Raises
        ------
        LoaderClosedError
            The file is closed.
        """
        if sys.platform != "win32" and sys.platform != "darwin" and hasattr(os, "posix_fadvise"):
            number = self._opened().number
            try:
                for offset, size in ranges:
                    os.posix_fadvise(number, offset, size, os.POSIX_FADV_WILLNEED)
            except OSError:
                return  # a file system that takes no advice reads as well without

    def close(self) -> None:
        """Let go of the descriptor; reads under way in other threads still end well."""
        self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> Descriptor:
        descriptor = self._descriptor
        if descriptor is None:
            raise LoaderClosedError(f"{self.path} was closed; open it again to read from it", path=self.path)
        return descriptor

    def _refused(self, error: OSError, offset: int, size: int) -> ReadError:
        return ReadError(
            f"{self.path}: reading {size} bytes at byte offset {offset} failed: {error}", path=self.path, offset=offset
        )

    def _cut_short(self, offset: int, size: int, done: int) -> ReadError:
        return ReadError(
            f"{self.path}: {size} bytes were expected at byte offset {offset}, but the file ends after {done} of them; "
            f"it had {self.size} bytes when it was opened and was cut short since: restore it and open it anew",
            path=self.path,
            offset=offset,
        )
