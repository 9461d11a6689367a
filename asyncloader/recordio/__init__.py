"""RecordIO: bytes in, records out."""

from __future__ import annotations

from asyncloader.recordio.header import IRHeader, pack, unpack
from asyncloader.recordio.index import RecordIndex
from asyncloader.recordio.reader import RecordReader
from asyncloader.recordio.writer import RecordWriter

__all__ = [
    "IRHeader",
    "RecordIndex",
    "RecordReader",
    "RecordWriter",
    "pack",
    "unpack",
]
