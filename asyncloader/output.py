"""What the arrays of a batch become: numpy's, or a framework's, without a copy where the framework can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from asyncloader.errors import AsyncLoaderError

if TYPE_CHECKING:
    from jax.sharding import Sharding

__all__ = ["Converter", "Output", "converter", "map_arrays"]

Output: TypeAlias = Literal["numpy", "torch", "jax", "mxnet"]


@dataclass(frozen=True, slots=True)
class Converter:
    """Makes of a batch of numpy arrays what the consumer wants.

    Attributes
    ----------
    convert : callable
        From batch to batch.
    ahead : bool
        Whether it begins a transfer, so that the consumer's next batch is to be converted while it has the one before.
    """

    convert: Callable[[Any], Any]
    ahead: bool = False

    def __call__(self, batch: Any) -> Any:
        """Convert a batch."""
        return self.convert(batch)


def converter(output: Output, *, pin_memory: bool = False, sharding: Sharding | None = None) -> Converter:
    """Give the function that converts a batch of numpy arrays.

    Parameters
    ----------
    output : {"numpy", "torch", "jax", "mxnet"}
        Whose arrays the consumer wants.
    pin_memory : bool
        Copy torch's tensors to page-locked memory, where a CUDA device is there.
    sharding : jax.sharding.Sharding, optional
        How JAX's arrays are spread over devices.

    Raises
    ------
    AsyncLoaderError
        The framework is not installed; the message says which extra brings it.
    """
    if pin_memory and output != "torch":
        raise ValueError(f"pin_memory is for output='torch', not {output!r}")
    if sharding is not None and output != "jax":
        raise ValueError(f"sharding is for output='jax', not {output!r}")
    if output == "numpy":
        return Converter(lambda batch: batch)
    if output not in _MAKERS:
        raise ValueError(f"output must be 'numpy', 'torch', 'jax' or 'mxnet', not {output!r}")
    try:
        convert = _MAKERS[output](pin_memory, sharding)
    except ImportError as error:
        raise AsyncLoaderError(
            f"output={output!r} needs {output}, which is not installed: pip install 'asyncloader[{output}]'"
        ) from error
    return Converter(lambda batch: map_arrays(batch, convert), ahead=output == "jax")


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


def _torch(pin_memory: bool, sharding: Sharding | None) -> Callable[[Any], Any]:
    import torch

    if pin_memory and torch.cuda.is_available():
        return lambda array: torch.from_numpy(array).pin_memory()
    return torch.from_numpy  # type: ignore[no-any-return]


def _jax(pin_memory: bool, sharding: Sharding | None) -> Callable[[Any], Any]:
    from asyncloader.jax import placer

    return placer(sharding)


def _mxnet(pin_memory: bool, sharding: Sharding | None) -> Callable[[Any], Any]:
    import mxnet

    return lambda array: mxnet.nd.array(array, dtype=array.dtype)


_MAKERS = {"torch": _torch, "jax": _jax, "mxnet": _mxnet}
