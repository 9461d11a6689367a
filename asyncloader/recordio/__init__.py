"""RecordIO: bytes in, records out; with mxnet.recordio's names beside our own."""

from __future__ import annotations

from asyncloader.recordio.async_writer import AsyncRecordWriter
from asyncloader.recordio.header import IRHeader, pack, unpack
from asyncloader.recordio.index import RecordIndex
from asyncloader.recordio.mxnet_api import MXIndexedRecordIO, MXRecordIO
from asyncloader.recordio.pictures import pack_img, unpack_img
from asyncloader.recordio.reader import RecordReader
from asyncloader.recordio.writer import RecordWriter

__all__ = [
    "AsyncRecordWriter",
    "IRHeader",
    "MXIndexedRecordIO",
    "MXRecordIO",
    "RecordIndex",
    "RecordReader",
    "RecordWriter",
    "pack",
    "pack_img",
    "unpack",
    "unpack_img",
]
