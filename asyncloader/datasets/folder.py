"""Loose image files, one folder a class."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aiofiles.os
import numpy as np

from asyncloader.datasets.base import Dataset, LoadContext, Location, as_indexes
from asyncloader.datasets.pictures import PictureSamples
from asyncloader.decoders import MAX_PIXELS, Buffer, Color, ImageDecoder
from asyncloader.errors import MissingFileError, ReadError

__all__ = ["IMAGE_SUFFIXES", "ImageFolderDataset"]

#: Files with these endings, in any case, are images.
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")

#: Files read in one hop to a thread: a hop costs as much as reading a small file from the page cache.
_FILES_PER_HOP = 16


class ImageFolderDataset(Dataset):
    """Images from ``root/class/**/file``, in sorted order.

    Parameters
    ----------
    root : path
        The folder of folders.
    transform, color, max_pixels
        As :class:`~asyncloader.ImageRecordDataset` takes them.

    Attributes
    ----------
    classes : list of str
        The folders' names, sorted; a sample's label is its place here.
    class_to_idx : dict
        From a class's name to its label.
    paths : list of str
        The files.

    Notes
    -----
    A sample is ``(image, label)``: the image of shape (height, width, channels), uint8; the label a ``numpy.int64``.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        transform: Callable[..., Any] | None = None,
        color: Color = "rgb",
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self.root = Path(root).absolute()
        if not self.root.is_dir():
            raise MissingFileError(
                f"{self.root} is not a folder: expected one folder a class in it", path=str(self.root)
            )
        self.samples = PictureSamples(ImageDecoder(color, max_pixels), transform)
        self.classes = sorted(entry.name for entry in self.root.iterdir() if entry.is_dir())
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}
        self.paths: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(self.classes):
            found = sorted(str(file) for file in (self.root / name).rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
            self.paths += found
            labels += [label] * len(found)
        self.labels = np.array(labels, np.int64)
        if not self.paths:
            raise MissingFileError(
                f"{self.root} has no images: expected files like {self.root / 'some_class' / 'picture.jpg'}",
                path=str(self.root),
            )

    def __len__(self) -> int:
        return len(self.paths)

    def load_many(self, positions: Sequence[int], context: LoadContext) -> list[Any]:
        """Read and decode the images at ``positions``."""
        with context.time_reading():
            payloads = self._read(positions)
        return self.load_payloads(payloads, positions, context)

    async def fetch_payloads(self, positions: Sequence[int]) -> Sequence[Buffer | Exception]:
        """Read the files on aiofiles' threads, so that the event loop stays free while disks are slow."""
        starts = range(0, len(positions), _FILES_PER_HOP)
        parts = await asyncio.gather(
            *(_read_files([self.paths[p] for p in positions[s : s + _FILES_PER_HOP]]) for s in starts)
        )
        return [payload for part in parts for payload in part]

    def load_payloads(
        self, payloads: Sequence[Buffer | Exception], positions: Sequence[int], context: LoadContext
    ) -> list[Any]:
        """Make the samples of what was read."""
        with context.time_decoding():
            labels = self.labels[as_indexes(positions)]
            return self.samples.make(
                zip(range(len(positions)), payloads, labels, strict=True), positions, self.locate, context
            )

    def _read(self, positions: Sequence[int]) -> Sequence[Buffer | Exception]:
        return [_read_file(self.paths[position]) for position in positions]

    def locate(self, position: int) -> Location:
        """Name the file."""
        return Location(self.paths[position])


def _read_file(path: str) -> bytes | Exception:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        failure: Exception = MissingFileError(f"{path} has gone since the folder was listed", path=path)
        failure.__cause__ = error
    except OSError as error:
        failure = ReadError(f"{path} cannot be read: {error}", path=path)
        failure.__cause__ = error
    return failure


@aiofiles.os.wrap
def _read_files(paths: Sequence[str]) -> list[bytes | Exception]:
    return [_read_file(path) for path in paths]
