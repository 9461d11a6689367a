"""Several datasets drawn with weights, as one order."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from math import isfinite
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.arguments import check_choice, check_integer
from asyncloader.samplers.draws import Draws
from asyncloader.samplers.mixing import WORD, derive_key, epoch_key
from asyncloader.samplers.ordered import OrderedSampler
from asyncloader.samplers.orders import Order, SequentialOrder, ShuffledOrder

__all__ = ["MixtureSampler", "WhenExhausted"]

WhenExhausted: TypeAlias = Literal["restart", "stop", "exhaust"]

# What a key derived from an epoch's is for.
_STAGE, _DATASET = 1, 2


class MixtureSampler(OrderedSampler):
    """Positions in the concatenation of several datasets, drawn from each in proportion to its weight.

    In every 1024 draws each dataset has its share to within one, in random order. Within a dataset no sample comes
    again before all the others came. Each epoch begins anew.

    Parameters
    ----------
    lengths : iterable of int
        The datasets' lengths, in the order in which they are concatenated.
    weights : iterable of float, optional
        One for each dataset, 0 or more; they need not add up to 1. The lengths if not given.
    when_exhausted : {"restart", "stop", "exhaust"}
        What happens when a dataset has no sample left. "restart": it begins again, in a new order, until `num_samples`
        were drawn. "stop": the epoch ends with the last sample of the first dataset to run out. "exhaust": the others
        go on, with their weights, and the epoch ends with the last sample of all. Datasets of weight 0 do not count.
    num_samples : int, optional
        Draws in an epoch, for "restart"; all lengths together if not given.
    shuffle : bool
        Whether a dataset's own samples come in random order, another for each epoch, or in rising order.
    seed : int
        Chooses the draws and orders, ``0 .. 2**64 - 1``.

    Raises
    ------
    ValueError
        A weight is negative or not finite, or an argument does not fit the others.

    Notes
    -----
    The order keeps 8 bytes for each dataset and 1024 draws, so that a pass can begin anywhere in it.
    """

    def __init__(
        self,
        lengths: Iterable[int],
        weights: Iterable[float] | None = None,
        *,
        when_exhausted: WhenExhausted = "restart",
        num_samples: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_choice("when_exhausted", when_exhausted, ("restart", "stop", "exhaust"))
        self._lengths = [check_integer("a dataset's length", length, 0, 1 << 62) for length in lengths]
        self._weights = [float(weight) for weight in (self._lengths if weights is None else weights)]
        self._when_exhausted: WhenExhausted = when_exhausted
        self._shuffle = shuffle
        self._seed = check_integer("seed", seed, 0, WORD)
        if len(self._weights) != len(self._lengths):
            raise ValueError(
                f"there are {len(self._weights)} weights for {len(self._lengths)} datasets; give one for each"
            )
        for number, weight in enumerate(self._weights):
            if not (isfinite(weight) and weight >= 0):
                raise ValueError(f"the weight of dataset {number} is {weight}; weights are finite and 0 or more")
        if not isfinite(sum(self._weights)):
            raise ValueError("the weights add up to infinity; make them smaller")
        if when_exhausted != "restart" and num_samples is not None:
            raise ValueError(
                f'num_samples is for when_exhausted="restart", not {when_exhausted!r}, which ends by itself'
            )
        total = sum(self._lengths)
        self._draws = check_integer("num_samples", total if num_samples is None else num_samples, 0, 1 << 62)
        if when_exhausted == "restart" and self._draws:
            self._check_drawable()

    def order(self, epoch: int) -> Order:
        """Give the order of an epoch."""
        key = epoch_key(self._seed, epoch)
        if self._when_exhausted == "restart":
            stages = [Draws(self._weights, derive_key(key, _STAGE, 0), length=self._draws)] if self._draws else []
        else:
            stages = list(self._stages(key))
        return _MixtureOrder(self._lengths, stages, key, self._shuffle)

    def _stages(self, key: int) -> Iterable[Draws]:
        """Draw until a dataset runs out, then go on with the rest."""
        left = np.array(self._lengths, np.int64)
        weights = list(self._weights)
        for number in range(len(weights)):
            ran_out = [not (left[dataset] or not weight) for dataset, weight in enumerate(weights)]
            if self._when_exhausted == "stop" and any(ran_out):
                return
            weights = [0.0 if out else weight for out, weight in zip(ran_out, weights, strict=True)]
            if not any(weights):
                return
            stage = Draws(weights, derive_key(key, _STAGE, number), left=left)
            left = left - stage.counts
            yield stage

    def _check_drawable(self) -> None:
        if not any(self._weights):
            raise ValueError("all weights are 0; nothing can be drawn")
        for number, (length, weight) in enumerate(zip(self._lengths, self._weights, strict=True)):
            if weight and not length:
                raise ValueError(f"dataset {number} has no samples to draw; leave it out or give it the weight 0")


class _MixtureOrder:
    """What is drawn in one epoch."""

    def __init__(self, lengths: list[int], stages: list[Draws], key: int, shuffle: bool) -> None:
        self.length = sum(stage.length for stage in stages)
        self._lengths = lengths
        self._offsets = [0, *accumulate(lengths)]
        self._key = key
        self._stages: list[tuple[int, NDArray[np.int64], Draws]] = []
        start, drawn = 0, np.zeros(len(lengths), np.int64)
        for stage in stages:
            self._stages.append((start, drawn, stage))
            start += stage.length
            drawn = drawn + stage.counts
        self._shuffle = shuffle
        self._round = lru_cache(maxsize=4 * len(lengths))(self._make_round)

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        positions = np.empty(stop - start, np.int64)
        for first, drawn, stage in self._stages:
            begin, end = max(start, first), min(stop, first + stage.length)
            if begin < end:
                datasets, turns = stage.read(begin - first, end - first)
                self._look_up(datasets, turns + drawn[datasets], positions[begin - start : end - start])
        return positions

    def _look_up(self, datasets: NDArray[np.int64], turns: NDArray[np.int64], out: NDArray[np.int64]) -> None:
        """Turn "the n-th draw from this dataset" into a position."""
        for dataset in np.unique(datasets).tolist():
            places = np.flatnonzero(datasets == dataset)
            rounds, within = np.divmod(turns[places], self._lengths[dataset])
            # A dataset's turns rise, so that those of one round are neighbours, and make one range.
            cuts = np.flatnonzero(np.diff(rounds)) + 1
            for some, some_within, number in zip(
                np.split(places, cuts), np.split(within, cuts), rounds[np.r_[0, cuts]].tolist(), strict=True
            ):
                order = self._round(dataset, number)
                out[some] = order.read(int(some_within[0]), int(some_within[-1]) + 1) + self._offsets[dataset]

    def _make_round(self, dataset: int, number: int) -> Order:
        length = self._lengths[dataset]
        if self._shuffle:
            return ShuffledOrder(length, derive_key(self._key, _DATASET, dataset, number))
        return SequentialOrder(length)
