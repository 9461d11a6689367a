"""Image records: a header with labels, then a picture, as im2rec writes them."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter, getitem, sub
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from asyncloader.collate import Columns
from asyncloader.datasets.base import Dataset, LoadContext, Location
from asyncloader.datasets.pictures import PictureSamples
from asyncloader.datasets.records import PathOrPaths, RecordFiles
from asyncloader.decoders import MAX_PIXELS, Buffer, Color, ImageDecoder
from asyncloader.errors import DecodeError
from asyncloader.recordio.frames import HEAD, MAGIC
from asyncloader.recordio.reader import Scattered

__all__ = ["ImageRecordDataset", "split_image_record"]

_HEADER = struct.Struct("<IfQQ")

#: How a record of one part begins on disk: the framing's magic and length, the header's number of labels and label.
_START = struct.Struct("<IIIf")
#: Where its picture begins if it has one label.
_PICTURE = HEAD.size + _HEADER.size

#: Records read before the first of them is decoded: few enough to be in the processor's cache still.
_GROUP = 16
#: For what is done to each record of a group: where its picture is, and decode_jpeg's arguments between the colour
#: space and the buffer. The padding behind a picture is no part of it, but to the codec no picture begins there.
_VIEW: Callable[[bytes], memoryview] = memoryview
_PICTURES = repeat(slice(_PICTURE, None))
_OPTIONS = tuple(map(repeat, (False, False, 0, 0, 1.0)))
_MAGICS = {MAGIC}
#: By how many bytes a record on disk is longer than its payload: its head and up to three bytes of padding.
_FRAMINGS = frozenset(range(HEAD.size, HEAD.size + 4))
_SHAPE = attrgetter("shape")


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
        raise DecodeError(
            f"an image record has a header of {_HEADER.size} bytes, but the whole record has {size}; "
            + _what_it_may_be(payload)
        )
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
    if payload[:1] in (b"\x0a", b"\x12"):
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

    def load_many(self, positions: Sequence[int], context: LoadContext) -> Sequence[Any]:
        """Read and decode the images at ``positions``."""
        if self.samples.transform is None:
            return self._load_plain(positions, context)
        with context.time_decoding():
            return self.samples.make(self._parts(positions, context), positions, self.locate, context)

    def _records_of(self, positions: Sequence[int]) -> Sequence[int]:
        """Give the records that hold the samples at ``positions``."""
        return positions

    def _load_plain(self, positions: Sequence[int], context: LoadContext) -> Sequence[Any]:
        """Make samples of which no code of a user's sees anything before the batch is whole.

        That allows the fastest way: a few records are read, taken apart and decoded before the next, in file order.
        """
        start = time.perf_counter()
        labels = np.zeros(len(positions), np.float32)
        rest = self._load_ordinary(self._records_of(positions), labels, context)
        first_slot = context.first_slot
        samples: Sequence[Any] = [None] * len(positions)
        if len(rest) < len(positions):
            rows = context.memory.rows[first_slot : first_slot + len(positions)]
            samples = Columns((rows, self._labels(labels)))
        if rest:
            others = [positions[slot] for slot in rest]
            slots = [first_slot + slot for slot in rest]
            made = self.samples.make(self._parts(others, context), others, self.locate, context, slots)
            samples = list(samples)
            for slot, sample in zip(rest, made, strict=True):
                samples[slot] = sample
        context.decoding += time.perf_counter() - start
        return samples

    def _load_ordinary(self, records: Sequence[int], labels: NDArray[np.float32], context: LoadContext) -> list[int]:
        """Make those samples that are like most: of one part, with one label, a JPEG of the first one's shape.

        This is the loop that the loader's speed hangs on. What a thread does here between two calls that release the
        GIL, the other threads wait for, and a thread that waits loses far more time than it waited for. So a group of
        records goes from one builtin to the next, without a line of Python for each.

        Parameters
        ----------
        records : sequence of int
            Where the samples are.
        labels : ndarray of float32, shape (len(records),)
            Gets the labels. The pictures go to the rows of the context's memory.
        context : LoadContext
            Where the arrays go.

        Returns
        -------
        list of int
            The slots of all others, with some of their neighbours.
        """
        memory, space, first_slot = context.memory, self.samples.decoder.jpeg_space, context.first_slot
        scattered = self.files.scattered(records) if space is not None and memory.use_rows else None
        if scattered is None or not self._has_rows(scattered, context):
            return list(range(len(records)))
        rest: list[int] = []
        rows, shapes = memory.rows, {memory.rows[0].shape}
        read, decode = scattered.read, simplejpeg.decode_jpeg
        clock, seconds = time.perf_counter, 0.0
        for begin in range(0, len(records), _GROUP):
            group = slice(begin, begin + _GROUP)
            slots, sizes = scattered.slots[group], scattered.sizes[group]
            begun = clock()
            try:
                whole = list(map(read, sizes, scattered.offsets[group]))
                seconds += clock() - begun
                magics, lengths, counts, firsts = zip(*map(_START.unpack_from, whole), strict=True)
                if any(counts) or set(magics) != _MAGICS or not _FRAMINGS.issuperset(map(sub, sizes, lengths)):
                    raise ValueError("not of one part, or not with one label")
                targets = map(rows.__getitem__, map(first_slot.__add__, slots))
                pictures = map(getitem, map(_VIEW, whole), _PICTURES)
                images = map(decode, pictures, repeat(space), *_OPTIONS, targets)
                if set(map(_SHAPE, images)) != shapes or list(map(len, whole)) != sizes:
                    raise ValueError("not of the first picture's shape, or cut short")
            except (OSError, ValueError, IndexError, struct.error):
                rest += slots  # whatever it is: the way for all others says it
            else:
                labels[slots] = firsts
        context.add_reading(seconds)
        return rest

    def _has_rows(self, scattered: Scattered, context: LoadContext) -> bool:
        """Whether the batch's memory has rows; if there are none yet, they are made as the first picture wants them."""
        memory, decoder = context.memory, self.samples.decoder
        if not memory.rows:
            try:
                record = scattered.read(scattered.sizes[0], scattered.offsets[0])
                decoder.allocate_rows(memoryview(record)[_PICTURE:], memory, context.first_slot)
            except (OSError, DecodeError):
                return False
        return bool(memory.rows)

    def _parts(self, positions: Sequence[int], context: LoadContext) -> Iterator[tuple[int, Buffer | Exception, Any]]:
        """Give the samples' places, pictures and labels, in file order; an exception in a picture's place."""
        for place, data, begin, end in self.files.stream(self._records_of(positions), context.add_reading):
            if isinstance(data, Exception):
                yield place, data, None
                continue
            try:
                label, picture = split_image_record(memoryview(data)[begin:end])
                label = self._label(label)
            except DecodeError as error:
                yield place, error, None
            else:
                yield place, picture, label

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
