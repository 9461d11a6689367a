"""Image records: a header with labels, then a picture, as im2rec writes them."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from asyncloader.datasets.base import Dataset, LoadContext, Location
from asyncloader.datasets.pictures import PictureSamples
from asyncloader.datasets.records import PathOrPaths, RecordFiles
from asyncloader.decoders import MAX_PIXELS, Buffer, Color, ImageDecoder
from asyncloader.errors import DecodeError
from asyncloader.recordio.frames import HEAD, MAGIC

__all__ = ["ImageRecordDataset", "split_image_record"]

_HEADER = struct.Struct("<IfQQ")

#: How a record of one part begins on disk: the framing's magic and length, the header's number of labels and label.
_START = struct.Struct("<IIIf")
#: Where its picture begins if it has one label.
_PICTURE = HEAD.size + _HEADER.size


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
        if self.samples.transform is None:
            return self._load_plain(positions, context)
        with context.time_decoding():
            return self.samples.make(self._parts(positions, context), positions, self.locate, context)

    def _records_of(self, positions: Sequence[int]) -> Sequence[int]:
        """Give the records that hold the samples at ``positions``."""
        return positions

    def _load_plain(self, positions: Sequence[int], context: LoadContext) -> list[Any]:
        """Make samples of which no code of a user's sees anything before the batch is whole.

        That allows the fastest way: each record is read, taken apart and decoded before the next, in file order.
        """
        start = time.perf_counter()
        samples: list[Any] = [None] * len(positions)
        rest = self._load_ordinary(self._records_of(positions), samples, context)
        others = [positions[slot] for slot in rest]
        slots = [context.first_slot + slot for slot in rest]
        made = self.samples.make(self._parts(others, context), others, self.locate, context, slots)
        for slot, sample in zip(rest, made, strict=True):
            samples[slot] = sample
        context.decoding += time.perf_counter() - start
        return samples

    def _load_ordinary(self, records: Sequence[int], samples: list[Any], context: LoadContext) -> list[int]:
        """Make those samples that are like most: of one part, with one label, a JPEG of the first one's shape.

        This is the loop that the loader's speed hangs on. Threads take turns at it, and whatever one of them touches
        (a function, a method, a frame) the other's processor has to fetch first: with a call for each step, two threads
        lose a tenth of their time to that. So it has no calls but the read and the decoding.

        Returns
        -------
        list of int
            The slots of all others.
        """
        memory, space, first_slot = context.memory, self.samples.decoder.jpeg_space, context.first_slot
        scattered = self.files.scattered(records) if space is not None and memory.use_rows else None
        if scattered is None:
            return list(range(len(records)))
        rest: list[int] = []
        labels: list[float] = []
        made: list[int] = []
        read, unpack, decode = scattered.read, _START.unpack_from, simplejpeg.decode_jpeg
        rows, shape = memory.rows, None
        clock, seconds = time.perf_counter, 0.0
        for slot, offset, size in zip(scattered.slots, scattered.offsets, scattered.sizes, strict=True):
            begun = clock()
            try:
                data = read(size, offset)
                seconds += clock() - begun
                magic, length, count, label = unpack(data)
                if magic != MAGIC or length > size - HEAD.size or len(data) != size or count:
                    rest.append(slot)
                    continue
                picture = memoryview(data)[_PICTURE : HEAD.size + length]
                if shape is None:
                    # The first picture's shape is that of the rows, and of the pictures before in other slices.
                    row = self.samples.decoder(picture, memory, first_slot + slot)
                    shape = rows[0].shape
                    if row is not rows[first_slot + slot]:
                        rest.append(slot)
                        continue
                else:
                    row = rows[first_slot + slot]
                    if decode(picture, space, False, False, 0, 0, 1.0, row).shape != shape:
                        rest.append(slot)
                        continue
            except (OSError, ValueError, IndexError, struct.error, DecodeError):
                rest.append(slot)  # whatever it is: the way for all others says it
                continue
            made.append(slot)
            labels.append(label)
        for slot, label in zip(made, self._labels(np.array(labels, np.float32)), strict=True):
            samples[slot] = rows[first_slot + slot], label
        context.add_reading(seconds)
        return rest

    def _parts(self, positions: Sequence[int], context: LoadContext) -> Iterator[tuple[int, Buffer | Exception, Any]]:
        """Give the samples' places, pictures and labels, in file order; an exception in a picture's place."""
        for place, data, begin, end in self.files.stream(self._records_of(positions), context.add_reading):
            if isinstance(data, Exception):
                yield place, data, None
                continue
            try:
                label, picture = split_image_record(memoryview(data)[begin:end])
            except DecodeError as error:
                yield place, error, None
            else:
                yield place, picture, self._label(label)

    def _labels(self, labels: NDArray[np.float32]) -> NDArray[Any]:
        """Give the samples' labels, from records' that are scalars."""
        return labels

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
