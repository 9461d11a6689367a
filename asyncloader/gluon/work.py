"""What the loader's workers are given: the dataset and the batchify function, in MXNet's surroundings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncloader.gluon.arrays import map_ndarrays, send
from asyncloader.gluon.framework import mxnet
from asyncloader.gluon.sharing import fit_for_threads
from asyncloader.gluon.transport import Parcel

__all__ = ["ProcessBatchify", "ProcessSamples", "Semantics", "ThreadBatchify", "ThreadSamples"]


class Semantics:
    """Whether MXNet makes numpy-like arrays and shapes: kept by thread, so workers take it from their loader."""

    def __init__(self) -> None:
        self._shape, self._array = mxnet.util.is_np_shape(), mxnet.util.is_np_array()

    def apply(self) -> None:
        """Make it so in this thread."""
        mxnet.util.set_np(shape=self._shape, array=self._array)


class ThreadSamples:
    """The samples of a dataset, for several threads."""

    def __init__(self, dataset: Any, semantics: Semantics) -> None:
        self._dataset = fit_for_threads(dataset)
        self._semantics = semantics
        self.__qualname__ = type(dataset).__qualname__  # what an error's message calls this

    def __getitem__(self, position: Any) -> Any:
        self._semantics.apply()
        return self._dataset[position]


class ThreadBatchify:
    """Batches made in a thread. MXNet works behind its callers' backs: a batch is given when it is done."""

    def __init__(self, batchify_fn: Callable[[list[Any]], Any], semantics: Semantics) -> None:
        self._batchify_fn = batchify_fn
        self._semantics = semantics

    def __call__(self, samples: list[Any]) -> Any:
        """Make a batch of samples."""
        self._semantics.apply()
        batch = self._batchify_fn(samples)
        map_ndarrays(batch, mxnet.nd.NDArray.wait_to_read, mxnet.nd.NDArray)
        return batch


class ProcessSamples:
    """The samples of a dataset, in a process of their own; MXNet's generator is seeded for each."""

    def __init__(self, dataset: Any, semantics: Semantics) -> None:
        self._parcel = Parcel(dataset)
        self._semantics = semantics
        self.__qualname__ = type(dataset).__qualname__

    def __getitem__(self, position: Any) -> Any:
        self._semantics.apply()
        # The loader has just seeded numpy's generator for this sample. The first word of its state is that seed.
        mxnet.random.seed(int(np.random.get_state()[1][0]))  # type: ignore[index]  # noqa: NPY002
        return self._parcel.content[position]


class ProcessBatchify:
    """Batches made in a process, on their way out of it."""

    def __init__(self, batchify_fn: Callable[[list[Any]], Any], semantics: Semantics) -> None:
        self._parcel = Parcel(batchify_fn)
        self._semantics = semantics

    def __call__(self, samples: list[Any]) -> Any:
        """Make a batch of samples, its NDArrays fit to be sent."""
        self._semantics.apply()
        return send(self._parcel.content(samples))
