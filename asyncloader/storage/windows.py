"""Positional reads on Windows, which has no ``pread``: ``ReadFile`` with the offset in an OVERLAPPED structure.

On a handle that was not opened for overlapped operation, ``ReadFile`` takes the offset from the structure and returns
when the bytes are there. It leaves the handle's position behind them; nothing here ever looks at that position.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import wintypes

__all__ = ["read_at", "read_into"]

_ERROR_HANDLE_EOF = 38
_MAX_CALL = 1 << 30  # the count is a DWORD


class _Overlapped(ctypes.Structure):
    _fields_ = (
        ("Internal", ctypes.c_void_p),
        ("InternalHigh", ctypes.c_void_p),
        ("Offset", wintypes.DWORD),
        ("OffsetHigh", wintypes.DWORD),
        ("hEvent", wintypes.HANDLE),
    )


if sys.platform == "win32":
    import msvcrt

    _read_file = ctypes.WinDLL("kernel32", use_last_error=True).ReadFile
    _read_file.argtypes = (
        wintypes.HANDLE,
        ctypes.c_void_p,
        wintypes.DWORD,
        ctypes.POINTER(wintypes.DWORD),
        ctypes.POINTER(_Overlapped),
    )
    _read_file.restype = wintypes.BOOL

    def read_at(descriptor: int, size: int, offset: int) -> bytes:
        """Read at most ``size`` bytes at ``offset``; fewer at the end of the file."""
        buffer = bytearray(min(size, _MAX_CALL))
        count = read_into(descriptor, memoryview(buffer), offset)
        return bytes(memoryview(buffer)[:count])

    def read_into(descriptor: int, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from ``offset`` on as far as one call goes, and give the number of bytes.

        Raises
        ------
        OSError
            The read failed.
        """
        size = min(len(buffer), _MAX_CALL)
        if size == 0:
            return 0
        overlapped = _Overlapped(Offset=offset & 0xFFFFFFFF, OffsetHigh=offset >> 32)
        count = wintypes.DWORD()
        target = (ctypes.c_char * size).from_buffer(buffer)
        handle = msvcrt.get_osfhandle(descriptor)
        if not _read_file(handle, target, size, ctypes.byref(count), ctypes.byref(overlapped)):
            code = ctypes.get_last_error()
            if code == _ERROR_HANDLE_EOF:
                return 0
            raise ctypes.WinError(code)
        return count.value
