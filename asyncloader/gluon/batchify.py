"""Batchify functions: lists of samples to batches, as MXNet 2 and GluonCV have them.

Each takes ``use_shared_mem``, which says nothing here: what processes make always comes back in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from asyncloader.gluon.arrays import as_ndarray
from asyncloader.gluon.framework import mxnet

__all__ = ["Append", "AsList", "Group", "Pad", "Stack"]


class Stack:
    """Stacks samples of one shape; tuples and lists are taken apart, and each place becomes a batch of its own."""

    def __init__(self, use_shared_mem: bool = False) -> None:
        pass

    def __call__(self, data: Sequence[Any]) -> Any:
        """Give the NDArray, or the list of them."""
        first = data[0]
        if isinstance(first, mxnet.nd.NDArray):
            return mxnet.np.stack(data) if isinstance(first, mxnet.np.ndarray) else mxnet.nd.stack(*data)
        if isinstance(first, tuple | list):
            return [self(column) for column in zip(*data, strict=True)]
        return as_ndarray(np.asarray(data))


class Pad:
    """Pads samples at their ends to the largest extent of each axis, and stacks them.

    Parameters
    ----------
    val : float, optional
        What fills the padding; 0 if nothing is said.
    dtype : dtype, optional
        Of the batch; the first sample's if nothing is said.
    round_to : int, optional
        Extents are rounded up to a multiple of this.
    """

    def __init__(
        self,
        val: float | None = None,
        dtype: DTypeLike | None = None,
        round_to: int | None = None,
        use_shared_mem: bool = False,
    ) -> None:
        self._val = 0 if val is None else val
        self._dtype = dtype
        self._round_to = round_to

    def __call__(self, data: Sequence[Any]) -> Any:
        """Give the NDArray of shape (samples, ...).

        Raises
        ------
        NotImplementedError
            The samples are tuples, or no arrays: :class:`Group` takes tuples apart.
        """
        if not isinstance(data[0], mxnet.nd.NDArray | np.ndarray | list):
            raise NotImplementedError(
                f"Pad takes arrays or lists of numbers, not {type(data[0]).__name__}; for tuples use Group(Pad(), ...)"
            )
        arrays = [item.asnumpy() if isinstance(item, mxnet.nd.NDArray) else np.asarray(item) for item in data]
        shape = [self._rounded(max(sizes)) for sizes in zip(*(array.shape for array in arrays), strict=True)]
        batch: NDArray[Any] = np.full((len(arrays), *shape), self._val, self._dtype or arrays[0].dtype)
        for row, array in zip(batch, arrays, strict=True):
            row[tuple(map(slice, array.shape))] = array
        return as_ndarray(batch)

    def _rounded(self, size: int) -> int:
        return size if self._round_to is None else -(-size // self._round_to) * self._round_to


class Append:
    """Leaves samples apart: a list of NDArrays, whose shapes may differ.

    Parameters
    ----------
    expand : bool
        Whether each gets an axis for the batch, of length 1.
    batch_axis : int
        Where.
    """

    def __init__(self, expand: bool = True, batch_axis: int = 0, use_shared_mem: bool = False) -> None:
        self._expand = expand
        self._batch_axis = batch_axis

    def __call__(self, data: Sequence[Any]) -> list[Any]:
        """Give the list of NDArrays."""
        arrays = [item if isinstance(item, mxnet.nd.NDArray) else _floats(item) for item in data]
        return [array.expand_dims(axis=self._batch_axis) for array in arrays] if self._expand else arrays


class Group:
    """Applies one batchify function to each place of samples that are tuples or lists.

    Parameters
    ----------
    fn : callable, or list or tuple of callables
        For the first place, or for all.
    *args : callable
        For the other places.
    """

    def __init__(self, fn: Callable[..., Any] | Sequence[Callable[..., Any]], *args: Callable[..., Any]) -> None:
        if isinstance(fn, tuple | list):
            if args:
                raise AssertionError("give Group one list of functions, or the functions one by one, not both")
            functions = tuple(fn)
        else:
            functions = (fn, *args)
        for function in functions:
            if not callable(function):
                raise AssertionError(f"batchify functions must be callable, not {type(function).__name__}")
        self._functions: tuple[Any, ...] = functions

    def __call__(self, data: Sequence[Any]) -> tuple[Any, ...]:
        """Give the tuple of what the functions give.

        Raises
        ------
        AssertionError
            A sample has another number of places than there are functions.
        """
        if len(data[0]) != len(self._functions):
            raise AssertionError(
                f"a sample has {len(data[0])} places, but Group has {len(self._functions)} batchify functions"
            )
        columns = zip(*data, strict=True)
        return tuple(function(list(column)) for function, column in zip(self._functions, columns, strict=True))


class AsList:
    """Leaves the samples as they are; for texts."""

    def __call__(self, data: Sequence[Any]) -> list[Any]:
        """Give the samples as a list."""
        return list(data)


def _floats(item: Any) -> Any:
    # MXNet's array() makes float32 of Python's numbers, and of numpy's arrays too.
    return mxnet.np.array(item) if mxnet.util.is_np_array() else mxnet.nd.array(item)
