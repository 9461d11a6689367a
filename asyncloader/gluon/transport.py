"""A dataset's way to the worker processes: MXNet's readers become ours, NDArrays become numpy's arrays."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle

from asyncloader.gluon.arrays import SentArray, send
from asyncloader.gluon.framework import mxnet
from asyncloader.gluon.sharing import successor

__all__ = ["Parcel"]


class Parcel:
    """Pickles what it holds in a way that MXNet's objects stand.

    MXNet's readers, when pickled, close the one that the user has, and open another that shares nothing with it; an
    NDArray is copied into the pickle, where numpy's arrays lie in memory that the workers share.

    Parameters
    ----------
    content : object
        The dataset, or the batchify function.
    """

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Callable[..., Parcel], tuple[Any, ...]]:
        target = io.BytesIO()
        buffers: list[pickle.PickleBuffer] = []
        _Pickler(target, protocol=5, buffer_callback=buffers.append).dump(self.content)
        return _opened, (target.getvalue(), *buffers)


def _opened(body: bytes, *buffers: Any) -> Parcel:
    return Parcel(pickle.loads(body, buffers=buffers))


def _same(reader: Any) -> Any:
    return reader


def _nothing() -> None:
    """Give None."""


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, mxnet.recordio.MXRecordIO):
            reader = successor(thing)
            return _same, (reader,)
        if type(thing) is mxnet.nd.CachedOp:
            return _nothing, ()  # the graph of a hybrid block, which builds it again where there is none
        if isinstance(thing, mxnet.nd.NDArray):
            sent = send(thing)
            if isinstance(sent, SentArray):
                return SentArray.ndarray, (sent,)
        return super().reducer_override(thing)
