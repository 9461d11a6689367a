"""What ``mxnet.gluon.data.vision`` holds; the dataset of image records is ours, all else MXNet's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

from asyncloader.datasets.base import Location, located
from asyncloader.datasets.images import split_image_record
from asyncloader.errors import DecodeError
from asyncloader.gluon.arrays import as_ndarray
from asyncloader.gluon.framework import mxnet
from asyncloader.gluon.records import RecordFileDataset
from asyncloader.mx.pixels import decode_pixels

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "MNIST",
    "FashionMNIST",
    "ImageFolderDataset",
    "ImageRecordDataset",
    "transforms",
]

_theirs = mxnet.gluon.data.vision
CIFAR10 = _theirs.CIFAR10
CIFAR100 = _theirs.CIFAR100
MNIST = _theirs.MNIST
FashionMNIST = _theirs.FashionMNIST
ImageFolderDataset = _theirs.ImageFolderDataset
transforms = _theirs.transforms


class ImageRecordDataset(RecordFileDataset):
    """Images and labels from a record file.

    Parameters
    ----------
    filename : path
        The record file; as :class:`RecordFileDataset` takes it.
    flag : {0, 1}
        1 gives colour, RGB; 0 grey.
    transform : callable, optional
        From an image and its label to the sample.

    Notes
    -----
    A sample is ``(image, label)``: the image an NDArray of shape (height, width, 3 or 1), uint8; the label a float, or
    an array of float32 where the record has several. Decoding releases the GIL; the pixels are MXNet's.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        flag: Literal[0, 1] = 1,
        transform: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform

    def __getitem__(self, idx: int) -> Any:
        position = self._position(idx)
        try:
            label, picture = split_image_record(self._reader.read(position))
            image = as_ndarray(decode_pixels(picture, color=self._flag != 0))
        except DecodeError as error:
            key, offset = self._reader.locate(position)
            raise located(error, Location(self._reader.path, key, offset), position) from error
        if label.ndim == 0:
            label = float(label)
        return (image, label) if self._transform is None else self._transform(image, label)
