"""Batches of samples of similar lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.arguments import check_choice, check_integer
from asyncloader.samplers.mixing import WORD, derive_key, epoch_key
from asyncloader.samplers.permutation import Permutation

__all__ = ["BucketSampler"]


class BucketSampler:
    """A batch sampler that puts samples of similar lengths together, so that little is padded.

    An epoch's random order is cut into pools; each pool is sorted by length (its random order remains among equals) and
    cut into batches, which are given in random order.

    Parameters
    ----------
    lengths : sequence of int or ndarray, shape (dataset length,)
        The length of each sample: tokens, frames, whatever is padded.
    batch_size : int
        Samples in a batch.
    pool_size : int, optional
        Samples that are sorted together, rounded up to whole batches; 100 batches if not given. Larger pools pad less,
        smaller ones mix more.
    last_batch : {"keep", "discard"}
        Whether an incomplete batch is given, or its samples, other ones in each epoch, are left out.
    seed : int
        Chooses the orders, ``0 .. 2**64 - 1``.
    """

    def __init__(
        self,
        lengths: Sequence[float] | NDArray[np.generic],
        batch_size: int,
        *,
        pool_size: int | None = None,
        last_batch: Literal["keep", "discard"] = "keep",
        seed: int = 0,
    ) -> None:
        self._lengths = np.array(lengths)
        if self._lengths.ndim != 1 or self._lengths.dtype.kind not in "iuf":
            raise ValueError("lengths are a sequence of numbers, one for each sample")
        self._batch_size = check_integer("batch_size", batch_size, 1, 1 << 31)
        pool = 100 * self._batch_size if pool_size is None else check_integer("pool_size", pool_size, 1, 1 << 62)
        self._pool_size = -(-pool // self._batch_size) * self._batch_size
        check_choice("last_batch", last_batch, ("keep", "discard"))
        self._used = len(self._lengths)
        if last_batch == "discard":
            self._used -= self._used % self._batch_size
        self._seed = check_integer("seed", seed, 0, WORD)
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is of."""
        self._epoch = epoch

    def __len__(self) -> int:
        return -(-self._used // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        # Not a generator itself: the epoch is the one at the time of the call, not of the first item.
        return self._iterate(epoch_key(self._seed, self._epoch))

    def _iterate(self, key: int) -> Iterator[list[int]]:
        order = Permutation(len(self._lengths), key)
        for start in range(0, self._used, self._pool_size):
            pool = order.at(np.arange(start, min(start + self._pool_size, self._used)))
            pool = pool[np.argsort(self._lengths[pool], kind="stable")]
            batches = -(-len(pool) // self._batch_size)
            mixed = Permutation(batches, derive_key(key, start))
            for number in mixed.at(np.arange(batches)).tolist():
                yield pool[number * self._batch_size : (number + 1) * self._batch_size].tolist()
