"""Samples to a batch: ``stack``, ``pad`` and ``group``.

A collate function takes the list of a batch's samples and gives the batch. Those here keep the samples' structure:
tuples, named tuples, lists and dicts are taken apart, and each place in them becomes one column of the batch.
"""

from __future__ import annotations

import functools
import numbers
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncloader.memory import BatchMemory

__all__ = ["Columns", "group", "pad", "stack", "takes_memory"]

Column: TypeAlias = Callable[[Any], Any]


class Columns(Sequence[tuple[Any, ...]]):
    """Samples that are tuples, kept as one sequence for each place in them.

    Parameters
    ----------
    parts : tuple of sequences
        As many as a sample has places, each as long as there are samples.
    """

    def __init__(self, parts: tuple[Sequence[Any] | NDArray[Any], ...]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Columns(tuple(part[index] for part in self.parts))
        return tuple(part[index] for part in self.parts)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.parts, strict=True)


def stack(samples: Sequence[Any], memory: BatchMemory | None = None) -> Any:
    """Stack equal shapes into one array; leave columns whose shapes differ as lists.

    Parameters
    ----------
    samples : sequence
        The batch's samples, all of the same structure.
    memory : BatchMemory, optional
        Where the loader wants the arrays; given by the loader.

    Returns
    -------
    object
        The structure of one sample. Arrays of shape ``s`` become one of shape ``(len(samples), *s)`` and the samples'
        dtype; numbers become a vector (``int64``, ``float64``, ``bool``, or the numpy scalars' own dtype); strings,
        bytes and everything else a list.
    """
    memory = memory or BatchMemory(len(samples))
    return _columns(samples, lambda column: _stacked(column, memory))


def pad(samples: Sequence[Any], memory: BatchMemory | None = None, *, value: float = 0) -> Any:
    """Stack, after arrays whose shapes differ are padded at their ends to the largest extent of each axis.

    Parameters
    ----------
    samples : sequence
        The batch's samples, all of the same structure.
    memory : BatchMemory, optional
        Where the loader wants the arrays; given by the loader.
    value : float
        What fills the padding; ``functools.partial(pad, value=-1)`` is a collate function with another one.

    Returns
    -------
    object
        As :func:`stack` gives, with no ragged column but of arrays of different numbers of dimensions.
    """
    memory = memory or BatchMemory(len(samples))

    def padded(column: Any) -> Any:
        result = _stacked(column, memory)
        if not isinstance(result, list) or not all(isinstance(item, np.ndarray) for item in result):
            return result
        if len({item.ndim for item in result}) != 1:
            return result
        extent = tuple(max(sizes) for sizes in zip(*(item.shape for item in result), strict=True))
        out = memory.empty((len(result), *extent), np.result_type(*result))
        out[...] = value
        for row, item in zip(out, result, strict=True):
            row[tuple(map(slice, item.shape))] = item
        return out

    return _columns(samples, padded)


def group(samples: Sequence[Any]) -> Any:
    """Leave every column a list, whatever is in it."""
    return _columns(samples, list)


def takes_memory(collate_fn: Callable[..., Any]) -> bool:
    """Whether a collate function can be told where its arrays go: one of ours, or one that says so of itself."""
    while isinstance(collate_fn, functools.partial):
        collate_fn = collate_fn.func
    return collate_fn in (stack, pad) or getattr(collate_fn, "takes_memory", False) is True


def _columns(samples: Sequence[Any], column: Column) -> Any:
    """Apply ``column`` at each place of the samples' structure."""
    if isinstance(samples, Columns):
        return tuple(map(column, samples.parts))
    first = samples[0]
    if isinstance(first, tuple | list):
        if set(map(type, samples)) != {type(first)} or set(map(len, samples)) != {len(first)}:
            return column(samples)  # lists of different lengths are values (boxes, tokens), not structure
        parts = [_columns(part, column) for part in zip(*samples, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        return tuple(parts) if isinstance(first, tuple) else parts
    if isinstance(first, Mapping):
        return {name: _columns([sample[name] for sample in samples], column) for name in first}
    return column(samples)


def _stacked(column: Any, memory: BatchMemory) -> Any:
    if isinstance(column, np.ndarray):
        return column
    first = column[0]
    if isinstance(first, np.ndarray):
        return _stacked_arrays(column, memory)
    if isinstance(first, bool | np.bool_) and all(isinstance(item, bool | np.bool_) for item in column):
        return np.array(column, dtype=np.bool_)
    if isinstance(first, np.generic) and not isinstance(first, np.character | np.void):
        return np.array(column)
    if isinstance(first, numbers.Number) and all(isinstance(item, numbers.Number) for item in column):
        return _vector(column)
    return list(column)


def _stacked_arrays(column: Sequence[Any], memory: BatchMemory) -> NDArray[Any] | list[Any]:
    adopted = memory.adopt(column)
    if adopted is not None:
        return adopted
    first = column[0]
    shape, dtype = first.shape, first.dtype
    for item in column:
        if not isinstance(item, np.ndarray) or item.shape != shape:
            memory.use_rows = False
            return list(column)
        if item.dtype != dtype:
            dtype = np.result_type(dtype, item.dtype)
    out = memory.empty((len(column), *shape), dtype)
    for slot, item in enumerate(column):
        out[slot] = item
    return out


def _vector(column: Sequence[Any]) -> NDArray[Any] | list[Any]:
    # Python's own numbers: int64 on every platform (numpy 1 would take 32 bits on Windows), beyond it a list.
    if all(isinstance(item, int) for item in column):
        fits = all(-(2**63) <= operator.index(item) < 2**63 for item in column)
        return np.array(column, dtype=np.int64) if fits else list(column)
    return np.array(column)
