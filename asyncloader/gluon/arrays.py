"""NDArrays and numpy's arrays, each made of the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncloader.gluon.framework import mxnet

__all__ = ["SentArray", "as_ndarray", "in_context", "map_ndarrays", "receive", "send"]


def as_ndarray(array: NDArray[Any]) -> Any:
    """Copy a numpy array to an NDArray of its dtype, of the kind that MXNet makes in this thread."""
    make = mxnet.np.array if mxnet.util.is_np_array() else mxnet.nd.array
    return make(array, dtype=array.dtype)


def map_ndarrays(value: Any, change: Callable[[Any], Any], kind: type | tuple[type, ...]) -> Any:
    """Apply ``change`` to what is of ``kind`` in tuples, lists and dicts."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, Mapping):
        return {name: map_ndarrays(part, change, kind) for name, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [map_ndarrays(part, change, kind) for part in value]
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return tuple(parts) if isinstance(value, tuple) else parts
    return value


def in_context(value: Any, context: Any) -> Any:
    """Copy the NDArrays of a batch to a context; tuples become lists, as MXNet's loader makes them."""
    if isinstance(value, mxnet.nd.NDArray):
        return value.as_in_context(context)
    if isinstance(value, tuple | list):
        return [in_context(part, context) for part in value]
    return value


@dataclass(frozen=True, slots=True)
class SentArray:
    """An NDArray on its way between processes, as numpy's array, which shared memory can hold.

    Attributes
    ----------
    array : ndarray
        The values.
    numpy_kind : bool
        Whether it was an ``mxnet.np.ndarray``.
    """

    array: NDArray[Any]
    numpy_kind: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return self.array.nbytes

    def ndarray(self) -> Any:
        """Give the NDArray, a copy."""
        make = mxnet.np.array if self.numpy_kind else mxnet.nd.array
        return make(self.array, dtype=self.array.dtype)


def send(value: Any) -> Any:
    """Replace the dense NDArrays in a value; sparse ones are left to be pickled by MXNet."""
    return map_ndarrays(value, _sent, mxnet.nd.NDArray)


def receive(value: Any) -> Any:
    """Give the NDArrays back."""
    return map_ndarrays(value, SentArray.ndarray, SentArray)


def _sent(array: Any) -> Any:
    if array.stype != "default":
        return array
    return SentArray(np.ascontiguousarray(array.asnumpy()), isinstance(array, mxnet.np.ndarray))
