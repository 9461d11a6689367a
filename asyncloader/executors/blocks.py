"""Memory that two processes see, with nothing to clean up.

A block has no name that could be left behind. On Linux it is a memfd; on other POSIX systems a shared-memory object
whose name is removed as soon as it is open. Its descriptor is handed to a worker through their connection. On Windows a
block is a mapping of the page file, which lives as long as a handle to it does. So whoever is killed, whenever, the
memory is gone with the last process that maps it.
"""

from __future__ import annotations

import mmap
import os
import secrets
import sys
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

from asyncloader.errors import SharedMemoryError

__all__ = ["SharedBlock", "receive_block"]


class SharedBlock:
    """A block that this process made and can hand to its workers.

    Parameters
    ----------
    number : int
        What the block is called in messages.
    size : int
        Bytes.

    Raises
    ------
    SharedMemoryError
        The system has no such memory left.
    """

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self._name = f"asyncloader-{os.getpid()}-{secrets.token_hex(8)}"
        try:
            self._allocate()
        except (OSError, ValueError) as error:
            raise SharedMemoryError(
                f"{size} bytes of shared memory could not be allocated ({error}): "
                "give the container more (docker run --shm-size), or lower batch_size or prefetch"
            ) from error

    if sys.platform == "win32":

        def _allocate(self) -> None:
            self.memory = mmap.mmap(-1, self.size, tagname=self._name)

        def send(self, connection: Connection[Any, Any], pid: int) -> None:
            """Hand the block to a worker, which takes it with :func:`receive_block`."""
            connection.send((self.size, self._name))

    else:
        _descriptor: int | None = None

        def _allocate(self) -> None:
            self._descriptor = _open_anonymous(self._name)
            # Takes the memory now: where it is short this fails, instead of the first touch with a bus error.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._descriptor, 0, self.size)
            else:
                os.ftruncate(self._descriptor, self.size)
            self.memory = mmap.mmap(self._descriptor, self.size)

        def send(self, connection: Connection[Any, Any], pid: int) -> None:
            """Hand the block to a worker, which takes it with :func:`receive_block`."""
            assert self._descriptor is not None
            connection.send((self.size, None))
            send_handle(connection, self._descriptor, pid)

        def __del__(self) -> None:
            if self._descriptor is not None:
                os.close(self._descriptor)


def receive_block(connection: Connection[Any, Any], *, private: bool = False) -> mmap.mmap:
    """Map the block that the other side of the connection sends.

    Parameters
    ----------
    connection : Connection
        Where it comes from.
    private : bool
        Map it so that what this process writes is seen by nobody else.
    """
    size, name = connection.recv()
    access = mmap.ACCESS_COPY if private else mmap.ACCESS_WRITE
    if sys.platform == "win32":
        return mmap.mmap(-1, size, tagname=name, access=access)
    descriptor = recv_handle(connection)
    try:
        return mmap.mmap(descriptor, size, access=access)
    finally:
        os.close(descriptor)


if sys.platform != "win32":

    def _open_anonymous(name: str) -> int:
        if hasattr(os, "memfd_create"):
            return os.memfd_create(name, os.MFD_CLOEXEC)
        from _posixshmem import shm_open, shm_unlink  # type: ignore[import-not-found]

        name = f"/{name[-28:]}"  # macOS takes names of 30 characters at most
        descriptor: int = shm_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=0o600)
        shm_unlink(name)
        return descriptor
