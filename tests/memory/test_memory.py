"""Batch memory: used again only when nothing looks into it any more."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from asyncloader.memory import ALIGNMENT, BatchMemory, MemoryPool

SHAPE = (40, 64, 64)


def address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_that_nobody_sees_is_used_again() -> None:
    pool = MemoryPool(keep=2)
    first = pool.empty(SHAPE, np.uint8)
    where = address(first)
    del first
    again = pool.empty(SHAPE, np.uint8)
    assert address(again) == where
    assert address(again) % ALIGNMENT == 0
    assert again.flags.writeable


@pytest.mark.parametrize(
    "keep",
    [
        lambda array: array[3],
        lambda array: array[3:9, ::2].T,
        lambda array: array.reshape(-1)[5:6],
        lambda array: array.view(np.int8),
        lambda array: np.asarray(array)[...],
        lambda array: memoryview(array)[2:4],
        lambda array: np.frombuffer(memoryview(array), np.uint8)[10:20],
        lambda array: list(array)[7],
        lambda array: np.from_dlpack(array),
        lambda array: pickle.PickleBuffer(array[1:2]).raw(),
        lambda array: np.broadcast_to(array[0], (3, *array.shape[1:])),
        lambda array: array.flat,
    ],
)
def test_whatever_looks_into_memory_keeps_it(keep: Callable[[NDArray[Any]], Any]) -> None:
    pool = MemoryPool(keep=8)
    array = pool.empty(SHAPE, np.uint8)
    where = address(array)
    array[...] = 7
    kept = keep(array)
    del array
    gc.collect()
    others = [pool.empty(SHAPE, np.uint8) for _ in range(4)]
    assert where not in {address(other) for other in others}
    for other in others:
        other[...] = 1
    assert (np.asarray(list(kept) if isinstance(kept, np.flatiter) else kept) == 7).all()
    del kept, others, other
    gc.collect()
    held = [pool.empty(SHAPE, np.uint8) for _ in range(5)]
    assert where in {address(array) for array in held}


def test_free_memory_is_bounded() -> None:
    pool = MemoryPool(keep=3)
    arrays = [pool.empty(SHAPE, np.uint8) for _ in range(20)]
    places = {address(array) for array in arrays}
    assert len(places) == 20
    del arrays
    again = [pool.empty(SHAPE, np.uint8) for _ in range(4)]
    assert len({address(array) for array in again}) == 4
    assert len({address(array) for array in again} & places) >= 3  # those that were kept


def test_threads_never_share_what_they_hold() -> None:
    pool = MemoryPool(keep=8)
    wrong: list[int] = []

    def use(mark: int) -> None:
        for _ in range(300):
            array = pool.empty((1 << 17,), np.uint8)
            array[:] = mark
            part = array[100:200]
            del array
            if not (part == mark).all():
                wrong.append(mark)

    threads = [threading.Thread(target=use, args=(mark,)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_rows_are_adopted_only_whole_and_in_order() -> None:
    memory = BatchMemory(3)
    row = memory.allocate_rows((2, 2), np.uint8, 0)
    assert row is memory.rows[0]
    whole = memory.adopt(memory.rows)
    assert whole is not None
    assert whole.shape == (3, 2, 2)
    assert memory.adopt(memory.rows[:2]) is None
    assert memory.adopt(memory.rows[::-1]) is None
    assert memory.adopt([*memory.rows[:2], memory.rows[2].copy()]) is None
    assert memory.allocate_rows((2, 3), np.uint8, 1) is None
    assert BatchMemory(3, use_rows=False).allocate_rows((2, 2), np.uint8, 0) is None
