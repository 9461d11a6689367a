"""Memory for batches: taken from a pool, used again when the last array that looks into it is gone.

A batch of images is megabytes. Fresh memory of that size costs a page fault for every 4 KiB, which is a tenth of the
time it takes to decode small JPEGs into it; memory that was used before costs nothing. What makes reuse safe is that a
block goes back to the pool only when nothing can see it any more: every array handed out has a :class:`_Lease` at the
end of its chain of bases, and the lease's death is what returns the block.
"""

from __future__ import annotations

import math
import operator
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["ALIGNMENT", "BatchMemory", "BlockPool", "Empty", "MemoryPool"]

#: Below this many bytes the allocator's own free lists are faster than the pool.
SMALL = 1 << 16

#: Where a batch's arrays start inside a block: a cache line, and what vector units and XLA ask for.
ALIGNMENT = 64


Block = TypeVar("Block")


class Empty(Protocol):
    """What allocates: the signature of :func:`numpy.empty`."""

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Allocate an array."""


class _Block(np.ndarray):
    """A whole block. numpy gives a view its base's base instead, if that is of the view's own type; this one is not."""


class _Lease(np.ndarray):
    """The right to use a block; at the end of the chain of bases of each array that looks into it."""


class BlockPool(Generic[Block]):
    """Blocks on loan, and the free ones kept for the next loan.

    Parameters
    ----------
    keep : int
        How many free blocks are kept; more are dropped, those used longest ago first.
    on_drop : callable, optional
        Told of each block that is dropped, in the thread that asks for another.
    """

    def __init__(self, keep: int, on_drop: Callable[[Block], None] | None = None) -> None:
        self.keep = keep
        self._on_drop = on_drop
        self._lock = threading.Lock()
        self._free: list[Block] = []
        self._loans: dict[int, weakref.ref[_Lease]] = {}
        # Filled by weakref callbacks, which run in any thread and at any allocation, also one made under the lock.
        self._returned: deque[tuple[int, Block]] = deque()

    def lend(self, block: Block, memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Give an array over ``memory``; when the last view of it is gone, ``block`` is free again."""
        lease = memory.view(_Block).view(_Lease)
        returned = self._returned

        def ended(reference: weakref.ref[_Lease]) -> None:
            returned.append((id(reference), block))

        reference = weakref.ref(lease, ended)
        with self._lock:
            self._loans[id(reference)] = reference
        return np.ndarray(lease.shape, np.uint8, buffer=lease)

    def reuse(self, fits: Callable[[Block], bool]) -> Block | None:
        """Take out the free block used last that fits, since the caches still know it."""
        with self._lock:
            self._collect()
            for index in range(len(self._free) - 1, -1, -1):
                if fits(self._free[index]):
                    return self._free.pop(index)
        return None

    def give(self, block: Block) -> None:
        """Take a block that was not lent, or is known to be seen by nobody, for the next loan."""
        with self._lock:
            self._free.append(block)
            self._collect()

    def discard(self, useless: Callable[[Block], bool]) -> None:
        """Drop the free blocks that are of no use any more."""
        with self._lock:
            self._collect()
            self._drop([block for block in self._free if useless(block)])

    def loans(self) -> int:
        """How many blocks are out."""
        with self._lock:
            self._collect()
            return len(self._loans)

    def _collect(self) -> None:
        while self._returned:
            loan, block = self._returned.popleft()
            del self._loans[loan]
            self._free.append(block)
        if len(self._free) > self.keep:
            self._drop(self._free[: len(self._free) - self.keep])

    def _drop(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._free.remove(block)
            if self._on_drop is not None:
                self._on_drop(block)


class _Memory:
    """A block of ordinary memory; compared by identity, which arrays are not."""

    def __init__(self, size: int) -> None:
        array = np.empty(size + ALIGNMENT, np.uint8)
        start = -array.ctypes.data % ALIGNMENT
        self.array = array[start : start + size]


class MemoryPool:
    """Batch memory of this process, for workers that are threads.

    Parameters
    ----------
    keep : int
        How many free blocks are kept for the next batches.
    """

    def __init__(self, keep: int) -> None:
        self._pool: BlockPool[_Memory] = BlockPool(keep)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Allocate an array like :func:`numpy.empty`, in memory that was used before where there is some."""
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        if size < SMALL or dtype.hasobject:
            return np.empty(shape, dtype)
        block = self._pool.reuse(lambda block: size <= block.array.size <= 2 * size)
        if block is None:
            block = _Memory(size)
        memory = self._pool.lend(block, block.array[:size])
        return np.ndarray(shape, dtype, buffer=memory)


class BatchMemory:
    """Where the arrays of one batch go.

    Samples of one shape are decoded straight into their row of the batch, one of ``rows``, and the collate
    function, finding with :meth:`adopt` that a column is those rows, has nothing to copy.

    Parameters
    ----------
    count : int
        Samples in the batch.
    empty : Empty
        What allocates.
    use_rows : bool
        False where the batches before were ragged, so that rows would be allocated in vain.
    """

    def __init__(self, count: int, empty: Empty = np.empty, *, use_rows: bool = True) -> None:
        self.count = count
        self.empty = empty
        self.use_rows = use_rows
        self._lock = threading.Lock()
        self._array: NDArray[Any] | None = None
        #: The rows by slot; none before a shape is known.
        self.rows: list[NDArray[Any]] = []

    def allocate_rows(self, shape: tuple[int, ...], dtype: DTypeLike, slot: int) -> NDArray[Any] | None:
        """Make the rows, of the first sample's shape, and give the one for ``slot``; None where rows are of no use."""
        if not self.use_rows:
            return None
        with self._lock:  # slices of one batch run in several threads
            if self._array is None:
                self._array = self.empty((self.count, *shape), dtype)
                self.rows.extend(self._array)
        row = self.rows[slot]
        return row if row.shape == shape and row.dtype == dtype else None

    def adopt(self, column: Sequence[object]) -> NDArray[Any] | None:
        """Give the whole array if ``column`` is its rows, all of them and in order."""
        rows = self.rows
        if len(rows) != len(column) or not all(map(operator.is_, rows, column)):
            return None
        return self._array
