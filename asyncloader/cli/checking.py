"""Reading a whole record file: what is damaged, what cannot be decoded, and what its index says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from asyncloader.cli.payloads import Content, inspect
from asyncloader.decoders import decode_image
from asyncloader.errors import AsyncLoaderError, DecodeError
from asyncloader.loader import available_cpus
from asyncloader.recordio.frames import decode
from asyncloader.recordio.index_text import IndexLines, parse_index
from asyncloader.recordio.scan import Damage, Found, scan
from asyncloader.storage import LocalFile

__all__ = ["IndexCheck", "PictureCheck", "Undecodable", "check_file", "read_index", "records_of"]

#: Called with the offsets and the payloads of whole records, in file order.
Save = Callable[[NDArray[np.int64], Sequence[bytes]], None]


class Undecodable(NamedTuple):
    """A record that is whole, but no picture comes of it."""

    offset: int
    reason: str


def check_file(
    file: LocalFile, pictures: PictureCheck | None, save: Save | None, progress: Callable[[int], None]
) -> tuple[NDArray[np.int64], list[Damage], list[Undecodable]]:
    """Read a file from end to end.

    Parameters
    ----------
    file : LocalFile
        The file.
    pictures : PictureCheck, optional
        Decodes what is whole.
    save : callable, optional
        Given what is good.
    progress : callable
        Told how many bytes are done.

    Returns
    -------
    offsets : ndarray of int64
        Where whole records begin.
    damages : list of Damage
        What lies between.
    undecodable : list of Undecodable
        Whole records that failed to be decoded.
    """
    offsets: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    damages: list[Damage] = []
    undecodable: list[Undecodable] = []
    for found in scan(file):
        offsets.append(found.offsets)
        damages += found.damages
        if pictures is not None or save is not None:
            payloads = records_of(file, found)
            reasons = pictures.faults(payloads) if pictures is not None else [None] * len(payloads)
            good = []
            for place, reason in enumerate(reasons):
                if reason is None:
                    good.append(place)
                else:
                    undecodable.append(Undecodable(int(found.offsets[place]), reason))
            if save is not None:
                save(found.offsets[good], [payloads[place] for place in good])
        progress(found.position)
    return np.concatenate(offsets), damages, undecodable


def records_of(file: LocalFile, found: Found) -> list[bytes]:
    """Read the records that a step of a scan found."""
    return [
        decode(file.read(offset, end - offset))[0]
        for offset, end in zip(found.offsets.tolist(), found.ends.tolist(), strict=True)
    ]


class PictureCheck(AbstractContextManager["PictureCheck"]):
    """Decodes records, in as many threads as there are CPUs.

    Notes
    -----
    In a face set the header records have no picture; they are known by their two labels, where the first record is one.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(available_cpus(), thread_name_prefix="asyncloader-verify")
        self._is_face_set: bool | None = None

    def faults(self, payloads: Sequence[bytes]) -> Iterator[str | None]:
        """Say of each record why no picture comes of it, or None."""
        contents = [inspect(payload) for payload in payloads]
        if self._is_face_set is None and contents:
            self._is_face_set = _is_face_header(contents[0])
        return self._threads.map(self._fault, contents)

    def _fault(self, content: Content) -> str | None:
        if self._is_face_set and _is_face_header(content):
            return None
        if content.kind == "header only":
            return "the picture is empty (0 bytes)"
        if not content.is_picture:
            return f"the record is not a picture ({content.kind})"
        try:
            decode_image(content.data)
        except DecodeError as error:
            return str(error)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)


def _is_face_header(content: Content) -> bool:
    return content.kind == "header only" and content.labels is not None and content.labels.shape == (2,)


def read_index(path: str) -> IndexLines:
    """Read an index as it is, whether it fits its file or not.

    Raises
    ------
    AsyncLoaderError
        It cannot be read or parsed.
    """
    with LocalFile(path) as text:
        return parse_index(
            (text.read(start, min(1 << 22, text.size - start)) for start in range(0, text.size, 1 << 22)), path
        )


class IndexCheck:
    """An index, held against what a scan found.

    Parameters
    ----------
    path : str
        The index.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: IndexLines | None = None
        self.fault: str | None = None
        try:
            self.lines = read_index(path)
        except AsyncLoaderError as error:
            self.fault = str(error)

    def keys_at(self, offset: int, end: int) -> list[int | str]:
        """Give the keys of the records that should begin in a stretch of the file."""
        if self.lines is None:
            return []
        return [
            self._key(line)
            for line in np.flatnonzero((self.lines.offsets >= offset) & (self.lines.offsets < end)).tolist()
        ]

    def strays(self, offsets: NDArray[np.int64], damages: Sequence[Damage]) -> list[str]:
        """Describe the lines that name a place where no record is, but for those where the file is damaged."""
        if self.lines is None:
            return []
        if len(offsets) and not len(self.lines.offsets):
            return ["no lines: it names no record of the file; write it anew with `asyncloader index`"]
        wrong = ~np.isin(self.lines.offsets, offsets)
        for damage in damages:
            wrong &= (self.lines.offsets < damage.offset) | (self.lines.offsets >= damage.end)
        return [
            f"line {line + 1} (key {self._key(line)}): no record begins at byte offset {self.lines.offsets[line]}"
            for line in np.flatnonzero(wrong).tolist()
        ]

    def unnamed(self, offsets: NDArray[np.int64]) -> int:
        """Count the records that no line names."""
        return int((~np.isin(offsets, self.lines.offsets)).sum()) if self.lines is not None else 0

    def _key(self, line: int) -> int | str:
        assert self.lines is not None
        key = self.lines.keys[line]
        return key if isinstance(key, str) else int(key)
