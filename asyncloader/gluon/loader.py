"""MXNet Gluon's DataLoader, without a fork."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np

from asyncloader.errors import SampleError
from asyncloader.gluon.arrays import in_context, receive
from asyncloader.gluon.framework import mxnet
from asyncloader.gluon.work import ProcessBatchify, ProcessSamples, Semantics, ThreadBatchify, ThreadSamples
from asyncloader.sync import DataLoader as _Loader

__all__ = ["DataLoader"]

_default_batchify_fn = mxnet.gluon.data.dataloader.default_batchify_fn


class DataLoader(mxnet.gluon.data.DataLoader):  # type: ignore[misc]
    """Loads batches of NDArrays, with the arguments and results of ``mxnet.gluon.data.DataLoader`` 1.9.1.

    Parameters
    ----------
    dataset : Dataset
        MXNet's, ours, or anything with ``__len__`` and ``__getitem__``. It is not changed. The readers of
        ``mxnet.recordio`` in it are replaced by ours, in a copy, which is what the workers use.
    batch_size : int, optional
        Samples in a batch; needed unless ``batch_sampler`` is given.
    shuffle : bool
        Another random order in each pass, from numpy's global generator, as MXNet draws it.
    sampler : iterable of positions, optional
        Gives the order instead of ``shuffle``.
    last_batch : {"keep", "discard", "rollover"}, optional
        What becomes of an incomplete last batch; "keep" if nothing is said.
    batch_sampler : iterable of lists of positions, optional
        Gives the batches, instead of the four arguments above.
    batchify_fn : callable, optional
        From a list of samples to a batch. Without one NDArrays are stacked, tuples are taken apart, and everything
        else goes through ``numpy.asarray``.
    num_workers : int
        0 makes each batch in the thread that asks for it.
    pin_memory : bool
        Copy batches to page-locked memory, of the GPU ``pin_device_id``. Tuples become lists thereby, as in MXNet.
    pin_device_id : int
        Which.
    prefetch : int, optional
        Batches made ahead of the one that is worked on, at least 1; twice ``num_workers`` if nothing is said.
    thread_pool : bool
        Whether the workers are threads. Else they are spawned processes, which import MXNet at their start.
    timeout : float
        Seconds that a batch may take; the first one's include the start of the processes. One that takes longer is a
        :class:`~asyncloader.errors.LoaderTimeoutError`.
    auto_reload : bool
        Whether the next pass is begun, and its first batches are made, as soon as the loader is made and whenever a
        pass has come to its end, instead of when it is asked for.
    try_nopython : bool, optional
        Of MXNet 2; has no meaning here.

    Raises
    ------
    ValueError
        Arguments that exclude each other, or ``batch_size`` is missing.
    AssertionError
        ``timeout`` is not positive.
    TypeError
        The dataset holds a reader that workers cannot share.

    Notes
    -----
    An error in a sample is raised as it is, of its own type, with a note that names the sample. The loader can be used
    after it.

    Batches made by workers are in the context ``mxnet.cpu()``, where MXNet's are in ``cpu_shared``, which its own
    hybrid blocks refuse.

    In processes the global generators of Python, numpy and MXNet are seeded for each sample, from the state of numpy's
    at the time the loader is made. In threads they are the process's own, as in MXNet.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        last_batch: Literal["keep", "discard", "rollover"] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        batchify_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
        try_nopython: bool | None = None,
    ) -> None:
        if not timeout > 0:
            raise AssertionError(f"timeout must be a positive number of seconds, not {timeout!r}")
        self._dataset = dataset
        self._batch_sampler = _batches(dataset, batch_size, shuffle, sampler, last_batch, batch_sampler)
        self._batchify_fn = batchify_fn if batchify_fn is not None else _default_batchify_fn
        self._num_workers = max(0, num_workers)
        self._pinned = mxnet.cpu_pinned(pin_device_id) if pin_memory else None
        self._loader: _Loader | None = None
        if self._num_workers > 0:
            semantics = Semantics()
            self._loader = _Loader(
                ThreadSamples(dataset, semantics) if thread_pool else ProcessSamples(dataset, semantics),
                batch_sampler=self._batch_sampler,
                collate_fn=(ThreadBatchify if thread_pool else ProcessBatchify)(self._batchify_fn, semantics),
                workers="threads" if thread_pool else "processes",
                num_workers=self._num_workers,
                prefetch=max(1, prefetch if prefetch is not None else 2 * self._num_workers),
                timeout=timeout,
                seed=_seed_of_numpy(),
            )
            self._loader.__enter__()  # MXNet's pool starts here too; importing MXNet takes processes a while
        self.auto_reload = auto_reload
        self._iter: Iterator[Any] | None = None
        if auto_reload:
            self.refresh()

    def __len__(self) -> int:
        """Give the number of batches in the next pass."""
        return len(self._batch_sampler)  # type: ignore[arg-type]  # raises TypeError where it has no length

    def __iter__(self) -> Iterator[Any]:
        """Go through the batches of a pass."""
        batches, self._iter = self._iter, None
        yield from self._pass() if batches is None else batches
        if self.auto_reload and not self._has_begun():
            self.refresh()

    def refresh(self) -> None:
        """Begin the next pass; the workers, if there are any, make its first batches."""
        self._iter = self._pass(ahead=True)

    def clean(self) -> None:
        """Drop a pass that :meth:`refresh` began."""
        self._iter = None

    def close(self) -> None:
        """End the workers; without this they end when the loader is dropped."""
        self._iter = None
        if self._loader is not None:
            self._loader.close()

    def __del__(self) -> None:
        """Nothing to do here, where MXNet's own ends its pool: the workers end by themselves."""

    def _has_begun(self) -> bool:
        return self._iter is not None

    def _pass(self, *, ahead: bool = False) -> Iterator[Any]:
        if self._loader is None:
            return self._inline()
        batches = iter(self._loader)
        return self._from(_Begun(batches) if ahead else batches)

    def _inline(self) -> Iterator[Any]:
        for positions in self._batch_sampler:
            samples = []
            for position in positions:
                try:
                    samples.append(self._dataset[position])
                except Exception as error:
                    error.add_note(f"in making the sample at position {position}")
                    raise
            yield self._delivered(self._batchify_fn(samples))

    def _from(self, batches: Iterator[Any]) -> Iterator[Any]:
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except SampleError as error:
                cause = error.__cause__
                if cause is None:
                    raise
                cause.add_note("\n".join([str(error), *getattr(error, "__notes__", ())]))
                raise cause from cause.__cause__
            yield self._delivered(receive(batch))

    def _delivered(self, batch: Any) -> Any:
        return batch if self._pinned is None else in_context(batch, self._pinned)


