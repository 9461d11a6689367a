"""Where the positions of an epoch come from: an order that is computed, or a sampler that is iterated."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .checks import describe, to_positions
from .division import Division, LastBatch, ShortRanks
from .iterated import IteratedPlan
from .mixing import derive_key
from .orders import Order
from .plan import OrderPlan, Plan, Positions, Remainder
from .state import Progress

__all__ = ["CheckedOrder", "Cut", "IterableSource", "OrderSource", "Source", "epoch_key"]

_SHUFFLE = 0x73687566  # what the key is for


def epoch_key(seed: int, epoch: int) -> int:
    """Give the key of an epoch's order."""
    return derive_key(_SHUFFLE, seed, epoch)


class Cut:
    """How a schedule cuts any sequence: all of a `Division` but the total, and the rank.

    Parameters
    ----------
    size, world_size, last_batch, short_ranks
        As in `Division`.
    rank : int
        Whose part.
    """

    def __init__(self, size: int, rank: int, world_size: int, last_batch: LastBatch, short_ranks: ShortRanks) -> None:
        self.size = size
        self.rank = rank
        self.world_size = world_size
        self.last_batch: LastBatch = last_batch
        self.short_ranks: ShortRanks = short_ranks

    def divide(self, total: int) -> Division:
        """Cut a sequence of `total` items."""
        return Division(total, self.size, self.world_size, self.last_batch, self.short_ranks)


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


class IterableSource:
    """A sampler, or a batch sampler, that is iterated.

    Parameters
    ----------
    sampler : iterable
        Gives positions, or batches of them.
    length : int or None
        The dataset's length; None where positions can be any objects.
    batched : bool
        Whether batches come from it.
    """

    def __init__(self, sampler: Iterable[object], length: int | None, *, batched: bool) -> None:
        self._sampler = sampler
        self._length = length
        self._batched = batched
        self._gave = False

    def plan(self, progress: Progress, cut: Cut) -> Plan:
        """Make the plan of an epoch's batches."""
        self._set_epoch(progress.epoch)
        iterator = iter(self._sampler)
        if self._gave and iterator is self._sampler and type(iterator).__module__ in {"builtins", "itertools"}:
            raise self._used_up()
        return IteratedPlan(
            self._watch(iterator),
            progress.carry,
            progress.taken,
            self._convert_batch if self._batched else self._convert,
            size=cut.size,
            rank=cut.rank,
            world_size=cut.world_size,
            last_batch=cut.last_batch,
            short_ranks=cut.short_ranks,
        )

    def total(self, progress: Progress) -> None:
        """Give None: a sampler ends where it ends, whatever its length says."""

    def expected(self, progress: Progress) -> int:
        """Count what the epoch should give by the sampler's length."""
        if not isinstance(self._sampler, Sized):
            raise TypeError(
                f"{describe(self._sampler)} has no length, so the number of batches is not known before the end; "
                "iterate without asking for it, or give the sampler a __len__"
            )
        return max(len(self._sampler) + len(progress.carry) - progress.taken.size, 0)

    def _set_epoch(self, epoch: int) -> None:
        # PyTorch's BatchSampler has no set_epoch, though the sampler that it wraps may have.
        for sampler in (self._sampler, getattr(self._sampler, "sampler", None)):
            set_epoch = getattr(sampler, "set_epoch", None)
            if callable(set_epoch):
                set_epoch(epoch)
                return

    def _watch(self, iterator: Iterator[object]) -> Iterator[object]:
        empty = True
        for item in iterator:
            empty = False
            self._gave = True
            yield item
        if empty and self._gave and not (isinstance(self._sampler, Sized) and len(self._sampler) == 0):
            raise self._used_up()

    def _used_up(self) -> ValueError:
        return ValueError(
            f"{describe(self._sampler)} can be iterated only once, and was; "
            "for another pass give a sampler whose __iter__ makes a new iterator each time, such as a list"
        )

    def _convert(self, items: Sequence[object] | NDArray[np.int64]) -> Positions:
        if self._length is None:
            return list(items)
        return to_positions(items, self._length, self._sampler)

    def _convert_batch(self, items: Sequence[object]) -> Positions:
        (batch,) = items
        if not isinstance(batch, Iterable):
            raise TypeError(
                f"{describe(self._sampler)} gave {reprlib.repr(batch)} as a batch; "
                "a batch sampler gives lists of positions"
            )
        positions = self._convert(batch if isinstance(batch, np.ndarray) else list(batch))
        if not len(positions):
            raise ValueError(f"{describe(self._sampler)} gave an empty batch; a batch has one position at least")
        return positions
