"""Which of several datasets each draw is from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.mixing import derive_key, hash_indexes
from asyncloader.samplers.permutation import Permutation

__all__ = ["Draws"]

_BLOCK = 1024
_ONE = 1 << 32  # fixed point: a draw is this much of a block's scale

# What a key derived from the draws' own is for.
_OFFSETS, _ARRANGE = 1, 2


class Draws:
    """A sequence of datasets, drawn so that every 1024 draws hold each dataset's share to within one.

    Parameters
    ----------
    weights : sequence of float
        One for each dataset; they do not add up to 0.
    key : int
        64 bits that choose the draws.
    length : int, optional
        Number of draws.
    left : ndarray of int64, optional
        In place of `length`: the samples that each dataset has left. The draws end with the last sample of the first
        dataset to run out.

    Attributes
    ----------
    length : int
        Number of draws.
    counts : ndarray of int64
        Draws from each dataset.

    Notes
    -----
    Within a block of 1024 draws the datasets are chosen by systematic sampling (W. G. Madow, L. H. Madow, "On the
    theory of systematic sampling", 1944): the weights divide a scale, and evenly spaced points with a random offset
    fall on it. Their datasets are then put in random order. But for the division of the scale all is integers, and that
    is single IEEE operations, so that the draws are the same on any platform.
    """

    def __init__(
        self, weights: Sequence[float], key: int, *, length: int = 0, left: NDArray[np.int64] | None = None
    ) -> None:
        self._key = key
        sums = list(accumulate(weights))
        self._bounds = np.array([round(part / sums[-1] * (_BLOCK * _ONE)) for part in sums], np.int64)
        if left is None:
            self.length = length
            self._before = self._count(length // _BLOCK)
        else:
            self._before = self._count_until_out(left)
            self.length = self._end(left)
            self._before = self._before[: self.length // _BLOCK + 1].copy()
        last = self._arranged(self.length // _BLOCK)[: self.length % _BLOCK]
        self.counts: NDArray[np.int64] = self._before[-1] + np.bincount(last, minlength=len(weights))

    def read(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give the datasets of draws `start` to `stop`, and of each how many draws from that dataset came before it."""
        datasets = np.empty(stop - start, np.int64)
        turns = np.empty(stop - start, np.int64)
        for block in range(start // _BLOCK, -(-stop // _BLOCK)):
            first = block * _BLOCK
            within = slice(max(start - first, 0), min(stop - first, _BLOCK))
            out = slice(first + within.start - start, first + within.stop - start)
            arranged = self._arranged(block)
            datasets[out] = arranged[within]
            turns[out] = self._turns(block, arranged)[within]
        return datasets, turns

    def _count(self, blocks: int) -> NDArray[np.int64]:
        """Count the draws from each dataset before block b, in row b of ``blocks + 1``."""
        sums = np.zeros((blocks + 1, len(self._bounds)), np.int64)
        np.cumsum(self._in_blocks(0, blocks), axis=0, out=sums[1:])
        return sums

    def _in_blocks(self, start: int, stop: int) -> NDArray[np.int64]:
        """Count the draws from each dataset in some blocks."""
        bits = hash_indexes(derive_key(self._key, _OFFSETS), np.arange(start, stop, dtype=np.uint64))
        offsets = (bits >> np.uint64(32)).view(np.int64)
        points_below = (self._bounds - offsets[:, np.newaxis] + (_ONE - 1)) >> 32
        return np.diff(points_below, axis=1, prepend=0)

    def _arranged(self, block: int) -> NDArray[np.int64]:
        """Give the datasets of a block's draws, in random order."""
        [counts] = self._in_blocks(block, block + 1)
        datasets = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        return datasets[Permutation(_BLOCK, derive_key(self._key, _ARRANGE, block)).at(np.arange(_BLOCK))]

    def _turns(self, block: int, arranged: NDArray[np.int64]) -> NDArray[np.int64]:
        turns = np.empty(_BLOCK, np.int64)
        for dataset, before in enumerate(self._before[block].tolist()):
            places = np.flatnonzero(arranged == dataset)
            turns[places] = np.arange(before, before + len(places))
        return turns

    def _count_until_out(self, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count over as many blocks as it takes until a dataset runs out."""
        shares = np.diff(self._bounds, prepend=0)
        likely = min(int(some) * _ONE // int(share) for some, share in zip(left, shares, strict=True) if share)
        blocks = likely + 2
        while not self._is_out(before := self._count(blocks), left)[-1]:
            blocks *= 2
        return before

    def _is_out(self, before: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.bool_]:
        can_be_drawn = np.diff(self._bounds, prepend=0) > 0
        out: NDArray[np.bool_] = np.any((before >= left) & can_be_drawn, axis=1)
        return out

    def _end(self, left: NDArray[np.int64]) -> int:
        """Find the draw after which the first dataset has nothing left."""
        block = int(np.argmax(self._is_out(self._before, left))) - 1
        arranged = self._arranged(block)
        ends = []
        for dataset, needed in enumerate((left - self._before[block]).tolist()):
            places = np.flatnonzero(arranged == dataset)
            if 0 < needed <= len(places):
                ends.append(int(places[needed - 1]) + 1)
        return block * _BLOCK + min(ends)
