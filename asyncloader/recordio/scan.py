"""Finding the records of a file by reading it from end to end, past damage too.

A payload holds no aligned magic number (the writer splits records there), so each one in a file is the head of a part.
A chunk's heads are therefore found, and checked to lead from one to the next, as whole arrays. Only where that fails a
chunk is gone through part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncloader.errors import CorruptRecordError
from asyncloader.recordio.frames import HEAD, MAGIC, MAGIC_BYTES, MAX_PART, Kind, check_part, padded

__all__ = ["ByteSource", "Damage", "Found", "Progress", "scan", "scan_offsets"]

#: Called with the number of bytes that are done.
Progress: TypeAlias = Callable[[int], object]

_CHUNK = 1 << 20

#: A part longer than this that ends where another begins is not searched for other parts' heads.
_BELIEVED = 1 << 20


class ByteSource(Protocol):
    """What is scanned: a :class:`~asyncloader.storage.LocalFile`, or anything with a size that is read at an offset."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    def read(self, offset: int, size: int) -> bytes:
        """Give exactly ``size`` bytes."""


class Damage(NamedTuple):
    """A stretch of a file that holds no whole record.

    Attributes
    ----------
    offset, end : int
        From which byte to before which.
    reason : str
        What is wrong there.
    """

    offset: int
    end: int
    reason: str


class Found(NamedTuple):
    """What one step of a scan found.

    Attributes
    ----------
    offsets, ends : ndarray of int64, shape (records,)
        Where each whole record begins, and where the next thing does; a record's bytes, framing included, lie between.
    damages : list of Damage
        What lies between them, before or behind.
    position : int
        So many bytes are done.
    """

    offsets: NDArray[np.int64]
    ends: NDArray[np.int64]
    damages: list[Damage]
    position: int


def scan(source: ByteSource) -> Iterator[Found]:
    """Go through a file, a chunk at a step, and on behind damage at the next head that is believable.

    Parameters
    ----------
    source : ByteSource
        The file.

    Yields
    ------
    Found
        In file order. Time is linear in the file's size, memory a chunk's.
    """
    scanner = _Scanner(source)
    while scanner.position < source.size:
        yield scanner.step()


def scan_offsets(source: ByteSource, path: str, progress: Progress | None = None) -> NDArray[np.int64]:
    """Find where each record of a file begins.

    Parameters
    ----------
    source : ByteSource
        The file.
    path : str
        Its path, for the message.
    progress : callable, optional
        Told how many bytes are done, now and then.

    Raises
    ------
    CorruptRecordError
        At the first damage.
    """
    offsets = [np.empty(0, np.int64)]
    count = 0
    for found in scan(source):
        offsets.append(found.offsets)
        if found.damages:
            damage = found.damages[0]
            count += int((found.offsets < damage.offset).sum())
            raise CorruptRecordError(
                f"{path}: after {count} whole records, {damage.reason}; "
                "`asyncloader verify --repair` saves what is whole",
                path=path,
                position=count,
                offset=damage.offset,
            )
        count += len(found.offsets)
        if progress is not None:
            progress(found.position)
    return np.concatenate(offsets)


