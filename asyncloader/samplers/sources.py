"""Where the positions of an epoch come from, and the orders among them; samplers that are iterated have a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.checks import to_positions
from asyncloader.samplers.division import Cut
from asyncloader.samplers.orders import Order
from asyncloader.samplers.plan import OrderPlan, Plan, Remainder
from asyncloader.samplers.state import Progress

__all__ = ["CheckedOrder", "OrderSource", "Source"]


class Source(Protocol):
    """What a schedule's positions come from."""

    def plan(self, progress: Progress, cut: Cut) -> Plan:
        """Make the plan of an epoch's batches."""

    def total(self, progress: Progress) -> int | None:
        """Count what the epoch has to give without iterating it; None where only iterating tells for sure."""

    def expected(self, progress: Progress) -> int:
        """Count what the epoch should give, by what a sampler says of its length.

        Raises
        ------
        TypeError
            The sampler has no length.
        """


class OrderSource:
    """Orders that are computed.

    Parameters
    ----------
    make : callable
        Gives the order of an epoch.
    """

    def __init__(self, make: Callable[[int], Order]) -> None:
        self._make = make
        self._last: tuple[int, Order] | None = None

    def plan(self, progress: Progress, cut: Cut) -> Plan:
        """Make the plan of an epoch's batches."""
        carry = np.asarray(progress.carry, dtype=np.int64)
        remainder = Remainder(self._order(progress.epoch), carry, progress.taken)
        return OrderPlan(remainder, cut.divide(remainder.length), cut.rank)

    def total(self, progress: Progress) -> int:
        """Count what the epoch has to give."""
        return self._order(progress.epoch).length + len(progress.carry) - progress.taken.size

    def expected(self, progress: Progress) -> int:
        """Count what the epoch has to give."""
        return self.total(progress)

    def _order(self, epoch: int) -> Order:
        last = self._last  # read once: several threads may be here, and each may put its own in place
        if last is None or last[0] != epoch:
            last = self._last = (epoch, self._make(epoch))
        return last[1]


class CheckedOrder:
    """An order made by a sampler for a dataset that may have another length.

    Parameters
    ----------
    order : Order
        The order.
    length : int
        The dataset's length.
    sampler : object
        Who made the order.
    """

    def __init__(self, order: Order, length: int, sampler: object) -> None:
        self.length = order.length
        self._order = order
        self._dataset_length = length
        self._sampler = sampler

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Give the positions at places `start` to `stop`, each within the dataset."""
        return to_positions(self._order.read(start, stop), self._dataset_length, self._sampler)
