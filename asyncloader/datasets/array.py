"""Samples that are rows of arrays in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncloader.datasets.base import Dataset, LoadContext, as_indexes

__all__ = ["ArrayDataset"]


class ArrayDataset(Dataset):
    """Rows of one or several arrays of the same length.

    Parameters
    ----------
    *arrays : array_like
        Each of shape (samples, ...). Sample ``i`` is ``arrays[0][i]``, or with several the tuple of all their rows.
    """

    def __init__(self, *arrays: Any) -> None:
        if not arrays:
            raise ValueError("ArrayDataset needs at least one array")
        self.arrays: tuple[NDArray[Any], ...] = tuple(np.asarray(array) for array in arrays)
        lengths = [array.shape[0] if array.ndim else None for array in self.arrays]
        if None in lengths or len(set(lengths)) != 1:
            raise ValueError(f"the arrays must have one length, but have the shapes {[a.shape for a in self.arrays]}")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def load_many(self, positions: Sequence[int], context: LoadContext) -> list[Any]:
        """Gather the rows at ``positions``."""
        with context.time_reading():
            # One gather an array copies all rows at once; the samples are views of what it gave.
            columns = [array[as_indexes(positions)] for array in self.arrays]
            return list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))
