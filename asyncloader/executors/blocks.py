"""Memory that two processes see, with nothing to clean up.

A block has no name that could be left behind. On Linux it is a memfd; on other POSIX systems a shared-memory object
whose name is removed as soon as it is open. Its descriptor is handed to a worker through their connection. On Windows a
block is a mapping of the page file, which lives as long as a handle to it does. So whoever is killed, whenever, the
memory is gone with the last process that maps it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import sys

from asyncloader.errors import SharedMemoryError
from asyncloader.executors.pipes import ProcessConnection

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
                "give the container more memory (and a larger /dev/shm), or lower batch_size or prefetch"
            ) from error

    if sys.platform == "win32":

        def _allocate(self) -> None:
            self.memory = mmap.mmap(-1, self.size, tagname=self._name)

        def send(self, connection: ProcessConnection) -> None:
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
            self.memory = _map(self._descriptor, self.size, mmap.ACCESS_WRITE)

        def send(self, connection: ProcessConnection) -> None:
            """Hand the block to a worker, which takes it with :func:`receive_block`."""
            assert self._descriptor is not None
            connection.send((self.size, None))
            with _as_socket(connection) as channel:
                socket.send_fds(channel, [_COMPANION], [self._descriptor])

        def __del__(self) -> None:
            if self._descriptor is not None:
                os.close(self._descriptor)


def receive_block(connection: ProcessConnection, *, private: bool = False) -> mmap.mmap:
    """Map the block that the other side of the connection sends.

    Parameters
    ----------
    connection : Connection
        Where it comes from.
    private : bool
        Map it so that what this process writes is seen by nobody else.

    Raises
    ------
    SharedMemoryError
        This process may have no more memory or descriptors; the connection can still be used.
    """
    size, name = connection.recv()
    access = mmap.ACCESS_COPY if private else mmap.ACCESS_WRITE
    try:
        return _attach(connection, size, name, access)
    except OSError as error:
        raise SharedMemoryError(f"{size} bytes of shared memory could not be mapped ({error})") from error


if sys.platform == "win32":

    def _attach(connection: ProcessConnection, size: int, name: str, access: int) -> mmap.mmap:
        return mmap.mmap(-1, size, tagname=name, access=access)

else:
    import errno
    import socket
    from collections.abc import Iterator

    #: A descriptor travels beside at least one byte.
    _COMPANION = b"\0"

    def _attach(connection: ProcessConnection, size: int, name: str | None, access: int) -> mmap.mmap:
        descriptor = _receive_descriptor(connection)
        try:
            return _map(descriptor, size, access)
        finally:
            os.close(descriptor)

    def _open_anonymous(name: str) -> int:
        if sys.platform == "linux" and hasattr(os, "memfd_create"):
            return os.memfd_create(name, os.MFD_CLOEXEC)
        from _posixshmem import shm_open, shm_unlink  # type: ignore[import-not-found]

        name = f"/{name[-28:]}"  # macOS takes names of 30 characters at most
        descriptor: int = shm_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=0o600)
        shm_unlink(name)
        return descriptor

    def _map(descriptor: int, size: int, access: int) -> mmap.mmap:
        if sys.version_info >= (3, 13):
            return mmap.mmap(descriptor, size, access=access, trackfd=False)
        return mmap.mmap(descriptor, size, access=access)  # keeps a duplicate of the descriptor

    @contextlib.contextmanager
    def _as_socket(connection: ProcessConnection) -> Iterator[socket.socket]:
        """See a connection as the socket it is, on its own descriptor.

        multiprocessing's ``send_handle`` needs another descriptor for it, and on macOS waits for an answer on the
        connection, where messages of the worker may come in between.
        """
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=connection.fileno())
        try:
            yield channel
        finally:
            channel.detach()

    def _receive_descriptor(connection: ProcessConnection) -> int:
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        with _as_socket(connection) as channel:
            message, descriptors, _, _ = socket.recv_fds(channel, len(_COMPANION), 1, flags)
        if not message:
            raise EOFError
        if not descriptors:  # the kernel drops it where the process may open no more
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if not flags:
            os.set_inheritable(descriptors[0], False)
        return descriptors[0]
