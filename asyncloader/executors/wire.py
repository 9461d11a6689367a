"""How a batch comes back from a process: its arrays in a shared block, the rest pickled."""

from __future__ import annotations

import io
import itertools
import math
import pickle
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import DTypeLike, NDArray

from asyncloader.errors import WorkerError
from asyncloader.memory import ALIGNMENT

__all__ = ["BlockWriter", "Packed", "pack", "pack_error", "unpack", "unpack_error"]

#: Of a chain of exceptions, each the cause of the one before, this many come back.
MAX_CAUSES = 10


@dataclass(frozen=True, slots=True)
class Packed:
    """A pickled object whose large buffers lie elsewhere.

    Attributes
    ----------
    body : bytes
        The pickle.
    places : list of (int or None, int)
        Of each buffer: its start in the block, or None if it did not fit in; and its size.
    needed : int
        The size of a block that all would have fitted into.
    """

    body: bytes
    places: list[tuple[int | None, int]]
    needed: int


class BlockWriter:
    """Allocates in a block from its start on, and counts what it would have needed.

    Parameters
    ----------
    memory : writable buffer or None
        The block; None where there is none yet.
    """

    def __init__(self, memory: Any | None) -> None:
        self._memory = np.frombuffer(memory, np.uint8) if memory is not None else np.empty(0, np.uint8)
        self._address = self._memory.ctypes.data
        self.needed = 0

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Allocate like :func:`numpy.empty`, in the block as long as there is room."""
        dtype = np.dtype(dtype)
        if dtype.hasobject:
            return np.empty(shape, dtype)
        start = self._reserve(math.prod(shape) * dtype.itemsize)
        if start is None:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, buffer=self._memory, offset=start)

    def place(self, raw: memoryview) -> int | None:
        """Give where a buffer lies in the block, after copying it there if need be; None if there is no room."""
        if raw.nbytes == 0:
            return 0
        view = np.frombuffer(raw, np.uint8)
        start = int(view.ctypes.data - self._address)
        if start >= 0 and start + view.size <= self._memory.size:
            return start
        reserved = self._reserve(view.size)
        if reserved is not None:
            self._memory[reserved : reserved + view.size] = view
        return reserved

    def _reserve(self, size: int) -> int | None:
        start = self.needed
        self.needed = -(-(start + size) // ALIGNMENT) * ALIGNMENT
        return start if self.needed <= self._memory.size else None


def pack(value: Any, writer: BlockWriter) -> tuple[Packed, list[memoryview]]:
    """Pickle a value with its buffers in the writer's block.

    Returns
    -------
    packed : Packed
        What to send.
    rest : list of memoryview
        The buffers that found no room, to be sent after it.
    """
    buffers: list[pickle.PickleBuffer] = []
    try:
        body = _dump(value, buffers.append)
    except Exception:
        # By reference it cannot go: a class of the user's main module or of a function. By value it can.
        buffers.clear()
        body = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    places: list[tuple[int | None, int]] = []
    rest: list[memoryview] = []
    for buffer in buffers:
        raw = buffer.raw()
        start = writer.place(raw)
        places.append((start, raw.nbytes))
        if start is None:
            rest.append(raw)
    return Packed(body, places, writer.needed), rest


def unpack(packed: Packed, block: Any, rest: Sequence[bytearray]) -> Any:
    """Give the value back; its arrays look into ``block``, and into the buffers of ``rest``."""
    remaining = iter(rest)
    view = memoryview(block if block is not None else bytearray())
    buffers = [next(remaining) if start is None else view[start : start + size] for start, size in packed.places]
    return pickle.loads(packed.body, buffers=buffers)


def _dump(value: Any, callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    if "torch" not in sys.modules:
        return pickle.dumps(value, protocol=5, buffer_callback=callback)
    target = io.BytesIO()
    _TensorPickler(target, protocol=5, buffer_callback=callback).dump(value)
    return target.getvalue()


class _TensorPickler(pickle.Pickler):
    """Sends torch's tensors as numpy's arrays, whose buffers stay out of the pickle."""

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules["torch"]
        if type(value) is torch.Tensor and value.device.type == "cpu" and value.layout is torch.strided:
            try:
                array = value.detach().contiguous().numpy()
            except TypeError:  # a dtype that numpy lacks
                return NotImplemented
            return _tensor, (array, value.requires_grad)
        return NotImplemented


def _tensor(array: NDArray[Any], requires_grad: bool) -> Any:
    import torch

    return torch.from_numpy(array).requires_grad_(requires_grad)


def pack_error(error: BaseException) -> bytes:
    """Pickle an exception with its causes and the worker's traceback, as far as they can be."""
    text = "".join(traceback.format_exception(error))
    chain: list[tuple[bytes, str]] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < MAX_CAUSES:
        chain.append((_pickled_error(cause), _describe(cause)))
        cause = cause.__cause__
    return pickle.dumps((chain, text))


def unpack_error(packed: bytes) -> Exception:
    """Give the exception back; the worker's traceback is a note on it."""
    chain, text = pickle.loads(packed)
    errors = [_loaded_error(pickled, description) for pickled, description in chain]
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    first = errors[0]
    if not isinstance(first, Exception):  # sys.exit() in a worker ends nothing here
        wrapped = WorkerError(f"the worker's work was ended by {_describe(first)}")
        wrapped.__cause__ = first
        first = wrapped
    first.add_note(f"In a worker process:\n\n{text}")
    return first


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ fails
        return type(error).__name__


def _pickled_error(error: BaseException) -> bytes:
    try:
        return cloudpickle.dumps(error)  # type: ignore[no-any-return]
    except Exception:
        return b""


def _loaded_error(pickled: bytes, description: str) -> BaseException:
    """Give the exception, or one with its message where it cannot be made again: some can be pickled, but no more."""
    try:
        error = pickle.loads(pickled)
    except Exception:
        return WorkerError(description)
    return error if isinstance(error, BaseException) else WorkerError(description)
