"""What is in a record file, from its index and from records spread over it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncloader.cli.payloads import Content, inspect, picture_shape
from asyncloader.cli.records import chunks, spread
from asyncloader.decoders import decode_image
from asyncloader.errors import AsyncLoaderError, DecodeError
from asyncloader.recordio.reader import RecordReader

__all__ = ["Survey", "histogram", "some_pictures", "survey"]

#: Records that are looked at; all of a file that has no more.
_MOST, _MOST_BYTES = 4096, 256 << 20
#: Bars of a histogram, at most and about.
_BARS = 10


@dataclass(slots=True)
class Survey:
    """What records hold.

    Attributes
    ----------
    sizes : list of int
        Bytes of each payload.
    kinds : Counter of str
        How many of each kind, as :class:`~asyncloader.cli.payloads.Content` has them.
    label_counts : Counter of int
        How many records have so many labels; 0 stands for one number in the header.
    labels : list of float
        Those of records that have one.
    pictures : Counter of (int, int)
        Heights and widths.
    damaged : list of Exception
        For the records that cannot be read.
    """

    sizes: list[int] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    label_counts: Counter[int] = field(default_factory=Counter)
    labels: list[float] = field(default_factory=list)
    pictures: Counter[tuple[int, int]] = field(default_factory=Counter)
    damaged: list[Exception] = field(default_factory=list)

    @property
    def looked_at(self) -> int:
        """How many records."""
        return len(self.sizes) + len(self.damaged)

    def add(self, size: int, content: Content) -> None:
        """Count one record."""
        self.sizes.append(size)
        self.kinds[content.kind] += 1
        if content.labels is not None:
            self.label_counts[content.labels.size if content.labels.ndim else 0] += 1
            if content.labels.size == 1:
                self.labels.append(float(content.labels.flat[0]))
        if content.is_picture:
            try:
                self.pictures[picture_shape(content.data)] += 1
            except DecodeError:
                return  # `verify --decode` is what tells of pictures that are no good


def survey(reader: RecordReader) -> Survey:
    """Look at records spread over a file, all of them if there are few."""
    found = Survey()
    sizes = reader.index.spans.astype(np.int64)
    for part in chunks(spread(sizes, _MOST, _MOST_BYTES), sizes):
        for payload in reader.read_many(part, on_error="return"):
            if isinstance(payload, Exception):
                found.damaged.append(payload)
            else:
                found.add(len(payload), inspect(payload))
    return found


def histogram(values: list[int]) -> list[tuple[int, int, int]]:
    """Sort sizes into a few bars with round bounds.

    Returns
    -------
    list of (int, int, int)
        From which size, to before which, and how many.
    """
    if not values:
        return []
    array = np.array(values)
    low, high = int(array.min()), int(array.max())
    edges = _even_edges(low, high) if high < 16 * max(low, 1) else _doubling_edges(low, high)
    counts, _ = np.histogram(array, edges)
    return [(int(a), int(b), int(n)) for a, b, n in zip(edges, edges[1:], counts, strict=False)]


def _even_edges(low: int, high: int) -> NDArray[np.int64]:
    step = next(
        factor * 10**power
        for power in range(20)
        for factor in (1, 2, 5)
        if (high - low) / (factor * 10**power) < _BARS - 1
    )
    return np.arange(low // step * step, high + step + 1, step, dtype=np.int64)


def _doubling_edges(low: int, high: int) -> NDArray[np.int64]:
    first, last = max(low, 1).bit_length() - 1, high.bit_length()
    step = -(-(last - first) // _BARS)
    edges = [1 << power for power in range(first, last + step, step)]
    return np.array([0, *edges] if low == 0 else edges)


def some_pictures(reader: RecordReader, most: int) -> tuple[list[NDArray[Any]], list[str]]:
    """Decode pictures spread over a file, each with its key and labels as caption; what is none is passed over.

    Raises
    ------
    DecodeError
        There is none.
    """
    pictures, captions = [], []
    sizes = reader.index.spans.astype(np.int64)
    for part in chunks(spread(sizes, most, _MOST_BYTES), sizes):
        for position, payload in zip(part.tolist(), reader.read_many(part, on_error="return"), strict=True):
            if isinstance(payload, Exception):
                continue
            content = inspect(payload)
            try:
                pictures.append(decode_image(content.data))
            except AsyncLoaderError:
                continue
            labels = [] if content.labels is None else [f"{label:g}" for label in content.labels.ravel()]
            captions.append(
                f"{reader.index.key(position)}: {', '.join(labels)}" if labels else str(reader.index.key(position))
            )
    if not pictures:
        raise DecodeError(
            f"{reader.path}: no record looked at is a picture, so there is no contact sheet", path=reader.path
        )
    return pictures, captions
