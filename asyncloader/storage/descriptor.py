"""Open files of this process, read at an offset; one descriptor a file, whoever shares it.

A descriptor is closed when the last object that uses it is gone, a read under way in another thread included: closing
it earlier would let that thread read whatever file the number is given to next.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import weakref
from typing import NamedTuple

__all__ = ["Descriptor", "Identity", "open_shared"]

#: Linux reads no more than 0x7ffff000 bytes at once, macOS refuses more than INT_MAX.
MAX_CALL = 1 << 30


class Identity(NamedTuple):
    """What tells one file from another, and one state of it from the next."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        """Take the identity from what ``stat`` says."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class Descriptor:
    """A file that is open for reading.

    Parameters
    ----------
    path : str
        The file.

    Raises
    ------
    OSError
        As from :func:`os.open`; IsADirectoryError for a directory.
    """

    def __init__(self, path: str) -> None:
        self.number = -1
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
        # A pipe with no writer would block here for ever; regular files ignore the flag.
        self.number = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
        status = os.fstat(self.number)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(f"{path} is a directory")
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file, so it has no offsets to read at")
        self.identity = Identity.of(status)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)

    if sys.platform == "win32":

        def read(self, size: int, offset: int) -> bytes:
            """Read at most ``size`` bytes; fewer at the end of the file."""
            from asyncloader.storage.windows import read_at

            return read_at(self.number, size, offset)

    elif hasattr(os, "pread"):

        def read(self, size: int, offset: int) -> bytes:
            """Read at most ``size`` bytes; fewer at the end of the file, or when a signal comes in between."""
            return os.pread(self.number, size, offset)

    else:
        _position = threading.Lock()

        def read(self, size: int, offset: int) -> bytes:
            """Read at most ``size`` bytes, with the file's one position kept from other threads."""
            with self._position:
                os.lseek(self.number, offset, os.SEEK_SET)
                return os.read(self.number, size)


_open: weakref.WeakValueDictionary[tuple[str, Identity], Descriptor] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _forget_lock() -> None:
    """In a forked child: whoever held the lock is not here to release it."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)


def open_shared(path: str) -> Descriptor:
    """Open a file, or give the descriptor that this process has of it already.

    A file that was replaced or written to since is another one, and is opened anew.

    Raises
    ------
    OSError
        As from :func:`os.open`; IsADirectoryError for a directory.
    """
    with _lock:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):  # on Windows opening one fails with no more than "permission denied"
            raise IsADirectoryError(f"{path} is a directory")
        descriptor = _open.get((path, Identity.of(status)))
        if descriptor is None:
            descriptor = Descriptor(path)
            _open[path, descriptor.identity] = descriptor
        return descriptor
