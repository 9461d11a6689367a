"""A shuffle that keeps the reads of a short while near each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.mixing import derive_key
from asyncloader.samplers.permutation import Permutation

__all__ = ["BlockOrder"]

# What a key derived from an order's own is for.
_BLOCKS, _SHORT, _BUFFER = 1, 2, 3


class BlockOrder:
    """Blocks of neighbouring positions in random order, a buffer's worth of them at a time mixed thoroughly.

    The blocks are put in random order, ``max(1, buffer_size // block_size)`` of them fill the buffer, the buffer's
    positions are given in random order until it is empty, and then the next blocks fill it. So during a buffer no more
    than that number of places of a file are read. A place of the order is computed by itself; neither blocks nor
    buffers are stored.

    Parameters
    ----------
    length : int
        Number of positions.
    key : int
        64 bits that choose the order.
    block_size : int
        Neighbouring positions in a block; the positions of the last block can be fewer.
    buffer_size : int
        Positions that are mixed with each other.
    """

    def __init__(self, length: int, key: int, *, block_size: int, buffer_size: int) -> None:
        self.length = length
        self._key = key
        self._size = block_size
        self._blocks_in_buffer = max(1, buffer_size // block_size)
        full, rest = divmod(length, block_size)
        self._blocks = full + (rest > 0)
        self._full = Permutation(full, derive_key(key, _BLOCKS))
        self._short = full  # the number of the block that can be short, and the place it has in the order of blocks
        self._short_slot = derive_key(key, _SHORT) % self._blocks if rest else self._blocks
        self._lacking = block_size - rest if rest else 0

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Give the positions at places `start` to `stop`."""
        parts: list[NDArray[np.int64]] = []
        while start < stop:
            buffer = self._buffer_of(start)
            first, end = self._start_of(buffer), self._start_of(buffer + 1)
            upto = min(stop, end)
            parts.append(self._read_buffer(buffer, end - first, start - first, upto - first))
            start = upto
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _start_of(self, buffer: int) -> int:
        slot = buffer * self._blocks_in_buffer
        if slot >= self._blocks:
            return self.length
        return slot * self._size - (self._lacking if slot > self._short_slot else 0)

    def _buffer_of(self, place: int) -> int:
        per_buffer = self._blocks_in_buffer * self._size
        after_short = self._short_slot // self._blocks_in_buffer + 1
        return (place + (self._lacking if place >= self._start_of(after_short) else 0)) // per_buffer

    def _read_buffer(self, buffer: int, length: int, start: int, stop: int) -> NDArray[np.int64]:
        mixed = Permutation(length, derive_key(self._key, _BUFFER, buffer))
        places = mixed.at(np.arange(start, stop, dtype=np.int64))
        first_slot = buffer * self._blocks_in_buffer
        # As if the short block were full: what comes after it in the buffer moves on by what it lacks.
        short_end = (self._short_slot - first_slot + 1) * self._size - self._lacking
        if first_slot <= self._short_slot:
            places += self._lacking * (places >= short_end)
        slots, within = np.divmod(places, self._size)
        slots += first_slot
        return self._block_at(slots) * self._size + within

    def _block_at(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        blocks = np.full(len(slots), self._short, np.int64)
        is_full = slots != self._short_slot
        full_slots = slots[is_full]
        blocks[is_full] = self._full.at(full_slots - (full_slots > self._short_slot))
        return blocks
