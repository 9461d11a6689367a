"""Which shared blocks there are, how large they are, and who has them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncloader.executors.blocks import SharedBlock
from asyncloader.memory import BlockPool

__all__ = ["BlockLender"]

#: Blocks are larger than what batches needed by this factor, so that ragged batches do not outgrow them each time.
GROWTH = 1.125
#: How many batches back it is remembered what they needed: after one that was large beyond measure, blocks get smaller
#: again.
MEMORY = 32
#: A free block is of use as long as it is not larger than this many times what is needed.
SLACK = 4


class BlockLender:
    """Gives blocks to workers to fill, and lends the filled ones to the consumer.

    Parameters
    ----------
    prefetch : int
        Batches that may be under way.
    on_drop : callable
        Told of each block that is not used any more.

    Notes
    -----
    The number of blocks is bounded: a consumer that keeps more batches than may be under way gets copies of them.
    """

    def __init__(self, prefetch: int, on_drop: Callable[[SharedBlock], None]) -> None:
        self._max_loans = prefetch + 2
        self._pool: BlockPool[SharedBlock] = BlockPool(prefetch + 2, on_drop)
        self._numbers = itertools.count()
        self._needs: deque[int] = deque(maxlen=max(MEMORY, 2 * prefetch))

    def note_need(self, needed: int) -> None:
        """Remember the size of block that a batch would have fitted into."""
        self._needs.append(needed)

    def take(self) -> SharedBlock | None:
        """Give a block of the size that batches need; None before that is known, or where they need none.

        Raises
        ------
        SharedMemoryError
            There is no such memory.
        """
        needed = max(self._needs, default=0)
        if needed == 0:
            return None
        size = _round_up(int(needed * GROWTH))

        def fits(block: SharedBlock) -> bool:
            return needed <= block.size <= SLACK * size

        block = self._pool.reuse(fits)
        if block is None:
            self._pool.discard(lambda block: not fits(block))
            block = SharedBlock(next(self._numbers), size)
        return block

    def give_back(self, block: SharedBlock | None) -> None:
        """Take back a block that nobody looks into."""
        if block is not None:
            self._pool.give(block)

    def lend(self, block: SharedBlock, used: int) -> Any:
        """Give the consumer's view of a filled block, which is free again when the last part of the view is gone."""
        memory = np.frombuffer(block.memory, np.uint8)
        if self._pool.loans() < self._max_loans:
            return self._pool.lend(block, memory)
        copy = bytearray(memory[:used])
        self.give_back(block)
        return copy


def _round_up(size: int) -> int:
    unit = 1 << 16  # Windows maps in units of 64 KiB
    return -(-size // unit) * unit
