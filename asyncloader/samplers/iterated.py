"""The plan of a sampler that can only be iterated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from asyncloader.samplers.division import Cut, Division
from asyncloader.samplers.plan import Positions
from asyncloader.samplers.ranges import RangeSet

__all__ = ["IteratedPlan"]


class IteratedPlan:
    """Batches cut from an iterable, read one step (of all ranks) ahead of what was asked for.

    Every rank iterates all of it and keeps its own part; what was given earlier is iterated again and thrown away. The
    end is where the iterable ends, whatever length it claims.

    Parameters
    ----------
    items : iterable
        Positions, or batches of positions.
    carry : sequence
        Items that come before them, left over by the pass before.
    taken : RangeSet
        Places, counted over `carry` and `items` together, that were given earlier.
    convert : callable
        Makes a batch of the items of one rank in one step.
    cut : Cut
        How the items are cut, and for whom.
    """

    def __init__(
        self,
        items: Iterable[object],
        carry: Sequence[object],
        taken: RangeSet,
        convert: Callable[[list[object]], Positions],
        cut: Cut,
    ) -> None:
        self.division: Division | None = None
        self.ended_early = False
        self._convert = convert
        self._cut = cut
        self._head: list[object] = []  # fills up short ranks; fewer than world_size items are ever missing
        self._rest = self._leave_out(self._keep_head(chain(carry, items)), taken)
        self._step = -1
        self._now: list[object] = []
        self._next: list[object] | None = None
        self._failure: Exception | None = None
        self._left: list[object] = []

    def batch(self, number: int) -> Positions | None:
        """Give the positions of a batch, None past the last one."""
        while self._step < number:
            if self.division is not None and self._step + 1 >= self.division.steps:
                return None
            self._advance()
        if self.division is not None and number >= self.division.steps:
            return None
        division = self.division or self._cut.divide((number + 1) * self._cut.per_step)
        offset = number * division.per_step
        start, stop = (place - offset for place in division.part(number, self._cut.rank))
        items = self._now[start:stop]
        missing = range(max(start, len(self._now)), stop)
        items += [self._head[(place - len(self._now)) % len(self._head)] for place in missing]
        return self._convert(items)

    def leftover(self) -> list[object]:
        """Give the items kept for the next pass."""
        return self._left

    def _advance(self) -> None:
        """Move on by one step and read the one after it, so that the last step is known to be the last."""
        if self._failure is not None:
            raise self._failure
        self._now = self._read_step() if self._next is None else self._next
        self._step += 1
        per_step = self._cut.per_step
        try:
            self._next = self._read_step() if len(self._now) == per_step else []
        except Exception as error:  # the step before it is whole, and is given first
            self._failure = error
            return
        if self.division is None and len(self._next) < per_step:
            division = self._cut.divide(self._step * per_step + len(self._now) + len(self._next))
            start, stop = division.left
            self._left = (self._now + self._next)[start - self._step * per_step : stop - self._step * per_step]
            self.division = division  # after what goes with it: another thread may look

    def _read_step(self) -> list[object]:
        return list(islice(self._rest, self._cut.per_step))

    def _keep_head(self, items: Iterable[object]) -> Iterator[object]:
        for item in items:
            if len(self._head) < self._cut.world_size - 1:
                self._head.append(item)
            yield item

    def _leave_out(self, items: Iterator[object], taken: RangeSet) -> Iterator[object]:
        at = 0
        for start, stop in taken:
            yield from islice(items, start - at)
            self.ended_early = sum(1 for _ in islice(items, stop - start)) < stop - start
            at = stop
        yield from items
