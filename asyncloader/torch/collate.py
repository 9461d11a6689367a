"""PyTorch's default collation, into the memory that the loader gives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncloader.memory import BatchMemory
from asyncloader.torch.framework import torch

__all__ = ["DefaultCollate", "collate_tensors"]

_torch_collate = torch.utils.data._utils.collate


class DefaultCollate:
    """``torch.utils.data.default_collate``, whose tensors are stacked where the batch is to lie.

    PyTorch's own takes each tensor of a batch in a worker from shared memory of its own making.
    """

    takes_memory = True

    def __call__(self, samples: Sequence[Any], memory: BatchMemory | None = None) -> Any:
        """Collate the samples, by the functions that are registered in ``default_collate_fn_map``."""
        memory = memory or BatchMemory(len(samples))
        functions = dict(_torch_collate.default_collate_fn_map)
        if functions.get(torch.Tensor) in (_torch_collate.collate_tensor_fn, collate_tensors):
            functions[torch.Tensor] = functools.partial(_stack_tensors, memory)
        if functions.get(np.ndarray) is _torch_collate.collate_numpy_array_fn:
            functions[np.ndarray] = functools.partial(_stack_arrays, memory)
        return _torch_collate.collate(samples, collate_fn_map=functions)


def collate_tensors(batch: Sequence[Any], *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """Stack tensors in ordinary memory, also in a worker: our processes have a way of their own to send them."""
    if batch[0].is_nested or batch[0].layout is not torch.strided:
        return _torch_collate.collate_tensor_fn(batch, collate_fn_map=collate_fn_map)  # says that it takes none
    return torch.stack(batch, 0)


def _stack_tensors(
    memory: BatchMemory, batch: Sequence[Any], *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None
) -> Any:
    first = batch[0]
    dtype = None if first.is_nested else _numpy_dtype(first.dtype)
    if dtype is None or not all(_is_plain(tensor) and _is_like(tensor, first) for tensor in batch):
        return collate_tensors(batch)
    out = torch.from_numpy(memory.empty((len(batch), *first.shape), dtype))
    return torch.stack(batch, 0, out=out)


def _stack_arrays(memory: BatchMemory, batch: Sequence[Any], *, collate_fn_map: dict[Any, Callable[..., Any]]) -> Any:
    adopted = memory.adopt(batch)
    if adopted is not None:
        return torch.from_numpy(adopted)
    return _torch_collate.collate_numpy_array_fn(batch, collate_fn_map=collate_fn_map)


def _is_plain(tensor: Any) -> bool:
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not tensor.requires_grad
    )


def _is_like(tensor: Any, first: Any) -> bool:
    return bool(tensor.dtype is first.dtype and tensor.shape == first.shape)


@functools.cache
def _numpy_dtype(dtype: Any) -> np.dtype[Any] | None:
    try:
        array: NDArray[Any] = torch.empty(0, dtype=dtype).numpy()
    except TypeError:  # one that numpy lacks
        return None
    return array.dtype
