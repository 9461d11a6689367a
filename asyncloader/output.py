"""What the arrays of a batch become: numpy's, or a framework's, without a copy where the framework can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from asyncloader.errors import AsyncLoaderError

__all__ = ["Output", "converter", "map_arrays"]

Output: TypeAlias = Literal["numpy", "torch", "jax", "mxnet"]


def converter(output: Output, *, pin_memory: bool = False) -> Callable[[Any], Any]:
    """Give the function that converts a batch of numpy arrays.

    Parameters
    ----------
    output : {"numpy", "torch", "jax", "mxnet"}
        Whose arrays the consumer wants.
    pin_memory : bool
        Copy torch's tensors to page-locked memory, where a CUDA device is there.

    Raises
    ------
    AsyncLoaderError
        The framework is not installed; the message says which extra brings it.
    """
    if pin_memory and output != "torch":
        raise ValueError(f"pin_memory is for output='torch', not {output!r}")
    if output == "numpy":
        return lambda batch: batch
    if output not in _MAKERS:
        raise ValueError(f"output must be 'numpy', 'torch', 'jax' or 'mxnet', not {output!r}")
    try:
        convert = _MAKERS[output](pin_memory)
    except ImportError as error:
        raise AsyncLoaderError(
            f"output={output!r} needs {output}, which is not installed: pip install 'asyncloader[{output}]'"
        ) from error
    return lambda batch: map_arrays(batch, convert)


def map_arrays(batch: Any, convert: Callable[[Any], Any]) -> Any:
    """Apply ``convert`` to each numeric array in a batch of tuples, lists and dicts."""
    if isinstance(batch, np.ndarray):
        return convert(batch) if batch.dtype.kind in "biufc" else batch
    if isinstance(batch, Mapping):
        return {name: map_arrays(part, convert) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        parts = [map_arrays(part, convert) for part in batch]
        if hasattr(batch, "_fields"):
            return type(batch)(*parts)
        return tuple(parts) if isinstance(batch, tuple) else parts
    return batch


def _torch(pin_memory: bool) -> Callable[[Any], Any]:
    import torch

    if pin_memory and torch.cuda.is_available():
        return lambda array: torch.from_numpy(array).pin_memory()
    return torch.from_numpy  # type: ignore[no-any-return]


def _jax(pin_memory: bool) -> Callable[[Any], Any]:
    import jax

    return jax.device_put  # type: ignore[no-any-return]


def _mxnet(pin_memory: bool) -> Callable[[Any], Any]:
    import mxnet

    return lambda array: mxnet.nd.array(array, dtype=array.dtype)


_MAKERS = {"torch": _torch, "jax": _jax, "mxnet": _mxnet}
