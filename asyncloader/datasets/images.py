"""Image records: a header with labels, then a picture, as im2rec writes them."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asyncloader.datasets.base import Dataset, LoadContext, Location
from asyncloader.datasets.pictures import PictureSamples
from asyncloader.datasets.records import PathOrPaths, RecordFiles
from asyncloader.decoders import MAX_PIXELS, Buffer, Color, ImageDecoder
from asyncloader.errors import DecodeError

__all__ = ["ImageRecordDataset", "split_image_record"]

_HEADER = struct.Struct("<IfQQ")


def split_image_record(payload: Buffer) -> tuple[Any, Buffer]:
    """Take an image record apart.

    Returns
    -------
    label : numpy.float32 or ndarray
        The header's label, or the array of float32 labels where there are several.
    picture : bytes-like
        What follows the labels.

    Raises
    ------
    DecodeError
        The payload is no image record.
    """
    size = len(payload)
    if size < _HEADER.size:
        raise DecodeError(f"an image record has a header of {_HEADER.size} bytes, but the whole record has {size}")
    count, label, _, _ = _HEADER.unpack_from(payload)
    if count == 0:
        return np.float32(label), payload[_HEADER.size :]
    start = _HEADER.size + 4 * count
    if start > size:
        raise DecodeError(
            f"the header announces {count} labels ({4 * count} bytes), but only {size - _HEADER.size} bytes follow it; "
            + _what_it_may_be(payload)
        )
    # A copy, since a view would keep the bytes of the whole batch alive for a few labels.
    return np.frombuffer(payload, "<f4", count, _HEADER.size).astype(np.float32), payload[start:]


def _what_it_may_be(payload: Buffer) -> str:
    # A protobuf Record begins with field 1 or 2, length-delimited: one entry of its map of features or labels.
    if payload[0] in (0x0A, 0x12):
        return (
            "it looks like a protobuf message as Amazon SageMaker writes them, which is not an image record: "
            "read it with asyncloader.datasets.protobuf.ProtobufRecordDataset"
        )
    return "the record is damaged, or it is not an image record: RecordDataset gives its bytes"


class ImageRecordDataset(Dataset):
    """Images and labels from record files.

    Parameters
    ----------
    path : path, list of paths, or glob
        The record files; several are seen as one, in the order given (a glob's in sorted order).
    index_path : path, optional
        The index, where one file is given and its index is not beside it. Without any index one is built in memory by
        a scan.
    transform : callable, optional
        ``f(image)`` gives the image's successor and leaves the label; ``f(image, label)`` gives the whole sample. One
        that has a parameter ``rng`` gets the sample's own :class:`numpy.random.Generator` in it.
    color : {"rgb", "gray", "unchanged"}
        "unchanged" keeps the channels the file has.
    max_pixels : int
        A picture that claims more is refused before they are allocated.

    Notes
    -----
    A sample is ``(image, label)``: the image an array of shape (height, width, channels), uint8; the label a
    ``numpy.float32``, or a float32 array of the record's labels where it has several, as detection sets do.

    Raises
    ------
    MissingFileError, IndexFileError, CorruptRecordError
        At once, for what can be seen at opening.
    """

    def __init__(
        self,
        path: PathOrPaths,
        index_path: str | os.PathLike[str] | None = None,
        *,
        transform: Callable[..., Any] | None = None,
        color: Color = "rgb",
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self.samples = PictureSamples(ImageDecoder(color, max_pixels), transform)
        self.files = RecordFiles(path, index_path)

    def __len__(self) -> int:
        return len(self.files)

    def load_many(self, positions: Sequence[int], context: LoadContext) -> list[Any]:
        """Read and decode the images at ``positions``."""
        if self.samples.transform is None and not context.watched:
            return self._load_plain(positions, context)
        records = self._records_of(positions)
        with context.time_reading():
            payloads = self.files.read_many(records)
        with context.time_decoding():
            return self.samples.make(map(self._take_apart, payloads), positions, self.locate, context)

    def _records_of(self, positions: Sequence[int]) -> Sequence[int]:
        """Give the records that hold the samples at ``positions``."""
        return positions

    def _load_plain(self, positions: Sequence[int], context: LoadContext) -> list[Any]:
        """Make samples of which no code of a user's sees anything before the batch is whole.

        That allows the fastest way: each record is read, taken apart and decoded before the next, in file order.
        """
        decoder, memory, first_slot = self.samples.decoder, context.memory, context.first_slot
        samples: list[Any] = [None] * len(positions)
        start = time.perf_counter()
        label: Any
        picture: Buffer
        unpack, label_of, scalar = _HEADER.unpack_from, self._label, np.float32
        for slot, data, begin, end in self.files.stream(self._records_of(positions), context.add_reading):
            try:
                if isinstance(data, Exception):
                    raise data
                view = memoryview(data)
                if end - begin >= _HEADER.size and (header := unpack(view, begin))[0] == 0:
                    label, picture = scalar(header[1]), view[begin + _HEADER.size : end]
                else:
                    label, picture = split_image_record(view[begin:end])
                samples[slot] = decoder(picture, memory, first_slot + slot), label_of(label)
            except Exception as error:
                samples[slot] = self.samples.failure(error, positions[slot], self.locate, "decoding")
        context.decoding += time.perf_counter() - start
        return samples

    def _take_apart(self, payload: Buffer | Exception) -> tuple[Buffer | Exception, Any]:
        """Give a record's picture and its sample's label; an exception in the picture's place."""
        if isinstance(payload, Exception):
            return payload, None
        try:
            label, picture = split_image_record(payload)
        except DecodeError as error:
            return error, None
        return picture, self._label(label)

    def _label(self, label: Any) -> Any:
        """Give the sample's label, from the record's."""
        return label

    def locate(self, position: int) -> Location:
        """Say where an image's record is."""
        return self.files.locate(self._records_of([position])[0])

    def advise(self, positions: Sequence[int]) -> None:
        """Announce the records of ``positions`` to the kernel."""
        self.files.advise(self._records_of(positions))

    def close(self) -> None:
        """Close the files."""
        self.files.close()
