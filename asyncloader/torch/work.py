"""What the workers are given: the dataset as PyTorch's fetchers use it, and what each process does at its start."""

from __future__ import annotations

import random
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from asyncloader.collate import takes_memory
from asyncloader.datasets.base import Dataset, LoadContext
from asyncloader.errors import WorkerCrashedError
from asyncloader.torch.collate import collate_tensors
from asyncloader.torch.framework import torch

__all__ = ["BatchIndex", "Items", "ProcessSetup", "Stream", "StreamEnd", "WholeBatches"]

_torch_utils = torch.utils.data._utils


@dataclass(frozen=True)
class ProcessSetup:
    """What PyTorch does at the start of each of its workers: seeds, ``get_worker_info()``, ``worker_init_fn``.

    Attributes
    ----------
    dataset : object
        The loader's.
    num_workers : int
        How many workers the loader has.
    base_seed : int
        A worker's seed is this and its number.
    init_fn : callable or None
        The user's function, called with the worker's number.
    first : int
        The number of the first of the processes that are numbered from 0 here.
    collate_fn_map : dict
        What the user's process has registered for the default collation.
    """

    dataset: Any
    num_workers: int
    base_seed: int
    init_fn: Callable[[int], object] | None
    first: int = 0
    collate_fn_map: dict[Any, Any] = field(default_factory=lambda: dict(_torch_utils.collate.default_collate_fn_map))

    def __call__(self, number: int) -> None:
        """Prepare this process."""
        number += self.first
        seed = self.base_seed + number
        random.seed(seed)
        torch.manual_seed(seed)
        np.random.seed(_torch_utils.worker._generate_state(self.base_seed, number))  # noqa: NPY002
        _torch_utils.worker._worker_info = _torch_utils.worker.WorkerInfo(
            id=number, num_workers=self.num_workers, seed=seed, dataset=self.dataset
        )
        functions = _torch_utils.collate.default_collate_fn_map
        functions.clear()
        functions.update(self.collate_fn_map)
        if functions.get(torch.Tensor) is _torch_utils.collate.collate_tensor_fn:
            functions[torch.Tensor] = collate_tensors
        if self.init_fn is not None:
            self.init_fn(number)


class Items:
    """A map-style dataset that is asked for one sample at a time, whatever else it could be asked for."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.__qualname__ = type(dataset).__qualname__  # what an error's message calls this

    def __getitem__(self, position: Any) -> Any:
        return self._dataset[position]


@dataclass(frozen=True)
class BatchIndex:
    """What a sampler gave for a whole batch; equal by the batch's number, since it may be an array."""

    number: int
    index: Any = field(compare=False)

    def __repr__(self) -> str:
        # Goes into messages and into seeds: short, and of no two batches of a pass the same.
        return f"batch {self.number}: {reprlib.repr(self.index)}"


class WholeBatches(Dataset):
    """A map-style dataset that makes whole batches (``__getitems__``), or whose samples are not batched.

    Parameters
    ----------
    dataset : object
        The loader's.
    collate_fn : callable
        Applied to what the dataset gave.
    batched : bool
        Whether the loader batches, so that ``__getitems__`` is what is asked.
    """

    def __init__(self, dataset: Any, collate_fn: Callable[..., Any], *, batched: bool) -> None:
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._batched = batched

    def __len__(self) -> int:
        return len(self._dataset)

    def load_many(self, positions: Sequence[Any], context: LoadContext) -> list[Any]:
        """Make the batches of these indexes."""
        batches = []
        for position in positions:
            context.before_sample(position)
            with context.time_decoding():
                index = position.index
                data = self._dataset.__getitems__(index) if self._batched else self._dataset[index]
                batches.append(_collated(self._collate_fn, data, context))
        return batches


class StreamEnd:
    """Stands for the batch that is not there, since the dataset has come to its end."""


class Stream(Dataset):
    """The batches of an iterable-style dataset, in one worker process of its own.

    Parameters
    ----------
    dataset : iterable
        This worker's copy.
    batch_size : int or None
        Samples in a batch; None gives single samples.
    drop_last : bool
        Whether an incomplete last batch is left out.
    collate_fn : callable
        From a list of samples, or one sample, to a batch.

    Notes
    -----
    A batch's position is its number in its epoch, from 0 on. Only the next one can be given: a process that takes the
    place of one that was ended cannot know what that one had given.
    """

    def __init__(self, dataset: Any, batch_size: int | None, drop_last: bool, collate_fn: Callable[..., Any]) -> None:
        self._dataset = dataset
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._collate_fn = collate_fn
        self._epoch: int | None = None
        self._next = 0
        self._samples: Iterator[Any] | None = None

    def __len__(self) -> int:
        return len(self._dataset)

    def load_many(self, positions: Sequence[int], context: LoadContext) -> list[Any]:
        """Make the next batch."""
        [number] = positions
        context.before_sample(number)
        if context.epoch != self._epoch:
            self._epoch, self._next = context.epoch, 0
            self._samples = None
        if number != self._next:
            raise WorkerCrashedError(
                "a worker process was ended in the middle of an iterable-style dataset, and what it had not given yet "
                "is lost: only a map-style dataset can be taken up again by another worker"
            )
        self._next += 1
        with context.time_decoding():
            if number == 0:
                self._samples = iter(self._dataset)
            return [self._batch(context)]

    def _batch(self, context: LoadContext) -> Any:
        if self._samples is None:  # the end was seen already, or iter() failed
            return StreamEnd()
        if self._batch_size is None:
            data = next(self._samples, StreamEnd)
            if data is StreamEnd:
                self._samples = None
                return StreamEnd()
            return _collated(self._collate_fn, data, context)
        samples = list(islice(self._samples, self._batch_size))
        if len(samples) < self._batch_size:
            self._samples = None
            if not samples or self._drop_last:
                return StreamEnd()
        return _collated(self._collate_fn, samples, context)


def _collated(collate_fn: Callable[..., Any], data: Any, context: LoadContext) -> Any:
    return collate_fn(data, context.memory) if takes_memory(collate_fn) else collate_fn(data)
