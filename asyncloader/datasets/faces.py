"""Face-recognition sets in the InsightFace layout: ``train.rec``, ``train.idx`` and ``property`` in one folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncloader.datasets.base import LoadContext, located
from asyncloader.datasets.images import ImageRecordDataset, split_image_record
from asyncloader.decoders import MAX_PIXELS, Color
from asyncloader.errors import CorruptRecordError, DecodeError, MissingFileError

__all__ = ["FaceRecordDataset"]

#: Labels are read for counting in steps of this many records.
_STEP = 1024

_MOST_PEOPLE = 2.0**62


class FaceRecordDataset(ImageRecordDataset):
    """Face crops and the identity of each.

    Parameters
    ----------
    path : path
        The folder, or the record file in it.
    transform, color, max_pixels
        As :class:`ImageRecordDataset` takes them.

    Notes
    -----
    A sample is ``(image, identity)``: the image of shape (height, width, channels), uint8; the identity a
    ``numpy.int64`` from 0. The first record is no image where its flag is 2: its two labels say that the images are
    the keys ``1 .. first - 1``, and that one header a person follows. A file without it holds images alone.

    Source: the layout that InsightFace's ``recognition`` sets have (MS1M, Glint360K, WebFace and others).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        transform: Callable[..., Any] | None = None,
        color: Color = "rgb",
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        file = Path(path)
        if file.is_dir():
            file = file / "train.rec"
            if not file.exists():
                where = os.path.abspath(file)
                raise MissingFileError(f"{where} is not there: an InsightFace folder has train.rec in it", path=where)
        super().__init__(file, transform=transform, color=color, max_pixels=max_pixels)
        self.folder = file.parent
        #: The position in the record file of each sample, and the number of people the header names (None without it).
        self._records, self._people = self._read_header()

    def _read_header(self) -> tuple[NDArray[np.int64], int | None]:
        reader = self.files.readers[0]
        if len(reader) == 0:
            return np.empty(0, np.int64), 0
        first = reader.index.position_of(0) if 0 in reader.index else 0
        label, _ = split_image_record(reader.read(first))
        if label.ndim == 0 or label.size != 2:
            return np.arange(len(reader), dtype=np.int64), None
        try:
            images_end, people_end = int(label[0]), int(label[1])
            if not 0 < images_end <= min(people_end, len(reader)):
                raise ValueError(f"the index has {len(reader)} records")
            keys = np.arange(1, images_end, dtype=np.int64)
            records = reader.index.positions_of(keys)
        except (KeyError, OverflowError, ValueError) as error:
            key, offset = reader.locate(first)
            raise CorruptRecordError(
                f"{reader.path}: the header record (position {first}, key {key}, byte offset {offset}) says that the "
                f"images are the keys from 1 to before {label[0]}, which does not fit the index ({error}); "
                "the index is of another file, or incomplete: rebuild it with `asyncloader index`",
                path=reader.path,
                position=first,
                key=key,
                offset=offset,
            ) from error
        return records, people_end - images_end

    def __len__(self) -> int:
        return len(self._records)

    def _records_of(self, positions: Sequence[int]) -> Sequence[int]:
        records: list[int] = self._records[np.asarray(positions, np.int64)].tolist()
        return records

    def _load_ordinary(self, records: Sequence[int], labels: NDArray[np.float32], context: LoadContext) -> list[int]:
        rest = super()._load_ordinary(records, labels, context)
        odd = np.flatnonzero(~_is_identity(labels))
        labels[odd] = 0
        return rest + odd.tolist()  # whose labels are refused on the way for all others

    def _labels(self, labels: NDArray[np.float32]) -> NDArray[np.int64]:
        return labels.astype(np.int64)

    def _label(self, label: Any) -> np.int64:
        return _identity(label)

    @cached_property
    def num_classes(self) -> int:
        """The number of people: from the header record, else from ``property``, else counted over all labels."""
        if self._people is not None:
            return self._people
        try:
            return int((self.folder / "property").read_text().split(",")[0])
        except (OSError, ValueError):
            return self._count_people()

    def _count_people(self) -> int:
        highest = -1
        for start in range(0, len(self), _STEP):
            positions = range(start, min(start + _STEP, len(self)))
            for position, payload in zip(positions, self.files.read_many(self._records_of(positions)), strict=True):
                if isinstance(payload, Exception):
                    raise payload
                try:
                    highest = max(highest, int(_identity(split_image_record(payload)[0])))
                except DecodeError as error:
                    raise located(error, self.locate(position), position) from error
        return highest + 1


def _is_identity(label: NDArray[np.float32] | np.float32) -> Any:
    """Whether labels are whole numbers that an int can hold; NaN and infinity are not."""
    return (np.abs(label) < _MOST_PEOPLE) & (label == np.trunc(label))


def _identity(label: Any) -> np.int64:
    first = label if label.ndim == 0 else label[0]
    if not _is_identity(first):
        raise DecodeError(
            f"its identity is {first}, where a whole number was expected: the record is damaged, or the set is none of "
            "faces (ImageRecordDataset gives labels as they are)"
        )
    return np.int64(first)
