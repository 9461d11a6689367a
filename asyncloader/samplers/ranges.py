"""Sets of integers that are mostly runs of neighbours."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

__all__ = ["RangeSet"]


class RangeSet:
    """A set of integers from 0, held as disjoint half-open ranges in rising order.

    Parameters
    ----------
    ranges : iterable of (int, int)
        Ranges ``[start, stop)`` to begin with; they may overlap and come in any order.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in ranges:
            self.add(start, stop)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(tuple(self._starts), tuple(self._stops), strict=True)

    def __contains__(self, value: int) -> bool:
        place = bisect_right(self._starts, value) - 1
        return place >= 0 and value < self._stops[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it can change

    @property
    def size(self) -> int:
        """Number of integers in the set; may be more than ``len`` could give."""
        return sum(self._stops) - sum(self._starts)

    @property
    def stop(self) -> int:
        """One more than the largest member; 0 for the empty set."""
        return self._stops[-1] if self._stops else 0

    def add(self, start: int, stop: int) -> None:
        """Put ``[start, stop)`` in, joining what touches it."""
        if stop <= start:
            return
        first = bisect_left(self._stops, start)
        last = bisect_right(self._starts, stop)
        if first < last:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[last - 1])
        self._starts[first:last] = [start]
        self._stops[first:last] = [stop]

    def first_missing(self, start: int = 0) -> int:
        """Give the smallest integer from `start` on that is not in the set."""
        place = bisect_right(self._starts, start) - 1
        if place >= 0 and start < self._stops[place]:
            return self._stops[place]
        return start

    def missing(self, stop: int) -> RangeSet:
        """Give the integers of ``range(stop)`` that are not in the set."""
        result = RangeSet()
        at = 0
        for start, end in self:
            result.add(at, min(start, stop))
            at = end
        result.add(at, stop)
        return result

    def select(self, start: int, stop: int) -> RangeSet:
        """Give the members that are number `start` to `stop` (half-open) of the set in rising order."""
        result = RangeSet()
        before = 0
        for first, end in self:
            result.add(first + max(start - before, 0), min(end, first + stop - before))
            before += end - first
            if before >= stop:
                break
        return result

    def copy(self) -> RangeSet:
        """Give an independent set of the same members."""
        result = RangeSet()
        result._starts = self._starts.copy()
        result._stops = self._stops.copy()
        return result
