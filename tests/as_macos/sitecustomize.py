"""Hides what Linux has and macOS has not, from every Python that is started with this folder in its PYTHONPATH."""

from __future__ import annotations

import os
import select

for module, names in (
    (os, "copy_file_range eventfd getrandom memfd_create pidfd_open posix_fadvise posix_fallocate preadv preadv2"),
    (os, "O_TMPFILE pwritev2 sched_getaffinity sched_setaffinity splice waitid"),
    (select, "epoll"),  # before anything imports selectors
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

import _posixshmem  # noqa: E402
import ctypes  # noqa: E402
import errno  # noqa: E402
import socket  # noqa: E402
from typing import Any  # noqa: E402

#: For tests of what only the kernel of Linux does.
AS_MACOS = True

del socket.MSG_CMSG_CLOEXEC

_shm_open = _posixshmem.shm_open
_getattr = ctypes.CDLL.__getattr__


def shm_open(path: str, *arguments: Any, **more: Any) -> int:
    if len(path) > 30:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
    descriptor: int = _shm_open(path, *arguments, **more)
    return descriptor


def function_of(library: ctypes.CDLL, name: str) -> Any:
    if name == "prctl":  # by it the kernel ends a worker with its parent
        return lambda *_: 0
    return _getattr(library, name)


_posixshmem.shm_open = shm_open
ctypes.CDLL.__getattr__ = function_of  # type: ignore[method-assign]
