"""Record files of pictures, as the commands that load them need them: opened, a part chosen, the labels seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncloader.cli.payloads import Content, inspect
from asyncloader.cli.records import build_index, chunks, find_index, spread
from asyncloader.datasets.faces import FaceRecordDataset
from asyncloader.datasets.images import ImageRecordDataset
from asyncloader.errors import AsyncLoaderError, DecodeError
from asyncloader.recordio.reader import RecordReader

__all__ = ["choose", "is_face_set", "labels_of", "open_pictures", "sniff"]

#: Records that are looked at to tell what a file holds.
_LOOK_AT = 32
_LOOK_AT_BYTES = 16 << 20

#: More classes than this are not told apart by anything small.
_MOST_CLASSES = 1000


def sniff(reader: RecordReader) -> list[Content]:
    """Look at some records of a file, spread over it; damaged ones are passed over."""
    sizes = reader.index.spans.astype(np.int64)
    payloads = reader.read_many(spread(sizes, _LOOK_AT, _LOOK_AT_BYTES), on_error="return")
    return [inspect(payload) for payload in payloads if not isinstance(payload, Exception)]


def is_face_set(reader: RecordReader) -> bool:
    """Whether a file has the InsightFace layout: a header record of two labels and no picture comes first."""
    if len(reader) == 0:
        return False
    first = reader.index.position_of(0) if 0 in reader.index else 0
    [payload] = reader.read_many([first], on_error="return")
    if isinstance(payload, Exception):
        return False
    content = inspect(payload)
    return content.kind == "header only" and content.labels is not None and content.labels.shape == (2,)


def open_pictures(path: Path, transform: Any = None) -> ImageRecordDataset:
    """Open a file of pictures: as a face set where it is laid out as one.

    Raises
    ------
    AsyncLoaderError
        There are no records.
    DecodeError
        None of the records looked at is a picture with a header; the message says what they are.
    """
    if find_index(path) is None and sys.stderr.isatty():
        # The dataset scans without a word. What this reads before it, it finds in the system's memory.
        build_index(path)
    dataset = ImageRecordDataset(path, transform=transform)
    reader = dataset.files.readers[0]
    if is_face_set(reader):
        dataset.close()
        return FaceRecordDataset(path, transform=transform)
    contents = sniff(reader)
    if len(reader) == 0:
        raise AsyncLoaderError(f"{reader.path} holds no records, so there is nothing to load", path=reader.path)
    if not any(content.is_picture and content.labels is not None for content in contents):
        kinds = sorted({"bare " + content.kind if content.is_picture else content.kind for content in contents})
        raise DecodeError(
            f"{reader.path} is not a file of image records: the {len(contents)} records looked at are "
            f"{' or '.join(kinds) or 'damaged'}, but a header with a label and a picture was expected; "
            "RecordDataset loads records of any kind, and `asyncloader info` says more about these",
            path=reader.path,
        )
    return dataset


def choose(dataset: ImageRecordDataset, most: int, most_bytes: int) -> NDArray[np.int64]:
    """Choose samples evenly over a set: no more than so many, of no more bytes together."""
    reader = dataset.files.readers[0]
    candidates = np.arange(min(len(dataset), most), dtype=np.int64) * len(dataset) // max(1, min(len(dataset), most))
    sizes = reader.index.spans[_records(dataset, candidates)].astype(np.int64)
    return candidates[spread(sizes, most, most_bytes)]


def labels_of(dataset: ImageRecordDataset, positions: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Give the distinct labels of some samples if they are classes, else None.

    They are where each is one whole number that is not negative (the first one counts in a face set), and there are
    at least two different ones, and not very many.
    """
    reader = dataset.files.readers[0]
    records = _records(dataset, positions)
    distinct: set[float] = set()
    first_only = isinstance(dataset, FaceRecordDataset)
    for part in chunks(records, reader.index.spans.astype(np.int64)):
        for payload in reader.read_many(part, on_error="return"):
            if isinstance(payload, Exception):
                continue
            labels = inspect(payload).labels
            if labels is None:
                continue
            if labels.size != 1 and not (first_only and labels.size):
                return None
            distinct.add(float(labels.flat[0]))
        if len(distinct) > _MOST_CLASSES:
            return None
    values = np.array(sorted(distinct))
    if len(values) < 2 or not np.isfinite(values).all() or (values < 0).any() or (values != np.floor(values)).any():
        return None
    return values.astype(np.int64)


def _records(dataset: ImageRecordDataset, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the positions in the record file of samples."""
    if not isinstance(dataset, FaceRecordDataset):
        return positions
    index = dataset.files.readers[0].index
    keys = (dataset.locate(position).key for position in positions.tolist())
    return np.array([index.position_of(key) for key in keys if key is not None], np.int64)
