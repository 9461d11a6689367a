"""The base of samplers whose order is computed, so that a pass can begin anywhere in it at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from asyncloader.samplers.orders import Order

__all__ = ["OrderedSampler"]

_CHUNK = 4096


class OrderedSampler(ABC):
    """An iterable of positions with a length and an epoch.

    A loader asks it for the `order` of an epoch; PyTorch's and other loaders iterate it after ``set_epoch``.
    """

    def __init__(self) -> None:
        self._epoch = 0

    @abstractmethod
    def order(self, epoch: int) -> Order:
        """Give the order of an epoch."""

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is of."""
        self._epoch = epoch

    def __len__(self) -> int:
        return self.order(self._epoch).length

    def __iter__(self) -> Iterator[int]:
        # Not a generator itself: the epoch is the one at the time of the call, not of the first item.
        return _iterate(self.order(self._epoch))


def _iterate(order: Order) -> Iterator[int]:
    for start in range(0, order.length, _CHUNK):
        yield from order.read(start, min(start + _CHUNK, order.length)).tolist()
