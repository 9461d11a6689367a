"""What samplers give is checked before it is used: positions are integers within the dataset."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["describe", "to_positions"]

_INTEGERS = frozenset({int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64})


def describe(sampler: object) -> str:
    """Name a sampler for an error message by its class."""
    return type(sampler).__qualname__


def to_positions(items: Sequence[object] | NDArray[np.integer], length: int, sampler: object) -> NDArray[np.int64]:
    """Turn what a sampler gave into an array of positions.

    Parameters
    ----------
    items : sequence or ndarray
        Integers: Python's, NumPy's, or anything with ``__index__`` but a bool.
    length : int
        The dataset's length.
    sampler : object
        Who gave them.

    Returns
    -------
    ndarray of int64, shape (len(items),)

    Raises
    ------
    TypeError
        An item is not an integer.
    ValueError
        An item is not in ``0 .. length - 1``.
    """
    if isinstance(items, np.ndarray) and items.ndim == 1 and items.dtype.kind in "iu":
        integers: Sequence[int] | NDArray[np.integer] = items
    elif _INTEGERS.issuperset(map(type, items)):
        integers = items  # type: ignore[assignment]  # the types were just looked at
    else:
        integers = [_integer(item, sampler) for item in items]
    try:
        positions = np.asarray(integers, dtype=np.int64)
        fits = not len(positions) or (int(positions.min()) >= 0 and int(positions.max()) < length)
    except OverflowError:
        fits = False
    if not fits:
        wrong = next(item for item in integers if not 0 <= item < length)
        raise ValueError(
            f"{describe(sampler)} gave position {wrong}, but the dataset has {length} samples, whose positions begin "
            "at 0; make the sampler for this dataset's length"
        )
    return positions


def _integer(item: object, sampler: object) -> int:
    if not isinstance(item, bool | np.bool_):
        try:
            return operator.index(item)  # type: ignore[arg-type]  # whether it can is what is tried
        except TypeError:
            pass
    raise TypeError(
        f"{describe(sampler)} gave {reprlib.repr(item)}, a {type(item).__qualname__}, as a position; "
        "positions are integers from 0 to the dataset's length less one"
    )
