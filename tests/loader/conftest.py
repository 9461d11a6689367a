"""Datasets that the loader's tests share."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest


class Squares:
    """Sample ``i`` is an array full of ``i`` and the number ``i * i``; large enough that batches come from the pool."""

    def __init__(self, length: int, shape: tuple[int, ...] = (64, 64)) -> None:
        self.length = length
        self.shape = shape

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: int) -> tuple[Any, int]:
        return np.full(self.shape, position, np.int32), position * position


class Counting(Squares):
    """Counts the samples that were begun, and can be made to wait."""

    def __init__(self, length: int, shape: tuple[int, ...] = (4,)) -> None:
        super().__init__(length, shape)
        self.begun = 0
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()

    def __getitem__(self, position: int) -> tuple[Any, int]:
        with self._lock:
            self.begun += 1
        assert self.gate.wait(20)
        return super().__getitem__(position)


class FailingAt(Squares):
    """Some samples raise."""

    def __init__(self, length: int, bad: set[int]) -> None:
        super().__init__(length, (4,))
        self.bad = bad

    def __getitem__(self, position: int) -> tuple[Any, int]:
        if position in self.bad:
            raise KeyError(f"no {position} here")
        return super().__getitem__(position)


KINDS = {
    "inline": {"num_workers": 0},
    "threads-1": {"num_workers": 1},
    "threads-4": {"num_workers": 4},
    "processes": {"workers": "processes", "num_workers": 2},
    "processes-threads": {"workers": "processes", "num_workers": 1, "threads_per_worker": 2},
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments that choose the workers, for each kind of them."""
    return dict(KINDS[request.param])
