"""Draws in proportion to weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.arguments import check_integer
from asyncloader.samplers.mixing import WORD, epoch_key, hash_indexes
from asyncloader.samplers.ordered import OrderedSampler
from asyncloader.samplers.orders import Order

__all__ = ["WeightedSampler"]


class WeightedSampler(OrderedSampler):
    """Positions drawn with replacement, each in proportion to its weight, other ones for each epoch.

    Parameters
    ----------
    weights : sequence of float or ndarray, shape (length,)
        One for each position, 0 or more; they need not add up to 1.
    num_samples : int, optional
        Number of draws; as many as there are weights if not given.
    seed : int
        Chooses the draws, ``0 .. 2**64 - 1``.

    Raises
    ------
    ValueError
        A weight is negative or not finite, or all are 0.
    """

    def __init__(
        self, weights: Sequence[float] | NDArray[np.floating], num_samples: int | None = None, *, seed: int = 0
    ) -> None:
        super().__init__()
        array = np.asarray(weights, dtype=np.float64)
        if array.ndim != 1:
            raise ValueError(f"weights have the shape {array.shape}; give one number for each position")
        wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
        if wrong.size:
            raise ValueError(f"weight {int(wrong[0])} is {float(array[wrong[0]])}; weights are finite and 0 or more")
        with np.errstate(over="ignore"):  # the sum is looked at below
            self._cumulative = np.cumsum(array)
        possible = np.flatnonzero(array)
        self._last = int(possible[-1]) if possible.size else -1
        draws = check_integer("num_samples", len(array) if num_samples is None else num_samples, 0, 1 << 62)
        if draws and (not possible.size or not np.isfinite(self._cumulative[-1])):
            raise ValueError("the weights add up to 0 or to infinity; nothing can be drawn in proportion to them")
        self._draws = draws
        self._seed = check_integer("seed", seed, 0, WORD)

    def order(self, epoch: int) -> Order:
        """Give the draws of an epoch."""
        return _WeightedDraws(self._cumulative, self._last, self._draws, epoch_key(self._seed, epoch))


class _WeightedDraws:
    """The draws of one epoch: where a uniform number falls among the cumulative weights."""

    def __init__(self, cumulative: NDArray[np.float64], last: int, length: int, key: int) -> None:
        self.length = length
        self._cumulative = cumulative
        self._last = last
        self._key = key

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        bits = hash_indexes(self._key, np.arange(start, stop, dtype=np.uint64)) >> np.uint64(11)
        points = bits.astype(np.float64) * 2.0**-53 * self._cumulative[-1]
        positions: NDArray[np.int64] = np.searchsorted(self._cumulative, points, side="right").astype(np.int64)
        # A point just below 1 can round up to the whole sum, past the last position of a weight above 0.
        np.minimum(positions, self._last, out=positions)
        return positions
