"""Files that appear under their name only when they are whole."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from types import TracebackType
from typing import Self

from asyncloader.errors import MissingFileError

__all__ = ["AtomicFile"]

#: So many bytes are gathered for one call into the kernel.
_BUFFER = 1 << 20


class AtomicFile:
    """A new file, written beside the old one and renamed over it by :meth:`commit`.

    Parameters
    ----------
    path : path
        The final name. A symbolic link is followed, so that it stays one.

    Attributes
    ----------
    path : str
        The final name as an absolute path.
    written : int
        Number of bytes so far.

    Notes
    -----
    Until then the file can be read by its owner alone. Its final mode is that of the file it replaces, else what the
    umask gives a new file. A forked child cannot commit, and does not write what its parent had gathered.

    Raises
    ------
    MissingFileError
        The folder is not there, or the path is a directory.
    OSError
        The folder cannot be written to.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = -1
        self.path = os.path.abspath(path)
        self.written = 0
        self._process = os.getpid()
        self._gathered = bytearray()
        self._target = os.path.realpath(self.path)
        folder = os.path.dirname(self._target)
        if os.path.isdir(self._target):
            raise MissingFileError(f"{self.path} is a directory, so no file can be written there", path=self.path)
        try:
            self._descriptor, self._temporary = tempfile.mkstemp(".tmp", ".asyncloader-", folder)
        except FileNotFoundError as error:
            raise MissingFileError(
                f"{self.path} cannot be written: the folder {folder} is not there; make it first", path=self.path
            ) from error

    @property
    def descriptor(self) -> int:
        """The file's descriptor, for those who write to it by other means."""
        return self._descriptor

    @property
    def closed(self) -> bool:
        """Whether the file was committed or discarded."""
        return self._descriptor < 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes.

        Raises
        ------
        OSError
            As from :func:`os.write`.
        ValueError
            The file is closed.
        """
        if self.closed:
            raise ValueError(f"{self.path} is closed")
        self._gathered += data
        self.written += len(data)
        if len(self._gathered) >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        with memoryview(self._gathered) as view:
            done = 0
            while done < len(view):
                done += os.write(self._descriptor, view[done : done + (1 << 30)])
        self._gathered.clear()

    def commit(self, *, sync: bool = False) -> None:
        """Give the file its name; where that fails it is discarded.

        Parameters
        ----------
        sync : bool
            Whether the bytes, and the name, are on the disk before this returns.

        Raises
        ------
        OSError
            The disk is full, or the system does not let the old file be replaced (on Windows, while it is open).
        """
        if self.closed:
            return
        if os.getpid() != self._process:
            self.discard()
            return
        try:
            self._flush()
            if sync:
                os.fsync(self._descriptor)
            self._close()
            os.chmod(self._temporary, self._final_mode())
            os.replace(self._temporary, self._target)
        except BaseException as error:
            self._close()
            _remove(self._temporary)
            if sys.platform == "win32" and isinstance(error, PermissionError) and os.path.exists(self._target):
                raise PermissionError(
                    error.errno,
                    "the file could not be replaced, which Windows refuses while it is open; it is as it was. Close "
                    "the datasets, readers and programs that have it open",
                    self.path,
                ) from error
            raise
        if sync:
            _sync_folder(os.path.dirname(self._target))

    def discard(self) -> None:
        """Drop what was written; the old file stays."""
        if not self.closed:
            self._close()
            self._gathered.clear()
            if os.getpid() == self._process:
                _remove(self._temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _final_mode(self) -> int:
        try:
            return stat.S_IMODE(os.stat(self._target).st_mode)
        except FileNotFoundError:
            # The umask can be asked for only by changing it, for all threads; a new file shows what it is.
            probe = self._temporary + ".mode"
            os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            try:
                return stat.S_IMODE(os.stat(probe).st_mode)
            finally:
                _remove(probe)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _sync_folder(folder: str) -> None:
    if os.name != "posix":
        return  # Windows has no such call for a folder
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
