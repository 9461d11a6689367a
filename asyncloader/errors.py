"""Every error the package raises.

Each message says which file, which record (position and key), which byte offset, what was expected and what to do.
The same facts are attributes, so that a program need not parse the message.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AsyncLoaderError",
    "CorruptRecordError",
    "DecodeError",
    "FileChangedError",
    "IndexFileError",
    "LoaderClosedError",
    "LoaderTimeoutError",
    "LoaderWarning",
    "MissingFileError",
    "ReadError",
    "SampleError",
    "SharedMemoryError",
    "StateError",
    "WorkerCrashedError",
    "WorkerError",
]


class AsyncLoaderError(Exception):
    """The root of the package's errors.

    Parameters
    ----------
    message : str
        What happened, what was expected, and what to do.
    path : str, optional
        Absolute path of the file concerned.
    position : int, optional
        Place of the record in the index, or of the sample in the dataset.
    key : int or str, optional
        The record's key in the index.
    offset : int, optional
        Byte offset in the file.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        position: int | None = None,
        key: int | str | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.position = position
        self.key = key
        self.offset = offset

    def __str__(self) -> str:
        # OSError and KeyError among a subclass's bases would print the arguments their own way.
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only attributes survive the way out of a worker process; BaseException's own reduce drops them.
        return _rebuild, (type(self), self.message, self.__dict__.copy())


def _rebuild(cls: type[AsyncLoaderError], message: str, attributes: dict[str, Any]) -> AsyncLoaderError:
    error = cls.__new__(cls, message)
    AsyncLoaderError.__init__(error, message)
    error.__dict__.update(attributes)
    return error


class MissingFileError(AsyncLoaderError, FileNotFoundError):
    """A file that should be read is not there, or is a directory."""


class ReadError(AsyncLoaderError, OSError):
    """The operating system refused or cut short a read."""


class FileChangedError(AsyncLoaderError):
    """A file is not the one that was opened before: its size or modification time differ."""


class IndexFileError(AsyncLoaderError, ValueError):
    """An index cannot be parsed, or does not fit the record file beside it."""


class CorruptRecordError(AsyncLoaderError, ValueError):
    """The framing of a record is damaged: wrong magic, a length past the end, parts out of order."""


class DecodeError(AsyncLoaderError, ValueError):
    """A record is whole, but its payload is not what the dataset expects (an image, a header, a protobuf message)."""


class SampleError(AsyncLoaderError):
    """Making one sample failed; ``__cause__`` is the original exception."""


class StateError(AsyncLoaderError, ValueError):
    """A state dict does not fit the loader it is loaded into."""


class LoaderTimeoutError(AsyncLoaderError, TimeoutError):
    """A batch took longer than the loader's ``timeout``."""


class LoaderClosedError(AsyncLoaderError):
    """The loader, reader or executor was closed before, or while, it was asked for something."""


class WorkerError(AsyncLoaderError):
    """A worker process could not start, or sent what cannot be understood."""


class WorkerCrashedError(WorkerError):
    """A sample ends its worker process again and again (a signal, ``os._exit``)."""


class SharedMemoryError(AsyncLoaderError):
    """Shared memory is short and no other way is left."""


class LoaderWarning(UserWarning):
    """Something was lost that need not end the training: a sample was skipped, a worker replaced. Said once."""
