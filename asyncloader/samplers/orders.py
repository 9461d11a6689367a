"""Orders: which position comes at which place of an epoch, computed where it is asked."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asyncloader.samplers.permutation import Permutation

__all__ = ["Order", "SequentialOrder", "ShuffledOrder"]


class Order(Protocol):
    """A finite sequence of positions, any part of which can be computed without the part before it.

    `read` changes nothing, so that several threads may call it at once.
    """

    @property
    def length(self) -> int:
        """Number of positions."""

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Give the positions at places `start` to `stop` (half-open, ``0 <= start <= stop <= length``)."""


class SequentialOrder:
    """Positions 0, 1, 2 and so on.

    Parameters
    ----------
    length : int
        Number of positions.
    """

    def __init__(self, length: int) -> None:
        self.length = length

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Give the positions at places `start` to `stop`."""
        return np.arange(start, stop, dtype=np.int64)


class ShuffledOrder:
    """All positions, each once, in a random order.

    Parameters
    ----------
    length : int
        Number of positions.
    key : int
        64 bits that choose the order.
    """

    def __init__(self, length: int, key: int) -> None:
        self.length = length
        self._permutation = Permutation(length, key)

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Give the positions at places `start` to `stop`."""
        return self._permutation.at(np.arange(start, stop, dtype=np.int64))
