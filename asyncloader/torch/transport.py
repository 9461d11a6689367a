"""The way to the worker processes: tensors travel as numpy's arrays, which lie in memory that all workers map."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
from numpy.typing import NDArray

from asyncloader.executors.work import BatchMaker
from asyncloader.torch.framework import torch

__all__ = ["PortableMaker"]


class PortableMaker(BatchMaker):
    """A batch maker whose dataset may hold tensors; PyTorch would write a copy of each into every pickle."""

    def __reduce__(self) -> tuple[Callable[..., PortableMaker], tuple[Any, ...]]:
        target = io.BytesIO()
        buffers: list[pickle.PickleBuffer] = []
        _Pickler(target, protocol=5, buffer_callback=buffers.append).dump(self.__dict__)
        return _rebuild_maker, (target.getvalue(), *buffers)


def _rebuild_maker(body: bytes, *buffers: Any) -> PortableMaker:
    maker = PortableMaker.__new__(PortableMaker)
    maker.__dict__.update(pickle.loads(body, buffers=buffers))
    return maker


def _rebuild_tensor(array: NDArray[Any], requires_grad: bool) -> Any:
    return torch.from_numpy(array).requires_grad_(requires_grad)


class _Pickler(cloudpickle.CloudPickler):
    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, torch.Tensor) and thing.device.type == "cpu" and thing.layout is torch.strided:
            if thing.is_shared():
                raise TypeError(
                    f"a tensor of shape {tuple(thing.shape)} is in PyTorch's shared memory (share_memory_), and what "
                    "is written to it later would not reach the workers; give a clone() of it, which workers share "
                    "among them as it is now"
                )
            if type(thing) is torch.Tensor and not thing.is_nested:
                try:
                    return _rebuild_tensor, (thing.detach().contiguous().numpy(), thing.requires_grad)
                except (TypeError, RuntimeError):  # of a dtype that numpy lacks, or conjugated lazily
                    pass
        return super().reducer_override(thing)
