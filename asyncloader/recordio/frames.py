"""RecordIO's framing: records to parts, and parts to records. Pure functions on buffers.

A record is one part, or several in a row. A part is the magic number, a word that holds its kind (3 bits) and its
length (29 bits), its bytes, and zeros up to a multiple of 4. A record is split where its payload holds the magic number
at a multiple of 4; that occurrence is left out and comes back between the parts on reading, so that a reader that lost
its way can look for the next aligned magic number and know it to be the head of a part.

Source: dmlc-core's recordio, as mxnet 1.9.1 writes it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

from asyncloader.errors import CorruptRecordError

__all__ = [
    "HEAD",
    "MAGIC",
    "MAGIC_BYTES",
    "MAX_PART",
    "Kind",
    "check_part",
    "decode",
    "decode_from",
    "encode",
    "padded",
    "part_head",
    "split",
]

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC = 0xCED7230A
MAGIC_BYTES = struct.pack("<I", MAGIC)

#: A part's head: the magic number, then kind and length.
HEAD = struct.Struct("<II")

#: The longest part.
MAX_PART = (1 << 29) - 1


class Kind(IntEnum):
    """What a part is to its record."""

    WHOLE = 0
    FIRST = 1
    MIDDLE = 2
    LAST = 3


def padded(length: int) -> int:
    """Round a part's length up to a multiple of 4."""
    return (length + 3) & ~3


def part_head(kind: int, length: int) -> bytes:
    """Make the head of a part."""
    return HEAD.pack(MAGIC, kind << 29 | length)


def split(payload: Buffer) -> list[memoryview]:
    """Split a payload at each aligned magic number, which is left out."""
    view = memoryview(payload).cast("B")
    data = payload if isinstance(payload, bytes | bytearray) else bytes(payload)
    parts = []
    start = 0
    found = data.find(MAGIC_BYTES)
    while found >= 0:
        if found % 4 == 0:
            parts.append(view[start:found])
            start = found + 4
            found = data.find(MAGIC_BYTES, start)
        else:
            found = data.find(MAGIC_BYTES, found + 1)
    parts.append(view[start:])
    return parts


def encode(payload: Buffer) -> bytes:
    """Encode one record.

    Parameters
    ----------
    payload : bytes-like
        The record.

    Returns
    -------
    bytes
        Its parts: a multiple of 4 bytes.

    Raises
    ------
    ValueError
        The record is too long for the format.
    """
    if len(payload) > MAX_PART:
        raise ValueError(f"a record holds at most {MAX_PART} bytes (512 MiB), this one has {len(payload)}")
    parts = split(payload)
    last = len(parts) - 1
    pieces: list[Buffer] = []
    for number, part in enumerate(parts):
        if last == 0:
            kind = Kind.WHOLE
        elif number == 0:
            kind = Kind.FIRST
        else:
            kind = Kind.LAST if number == last else Kind.MIDDLE
        pieces += (part_head(kind, len(part)), part, bytes(-len(part) % 4))
    return b"".join(pieces)


def decode(data: Buffer, offset: int = 0) -> tuple[bytes, int]:
    """Decode the record that begins at ``offset``.

    Returns
    -------
    payload : bytes
        The record.
    end : int
        Where the next one begins.

    Raises
    ------
    CorruptRecordError
        There is no whole record; the error's ``offset`` says where that shows.
    """
    view = memoryview(data).cast("B")
    return decode_from(lambda start, size: bytes(view[start : start + size]), offset, len(view))


def decode_from(read: Callable[[int, int], bytes], offset: int, size: int) -> tuple[bytes, int]:
    """Decode the record that begins at ``offset`` of what ``read`` gives.

    Parameters
    ----------
    read : callable
        ``read(offset, size)`` gives so many bytes; it is not asked for any past the end.
    offset : int
        Where the record begins.
    size : int
        Where the file ends.

    Returns
    -------
    payload : bytes
        The record.
    end : int
        Where the next one begins.

    Raises
    ------
    CorruptRecordError
        There is no whole record; the error's ``offset`` says where that shows.
    """
    parts: list[bytes] = []
    while True:
        if offset + HEAD.size > size:
            where = "the record's next part" if parts else "a record"
            raise CorruptRecordError(
                f"at byte offset {offset} {where} was expected, but the file ends at {size}", offset=offset
            )
        magic, word = HEAD.unpack(read(offset, HEAD.size))
        kind, length = word >> 29, word & MAX_PART
        fault = check_part(magic, kind, length, offset, size, inside=bool(parts))
        if fault:
            raise CorruptRecordError(fault, offset=offset)
        if parts:
            parts.append(MAGIC_BYTES)
        parts.append(read(offset + HEAD.size, length))
        offset += HEAD.size + padded(length)
        if kind in (Kind.WHOLE, Kind.LAST):
            return b"".join(parts), offset


def check_part(magic: int, kind: int, length: int, offset: int, size: int, *, inside: bool) -> str | None:
    """Say what is wrong with a part's head, or None.

    Parameters
    ----------
    magic, kind, length : int
        What the head says.
    offset, size : int
        Where the part begins, and where the file ends.
    inside : bool
        Whether the record's first part came before.
    """
    if magic != MAGIC:
        return f"at byte offset {offset} the magic number {MAGIC:#x} was expected, not {magic:#x}"
    expected = (Kind.MIDDLE, Kind.LAST) if inside else (Kind.WHOLE, Kind.FIRST)
    if kind not in expected:
        reason = "the record's later parts are missing" if inside else "no record begins here"
        return f"the part at byte offset {offset} is of kind {kind}, not {expected[0]} or {expected[1]}: {reason}"
    if offset + HEAD.size + padded(length) > size:
        return f"the part at byte offset {offset} claims {length} bytes, but the file ends at byte {size}"
    return None
