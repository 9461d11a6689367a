"""Plans of one pass: which batch, by its number, holds which positions of which rank."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.division import Division
from asyncloader.samplers.orders import Order
from asyncloader.samplers.ranges import RangeSet

__all__ = ["OrderPlan", "Plan", "PlannedBatch", "Positions", "Remainder"]

Positions: TypeAlias = "NDArray[np.int64] | list[object]"

# Places computed at once: what a call of NumPy costs by itself is then shared by several small batches.
_AHEAD = 8192


class PlannedBatch(NamedTuple):
    """What one batch is made of.

    Attributes
    ----------
    number : int
        Counts the batches of the epoch on this rank, from 0.
    positions : ndarray of int64, or list of object
        Positions in the dataset; for a dataset without a length, whatever the sampler gave, in a list.
    """

    number: int
    positions: Positions


class Plan(Protocol):
    """The batches of one pass on one rank."""

    @property
    def division(self) -> Division | None:
        """How the pass is cut; None as long as the end of a sampler was not seen."""

    @property
    def ended_early(self) -> bool:
        """Whether a sampler ended before what was given earlier; known with `division`."""

    def batch(self, number: int) -> Positions | None:
        """Give the positions of a batch, None past the last one; asked for in rising order, by one thread."""

    def leftover(self) -> list[object]:
        """Give the positions kept for the next pass; only once `division` is known."""


class Remainder:
    """What a pass has to give: positions left over by the pass before, then an order, less what was given earlier.

    Parameters
    ----------
    order : Order
        The epoch's order.
    carry : ndarray of int64
        Positions that come before it.
    taken : RangeSet
        Places, counted over `carry` and `order` together, that were given earlier.
    """

    def __init__(self, order: Order, carry: NDArray[np.int64], taken: RangeSet) -> None:
        self._order = order
        self._carry = carry
        self._whole = len(carry) + order.length
        self._rest = taken.missing(self._whole)
        self.length = self._rest.size

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Give the remaining positions number `start` to `stop`; past the end, the epoch's first ones fill up."""
        parts = [self._read_whole(*places) for places in self._rest.select(start, min(stop, self.length))]
        if stop > self.length:
            extra = np.arange(max(start - self.length, 0), stop - self.length)
            parts.append(self._read_whole(0, min(stop - self.length, self._whole))[extra % self._whole])
        return np.concatenate(parts) if len(parts) != 1 else parts[0]

    def _read_whole(self, start: int, stop: int) -> NDArray[np.int64]:
        before = len(self._carry)
        if start >= before:
            return self._order.read(start - before, stop - before)
        return np.concatenate([self._carry[start:stop], self._order.read(0, max(stop - before, 0))])


class OrderPlan:
    """The plan of an order of known length, any place of which can be computed by itself.

    Parameters
    ----------
    remainder : Remainder
        What is to be given.
    division : Division
        How it is cut.
    rank : int
        For whom.
    """

    ended_early = False  # its length is known when the state is loaded

    def __init__(self, remainder: Remainder, division: Division, rank: int) -> None:
        self.division = division
        self._remainder = remainder
        self._rank = rank
        self._ahead: NDArray[np.int64] = np.empty(0, np.int64)
        self._ahead_start = 0

    def batch(self, number: int) -> NDArray[np.int64] | None:
        """Give the positions of a batch, None past the last one."""
        if number >= self.division.steps:
            return None
        start, stop = self.division.part(number, self._rank)
        if not self._ahead_start <= start <= stop <= self._ahead_start + len(self._ahead):
            upto = max(stop, min(start + _AHEAD, self.division.total))
            self._ahead = self._remainder.read(start, upto)
            self._ahead_start = start
        # A copy, for a batch that is kept must not keep the others computed with it.
        return self._ahead[start - self._ahead_start : stop - self._ahead_start].copy()

    def leftover(self) -> list[object]:
        """Give the positions kept for the next pass."""
        start, stop = self.division.left
        return list(self._remainder.read(start, stop).tolist()) if start < stop else []
