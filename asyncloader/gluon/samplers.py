"""The sampler that Gluon has among its contributed parts."""

from __future__ import annotations

from collections.abc import Iterator

from asyncloader.gluon.framework import mxnet

__all__ = ["IntervalSampler"]


class IntervalSampler(mxnet.gluon.data.Sampler):  # type: ignore[misc]
    """Positions a fixed interval apart.

    Parameters
    ----------
    length : int
        Positions are from ``0 .. length - 1``.
    interval : int
        Distance of two that follow each other.
    rollover : bool
        Whether to begin again at the first position that was passed over, until all have come.

    Raises
    ------
    AssertionError
        The interval is longer than the sequence.

    Notes
    -----
    Without ``rollover`` its length is the number of positions it gives. MXNet's says ``length`` there too, and a loader
    that asks it promises batches that never come.
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        if interval > length:
            raise AssertionError(f"the interval ({interval}) must not be longer than the sequence ({length})")
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self) -> Iterator[int]:
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else len(range(0, self._length, self._interval))
