"""A data loader that never forks.

Everything here is imported when it is first used, so that ``import asyncloader`` is quick and starts nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncloader.collate import group, pad, stack
    from asyncloader.datasets.array import ArrayDataset
    from asyncloader.datasets.base import MapDataset
    from asyncloader.datasets.faces import FaceRecordDataset
    from asyncloader.datasets.folder import ImageFolderDataset
    from asyncloader.datasets.images import ImageRecordDataset
    from asyncloader.datasets.records import RecordDataset
    from asyncloader.decoders import decode_image
    from asyncloader.errors import AsyncLoaderError
    from asyncloader.loader import AsyncDataLoader
    from asyncloader.reader import AsyncRecordReader
    from asyncloader.sync import DataLoader

__version__ = "0.1.0"

_HOMES = {
    "ArrayDataset": "datasets.array",
    "AsyncDataLoader": "loader",
    "AsyncLoaderError": "errors",
    "AsyncRecordReader": "reader",
    "DataLoader": "sync",
    "FaceRecordDataset": "datasets.faces",
    "ImageFolderDataset": "datasets.folder",
    "ImageRecordDataset": "datasets.images",
    "MapDataset": "datasets.base",
    "RecordDataset": "datasets.records",
    "decode_image": "decoders",
    "group": "collate",
    "pad": "collate",
    "stack": "collate",
}
_MODULES = ("errors", "recordio", "samplers", "datasets")

__all__ = [
    "ArrayDataset",
    "AsyncDataLoader",
    "AsyncLoaderError",
    "AsyncRecordReader",
    "DataLoader",
    "FaceRecordDataset",
    "ImageFolderDataset",
    "ImageRecordDataset",
    "MapDataset",
    "RecordDataset",
    "__version__",
    "decode_image",
    "group",
    "pad",
    "stack",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"asyncloader.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"asyncloader.{name}")
    else:
        raise AttributeError(f"module 'asyncloader' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