class _Begun:
    """A pass whose first batch is asked for already, in a thread, so that the workers are at it."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._first: list[Any] = []
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = threading.Thread(
            target=self._ask, name="asyncloader-first-batch", daemon=True
        )
        self._thread.start()

    def _ask(self) -> None:
        try:
            self._first.append(next(self._batches))
        except BaseException as error:
            self._error = error

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._first.pop() if self._first else next(self._batches)


def _batches(
    dataset: Any,
    batch_size: int | None,
    shuffle: bool,
    sampler: Iterable[Any] | None,
    last_batch: str | None,
    batch_sampler: Iterable[Any] | None,
) -> Iterable[Any]:
    """Make the batch sampler that the arguments ask for."""
    if batch_sampler is not None:
        if batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError(
                "a batch_sampler makes the batches by itself; "
                "give no batch_size, shuffle, sampler or last_batch with it"
            )
        return batch_sampler
    if batch_size is None:
        raise ValueError("batch_size is missing; only with a batch_sampler can it be left out")
    data = mxnet.gluon.data
    if sampler is None:
        sampler = data.RandomSampler(len(dataset)) if shuffle else data.SequentialSampler(len(dataset))
    elif shuffle:
        raise ValueError("a sampler gives the order by itself; give no shuffle with it")
    made: Iterable[Any] = data.BatchSampler(sampler, batch_size, last_batch or "keep")
    return made


def _seed_of_numpy() -> int:
    """Derive a seed from numpy's global generator without drawing from it: MXNet's loader draws nothing here either."""
    _, key, position, *_ = np.random.get_state()  # noqa: NPY002
    state = np.asarray(key).tobytes() + int(position).to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(state, digest_size=8).digest(), "little")