class _Scanner:
    """Where a scan is: the next head's place, and where the record under way began (None between records)."""

    def __init__(self, source: ByteSource) -> None:
        self.position = 0
        self._source = source
        self._size = source.size
        self._begin: int | None = None
        self._window = b""
        self._window_offset = 0
        self._offsets: list[int] = []
        self._ends: list[int] = []
        self._damages: list[Damage] = []

    def step(self) -> Found:
        """Go on by about a chunk."""
        self._load(self.position)
        found = self._chain()
        if found is not None:
            return found
        self._offsets, self._ends, self._damages = [], [], []
        limit = self._window_offset + len(self._window)
        while self.position < limit:
            self._part()
        if self.position >= self._size and self._begin is not None:
            self._lose(self._begin, self._size, f"the file ends at byte {self._size}, within a record of several parts")
        return Found(np.array(self._offsets, np.int64), np.array(self._ends, np.int64), self._damages, self.position)

    # The quick way: a chunk whose heads lead from one to the next

    def _chain(self) -> Found | None:
        chunk = self._window
        words = np.frombuffer(chunk, "<u4", len(chunk) // 4)
        heads = np.flatnonzero(words[:-1] == MAGIC)
        if len(heads) == 0 or heads[0] != 0:
            return None
        heads_words = words[heads + 1]
        kinds = heads_words >> 29
        heads *= 4
        ends = heads + HEAD.size + ((heads_words & MAX_PART).astype(np.int64) + 3 & ~3)
        # What the chunk's last part leads to is seen in the next chunk, unless the file ends here.
        at_end = self._window_offset + len(chunk) == self._size
        following = np.append(heads[1:], len(chunk)) if at_end else heads[1:]
        count = len(following)
        if count == 0 or not np.array_equal(ends[:count], following):
            return None
        later = (kinds == Kind.MIDDLE) | (kinds == Kind.LAST)
        inside = np.append(self._begin is not None, (kinds == Kind.FIRST) | (kinds == Kind.MIDDLE))
        if (kinds > Kind.LAST).any() or (later != inside[:-1])[:count].any() or (at_end and inside[-1]):
            return None
        offsets = heads[:count][~later[:count]] + self._window_offset
        if self._begin is not None:
            offsets = np.append(self._begin, offsets)
        self._begin = int(offsets[-1]) if inside[count] else None
        record_ends = ends[:count][~inside[1 : count + 1]] + self._window_offset
        self.position = self._window_offset + int(following[-1])
        return Found(offsets[: len(record_ends)], record_ends, [], self.position)

    # The careful way: part by part

    def _part(self) -> None:
        """Take one part, or what is damaged up to the next head that is believable."""
        position = self.position
        if position + HEAD.size > self._size:
            begin = position if self._begin is None else self._begin
            self._lose(begin, self._size, f"the file ends at byte {self._size}, within the head at {position}")
            return
        kind, length, fault = self._head(position, inside=self._begin is not None)
        if fault and self._begin is not None and self._head(position, inside=False)[2] is None:
            self._lose(self._begin, position, fault)
            fault = None
        if fault:
            self._resume(position, fault)
            return
        end = position + HEAD.size + padded(length)
        inner = self._inner_head(position + HEAD.size, end)
        if inner is not None:
            fault = f"the part at byte offset {position} claims {length} bytes, but another begins at {inner}"
            self._resume(position, fault)
            return
        self.position = end
        if kind in (Kind.WHOLE, Kind.FIRST):
            self._begin = position
        if kind in (Kind.WHOLE, Kind.LAST):
            assert self._begin is not None
            self._offsets.append(self._begin)
            self._ends.append(end)
            self._begin = None

    def _inner_head(self, begin: int, end: int) -> int | None:
        """Find a head between a part's own and its end that shows the part's length to be wrong.

        Where the end leads on, a magic number inside can be one that the writer should have split the record at; it is
        a head only if what it claims leads on as well. A very long part that leads on is believed unread.
        """
        leads_on = self._leads_on(end)
        if leads_on and end - begin > _BELIEVED:
            return None
        inner = self._find(begin)
        while inner < end:
            _, length, wrong = self._head(inner, inside=False) if inner + HEAD.size <= self._size else (0, 0, "cut off")
            if not leads_on or (wrong is None and self._leads_on(inner + HEAD.size + padded(length))):
                return inner
            inner = self._find(inner + 4)
        return None

    def _resume(self, position: int, fault: str) -> None:
        """Give up what is at a position, and look for the next record."""
        candidate = self._find(position + 4)
        while candidate + HEAD.size <= self._size:
            _, length, wrong = self._head(candidate, inside=False)
            after = self._find(candidate + 4)
            if wrong is None:
                end = candidate + HEAD.size + padded(length)
                # Bytes of a damaged record can look like a head. One that claims what lies behind the next magic number
                # is believed only if it leads to a head, or exactly to the end.
                if after >= end or self._leads_on(end):
                    break
            candidate = after
        else:
            candidate = self._size
        self._lose(position if self._begin is None else self._begin, candidate, fault)

    def _lose(self, offset: int, end: int, reason: str) -> None:
        self._damages.append(Damage(offset, end, reason))
        self._begin = None
        self.position = end

    def _head(self, offset: int, *, inside: bool) -> tuple[int, int, str | None]:
        magic, word = HEAD.unpack(self._read(offset, HEAD.size))
        kind, length = word >> 29, word & MAX_PART
        return kind, length, check_part(magic, kind, length, offset, self._size, inside=inside)

    def _leads_on(self, end: int) -> bool:
        """Whether a part's end is the file's, or the next head's beginning."""
        return end == self._size or (end + HEAD.size <= self._size and self._read(end, 4) == MAGIC_BYTES)

    def _find(self, offset: int) -> int:
        """Find the next magic number, aligned or not; the file's size if there is none."""
        while offset + 4 <= self._size:
            if not self._window_offset <= offset <= self._window_offset + len(self._window) - 4:
                self._load(offset)
            found = self._window.find(MAGIC_BYTES, offset - self._window_offset)
            if found >= 0:
                return self._window_offset + found
            offset = self._window_offset + len(self._window) - 3
        return self._size

    def _read(self, offset: int, size: int) -> bytes:
        start = offset - self._window_offset
        if 0 <= start <= len(self._window) - size:
            return self._window[start : start + size]
        return self._source.read(offset, size)

    def _load(self, offset: int) -> None:
        self._window = self._source.read(offset, min(_CHUNK, self._size - offset))
        self._window_offset = offset
