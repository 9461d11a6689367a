"""Which samples make which batch, epoch after epoch: shuffled, cut among ranks, and resumed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from asyncloader.errors import StateError
from asyncloader.samplers.arguments import check_choice, check_integer
from asyncloader.samplers.blocks import BlockOrder
from asyncloader.samplers.checks import describe
from asyncloader.samplers.division import Cut, LastBatch, ShortRanks
from asyncloader.samplers.iterable import IterableSource
from asyncloader.samplers.mixing import WORD, epoch_key
from asyncloader.samplers.ordered import OrderedSampler
from asyncloader.samplers.orders import Order, SequentialOrder, ShuffledOrder
from asyncloader.samplers.passes import Pass
from asyncloader.samplers.resume import check_fits, recut
from asyncloader.samplers.sources import CheckedOrder, OrderSource, Source
from asyncloader.samplers.state import VERSION, Progress, Setting, check_setting, progress_from_dict, progress_to_dict

__all__ = ["Schedule", "Shuffle"]

Shuffle: TypeAlias = bool | Literal["blocks"]

_LARGEST = 1 << 31


class Schedule:
    """The order of a dataset's samples and its cut into batches, computed without reading anything.

    The same arguments give the same batches, on any machine. In step k of an epoch the `world_size` ranks together take
    the samples from ``k * batch_size * world_size`` on of one order, so that a run can be resumed with another number
    of ranks.

    Parameters
    ----------
    length : int or None
        The dataset's length. None for a dataset without one, whose sampler may give any objects.
    batch_size : int or None
        Samples in a batch of one rank; None for single samples, each a batch of its own.
    shuffle : bool or "blocks"
        Whether the order is random: over all samples, or, for slow disks, over blocks of neighbours (see `BlockOrder`).
    sampler : iterable of int, optional
        Gives the positions of an epoch. It is told the epoch first if it has ``set_epoch``.
    batch_sampler : iterable of iterables of int, optional
        Gives the batches of an epoch, likewise.
    last_batch : {"keep", "discard", "rollover"}
        What becomes of an incomplete batch: it is given, left out, or its samples come first in the next epoch.
    seed : int
        Chooses the orders, ``0 .. 2**64 - 1``.
    rank, world_size : int
        Which of how many consumers this is for.
    short_ranks : {"pad", "drop"}
        Where samples (or batches of a `batch_sampler`) do not go evenly among the ranks: whether the first ones of the
        epoch are given again, or the odd ones left out, so that all ranks have as many batches.
    block_size, buffer_size : int
        For ``shuffle="blocks"``: samples in a block, samples that are mixed with each other.

    Raises
    ------
    ValueError
        An argument is out of its range, or two of them exclude each other.
    """

    def __init__(
        self,
        length: int | None,
        *,
        batch_size: int | None = 1,
        shuffle: Shuffle = False,
        sampler: Iterable[object] | None = None,
        batch_sampler: Iterable[object] | None = None,
        last_batch: LastBatch = "keep",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        short_ranks: ShortRanks = "pad",
        block_size: int = 128,
        buffer_size: int = 4096,
    ) -> None:
        check_choice("shuffle", shuffle, (False, True, "blocks"))
        check_choice("last_batch", last_batch, ("keep", "discard", "rollover"))
        check_choice("short_ranks", short_ranks, ("pad", "drop"))
        shuffle = "blocks" if shuffle == "blocks" else bool(shuffle)
        length = None if length is None else check_integer("length", length, 0, 1 << 62)
        batch_size = None if batch_size is None else check_integer("batch_size", batch_size, 1, _LARGEST)
        world_size = check_integer("world_size", world_size, 1, _LARGEST)
        rank = check_integer("rank", rank, 0, world_size)
        seed = check_integer("seed", seed, 0, WORD)
        block_size = check_integer("block_size", block_size, 1, _LARGEST)
        buffer_size = check_integer("buffer_size", buffer_size, 1, _LARGEST)
        if batch_sampler is not None:
            if batch_size != 1 or sampler is not None or shuffle or last_batch != "keep":
                raise ValueError(
                    "a batch_sampler makes the batches by itself; "
                    "give no batch_size, shuffle, sampler or last_batch with it"
                )
            batch_size = None
        if sampler is not None and shuffle:
            raise ValueError(f"a sampler gives the order by itself; give no shuffle (it is {shuffle!r}) with it")
        self._length = length
        self._world_size = world_size
        self._cut = Cut(batch_size or 1, rank, world_size, last_batch, short_ranks)
        if batch_sampler is not None:
            self._source: Source = IterableSource(batch_sampler, length, batched=True)
        elif sampler is not None:
            self._source = _sampled(sampler, length)
        else:
            self._source = _computed(length, shuffle, seed, block_size, buffer_size)
        used = sampler if batch_sampler is None else batch_sampler
        self._settings: dict[str, Setting] = {
            "length": length,
            "batch_size": batch_size,
            "seed": seed,
            "shuffle": shuffle,
            "sampler": None if used is None else describe(used),
            "last_batch": last_batch,
        }
        if shuffle == "blocks":
            self._settings.update(block_size=block_size, buffer_size=buffer_size)
        self._lock = threading.Lock()
        self._next = Progress(0, world_size)  # where the next pass begins
        self._current: Pass | None = None  # the pass begun last, until it is finished

    @property
    def epoch(self) -> int:
        """The epoch of the next pass."""
        with self._lock:
            return self._next.epoch

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next pass is of.

        It begins at the epoch's start, unless a state was loaded that is within this very epoch. What a completed pass
        left over (``last_batch="rollover"``) comes first in the next, whatever its epoch.

        Parameters
        ----------
        epoch : int
            From 0.
        """
        epoch = check_integer("epoch", epoch, 0, 1 << 63)
        with self._lock:
            if epoch != self._next.epoch:
                self._next = Progress(epoch, self._world_size, carry=self._next.carry)
                self._current = None

    def __len__(self) -> int:
        """Count the batches of the next pass, what is left of it where a state was loaded."""
        with self._lock:
            progress = self._next
        return max(self._cut.divide(self._source.expected(progress)).steps - progress.given.size, 0)

    def begin(self) -> Pass:
        """Begin a pass of the epoch, from where a loaded state says, else from its start.

        Returns
        -------
        Pass
            Independent of passes begun before.
        """
        with self._lock:
            progress = self._next
            plan = self._source.plan(progress, self._cut)
            self._current = Pass(plan, progress, self._to_dict, self._finish)
            # Another pass of the same epoch begins at its start, with what the last completed pass left over.
            self._next = Progress(progress.epoch, self._world_size, carry=progress.carry)
            return self._current

    def state_dict(self) -> dict[str, object]:
        """Say what the consumer of the pass begun last was given, as a plain dict that JSON can hold.

        Returns
        -------
        dict
            See `progress_to_dict`.
        """
        with self._lock:
            current, progress = self._current, self._next
        return self._to_dict(progress) if current is None else current.state_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where `state` was taken: the next pass gives what is left of its epoch.

        The world size may be another than it was, as long as all ranks were given the same batches.

        Parameters
        ----------
        state : mapping
            What `state_dict` gave.

        Raises
        ------
        StateError
            The state is malformed, or was made for other data or other settings. The schedule is left as it was.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"a state is a dict, as state_dict() returns it, not a {type(state).__qualname__}")
        check_setting(state, "version", VERSION)
        for name, value in self._settings.items():
            check_setting(state, name, value)
        progress = progress_from_dict(state, self._length)
        total = self._source.total(progress)
        if total is not None:
            check_fits(progress, total, self._cut)
        if progress.world_size != self._world_size:
            progress = recut(progress, total, self._cut)
        with self._lock:
            self._next = progress
            self._current = None

    def _to_dict(self, progress: Progress) -> dict[str, object]:
        return progress_to_dict(progress, self._settings)

    def _finish(self, finished: Pass, following: Progress) -> None:
        with self._lock:
            if self._current is finished:
                self._current = None
            # A pass that comes in late, behind others or behind set_epoch, moves nothing back.
            at_start = not self._next.given.size and not self._next.taken.size
            if following.epoch > self._next.epoch or (following.epoch == self._next.epoch and at_start):
                self._next = following


def _computed(length: int | None, shuffle: Shuffle, seed: int, block_size: int, buffer_size: int) -> OrderSource:
    if length is None:
        raise ValueError("a dataset without a length needs a sampler or a batch_sampler that says what to load")
    known = length

    def make(epoch: int) -> Order:
        if shuffle == "blocks":
            return BlockOrder(known, epoch_key(seed, epoch), block_size=block_size, buffer_size=buffer_size)
        return ShuffledOrder(known, epoch_key(seed, epoch)) if shuffle else SequentialOrder(known)

    return OrderSource(make)


def _sampled(sampler: Iterable[object], length: int | None) -> Source:
    if not isinstance(sampler, OrderedSampler):
        return IterableSource(sampler, length, batched=False)
    if length is None:
        return OrderSource(sampler.order)
    known = length
    return OrderSource(lambda epoch: CheckedOrder(sampler.order(epoch), known, sampler))
