"""Samplers that are iterated: PyTorch's, Gluon's, the users' own."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.checks import describe, to_positions
from asyncloader.samplers.division import Cut
from asyncloader.samplers.iterated import IteratedPlan
from asyncloader.samplers.plan import Plan, Positions
from asyncloader.samplers.state import Progress

__all__ = ["IterableSource"]


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
            self._watch(iterator, self._says() == 0),
            progress.carry,
            progress.taken,
            self._convert_batch if self._batched else self._convert,
            cut,
        )

    def total(self, progress: Progress) -> None:
        """Give None: a sampler ends where it ends, whatever its length says."""

    def expected(self, progress: Progress) -> int:
        """Count what the epoch should give by the sampler's length."""
        says = self._says()
        if says is None:
            raise TypeError(
                f"{describe(self._sampler)} has no length, so the number of batches is not known before the end; "
                "iterate without asking for it, or give the sampler a __len__"
            )
        return max(says + len(progress.carry) - progress.taken.size, 0)

    def _set_epoch(self, epoch: int) -> None:
        # PyTorch's BatchSampler has no set_epoch, though the sampler that it wraps may have.
        for sampler in (self._sampler, getattr(self._sampler, "sampler", None)):
            set_epoch = getattr(sampler, "set_epoch", None)
            if callable(set_epoch):
                set_epoch(epoch)
                return

    def _says(self) -> int | None:
        """Ask the sampler for its length; None where it has none, which some say by raising."""
        try:
            return len(self._sampler)  # type: ignore[arg-type]  # whether it can is what is tried
        except (TypeError, NotImplementedError):
            return None

    def _watch(self, iterator: Iterator[object], may_be_empty: bool) -> Iterator[object]:
        empty = True
        for item in iterator:
            empty = False
            self._gave = True
            yield item
        if empty and self._gave and not may_be_empty:
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
