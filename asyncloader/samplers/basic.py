"""Samplers over one dataset: in order, shuffled, a subset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.arguments import check_integer
from asyncloader.samplers.blocks import BlockOrder
from asyncloader.samplers.checks import to_positions
from asyncloader.samplers.mixing import WORD, epoch_key, hash_indexes
from asyncloader.samplers.ordered import OrderedSampler
from asyncloader.samplers.orders import Order, SequentialOrder, ShuffledOrder

__all__ = ["BlockShuffleSampler", "RandomSampler", "SequentialSampler", "SubsetSampler"]


class SequentialSampler(OrderedSampler):
    """All positions, in rising order.

    Parameters
    ----------
    length : int
        The dataset's length.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = check_integer("length", length, 0, 1 << 62)

    def order(self, epoch: int) -> Order:
        """Give the order, the same for each epoch."""
        return SequentialOrder(self._length)


class RandomSampler(OrderedSampler):
    """All positions in a random order, another for each epoch; or positions drawn with replacement.

    Parameters
    ----------
    length : int
        The dataset's length.
    replacement : bool
        Whether each draw is from all positions.
    num_samples : int, optional
        Number of draws with replacement; the length if not given.
    seed : int
        Chooses the orders, ``0 .. 2**64 - 1``.
    """

    def __init__(
        self, length: int, *, replacement: bool = False, num_samples: int | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        self._length = check_integer("length", length, 0, 1 << 62)
        self._seed = check_integer("seed", seed, 0, WORD)
        if num_samples is not None and not replacement:
            raise ValueError("num_samples is for replacement=True; without replacement each position comes once")
        self._draws = None
        if replacement:
            draws = self._length if num_samples is None else num_samples
            self._draws = check_integer("num_samples", draws, 0, 1 << 62 if self._length else 1)

    def order(self, epoch: int) -> Order:
        """Give the order of an epoch."""
        key = epoch_key(self._seed, epoch)
        return ShuffledOrder(self._length, key) if self._draws is None else _Draws(self._length, self._draws, key)


class SubsetSampler(OrderedSampler):
    """Some positions only.

    Parameters
    ----------
    positions : sequence of int or ndarray
        Which; a position listed twice comes twice.
    shuffle : bool
        Whether they come in a random order, another for each epoch, or as listed.
    seed : int
        Chooses the orders, ``0 .. 2**64 - 1``.
    """

    def __init__(self, positions: Sequence[int] | NDArray[np.integer], *, shuffle: bool = False, seed: int = 0) -> None:
        super().__init__()
        given = positions if isinstance(positions, np.ndarray) else list(positions)
        self._positions = to_positions(given, 1 << 62, self).copy()
        self._shuffle = shuffle
        self._seed = check_integer("seed", seed, 0, WORD)

    def order(self, epoch: int) -> Order:
        """Give the order of an epoch."""
        count = len(self._positions)
        within = ShuffledOrder(count, epoch_key(self._seed, epoch)) if self._shuffle else SequentialOrder(count)
        return _Selected(self._positions, within)


class BlockShuffleSampler(OrderedSampler):
    """Blocks of neighbouring positions in random order, mixed in a buffer; see `BlockOrder`.

    Parameters
    ----------
    length : int
        The dataset's length.
    block_size : int
        Neighbouring positions in a block.
    buffer_size : int
        Positions that are mixed with each other.
    seed : int
        Chooses the orders, ``0 .. 2**64 - 1``.
    """

    def __init__(self, length: int, *, block_size: int = 128, buffer_size: int = 4096, seed: int = 0) -> None:
        super().__init__()
        self._length = check_integer("length", length, 0, 1 << 62)
        self._block_size = check_integer("block_size", block_size, 1, 1 << 31)
        self._buffer_size = check_integer("buffer_size", buffer_size, 1, 1 << 31)
        self._seed = check_integer("seed", seed, 0, WORD)

    def order(self, epoch: int) -> Order:
        """Give the order of an epoch."""
        key = epoch_key(self._seed, epoch)
        return BlockOrder(self._length, key, block_size=self._block_size, buffer_size=self._buffer_size)


class _Draws:
    """Positions drawn with replacement, each equally likely (to one part in ``2**64 / choices``)."""

    def __init__(self, choices: int, length: int, key: int) -> None:
        self.length = length
        self._choices = np.uint64(choices)
        self._key = key

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        bits = hash_indexes(self._key, np.arange(start, stop, dtype=np.uint64))
        bits %= self._choices
        return bits.view(np.int64)


class _Selected:
    """Some positions, in the order of another order over their places."""

    def __init__(self, positions: NDArray[np.int64], within: Order) -> None:
        self.length = within.length
        self._positions = positions
        self._within = within

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        return self._positions[self._within.read(start, stop)]
