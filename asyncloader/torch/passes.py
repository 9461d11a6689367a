"""One pass over a dataset, in the order and at the moments that PyTorch's loader takes its steps.

PyTorch's samplers draw from generators that the user's own code draws from too, so results are equal only if a sampler
is asked when PyTorch would ask it: in the consumer's thread, for ``prefetch_factor * num_workers`` batches as the pass
begins, and for one more as each batch is given. That is why passes here hand their batches to an executor themselves.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

from asyncloader.datasets.base import Dataset
from asyncloader.errors import LoaderTimeoutError, LoaderWarning, SampleError
from asyncloader.executors.base import Executor, Job
from asyncloader.executors.processes import ProcessExecutor
from asyncloader.executors.threads import ThreadExecutor
from asyncloader.executors.work import BatchMaker
from asyncloader.offload import in_thread
from asyncloader.stats import StatsCounter
from asyncloader.torch.collate import DefaultCollate
from asyncloader.torch.framework import torch
from asyncloader.torch.transport import PortableMaker
from asyncloader.torch.work import BatchIndex, Items, ProcessSetup, Stream, StreamEnd, WholeBatches

__all__ = ["AsyncPass", "MapPass", "Pass", "StreamPass"]

_pin_memory = torch.utils.data._utils.pin_memory.pin_memory


@dataclass(eq=False)
class _Lane:
    """An executor, and the batches planned for it in this pass."""

    executor: Executor
    planned: int = 0
    ended: bool = False


@dataclass(eq=False)
class _Task:
    """A batch under way."""

    lane: _Lane
    job: Job


class Pass(torch.utils.data.dataloader._BaseDataLoaderIter):
    """An iterator of batches.

    Parameters
    ----------
    loader : asyncloader.torch.DataLoader
        Whose batches they are.
    """

    def __init__(self, loader: Any) -> None:
        self._lanes: list[_Lane] = []
        self._pending: deque[_Task] = deque()
        self._unsubmitted: deque[_Task] = deque()
        super().__init__(loader)  # draws the base seed
        self._window = loader.prefetch_factor * loader.num_workers
        self._in_order = loader.in_order
        self._stats = StatsCounter()
        self._epoch = -1
        self._number = 0
        collate_fn = loader.collate_fn
        if collate_fn is torch.utils.data.default_collate:
            collate_fn = DefaultCollate()
        self._lanes = [_Lane(executor) for executor in self._make_executors(loader, collate_fn)]
        self._reset(loader, first_iter=True)

    def _make_executors(self, loader: Any, collate_fn: Any) -> Sequence[Executor]:
        raise NotImplementedError

    def _plan(self, number: int) -> _Task | None:
        """Plan one more batch, the pass's ``number``-th; None where there is none."""
        raise NotImplementedError

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begin a pass. PyTorch calls this for persistent workers, whose passes are one object."""
        self._abandon()
        super()._reset(loader, first_iter)
        self._epoch += 1
        self._number = 0
        for lane in self._lanes:
            lane.planned, lane.ended = 0, False
        self._fill()

    def _fill(self) -> None:
        """Plan as many batches as may be under way."""
        for _ in range(self._window - len(self._pending)):
            self._plan_one()

    def _plan_one(self) -> None:
        task = self._plan(self._number)
        if task is not None:
            self._number += 1
            task.lane.planned += 1
            self._pending.append(task)
            self._unsubmitted.append(task)

    def submit(self) -> None:
        """Hand what is planned to the workers, which start if they have not."""
        while self._unsubmitted:
            task = self._unsubmitted.popleft()
            task.lane.executor.submit(task.job)

    def _next_data(self) -> Any:
        self.submit()
        while (task := self._next_done()) is None:
            if not self._pending:
                self._end()
                raise StopIteration
            if not wait(self._awaited(), self._timeout or None, FIRST_COMPLETED).done:
                self._expire()
        return self._take(task)

    async def ready(self) -> None:
        """Wait until the next batch, or the end, can be had at once."""
        for lane in self._lanes:
            if not lane.executor.started:
                await in_thread(lane.executor.start)  # pickling a large dataset takes its time
        self.submit()
        while self._next_done() is None and self._pending:
            if not await _any_done(self._awaited(), self._timeout or None):
                self._expire()

    def _candidates(self) -> list[_Task]:
        """The batches one of which is given next."""
        return [self._pending[0]] if self._in_order and self._pending else list(self._pending)

    def _awaited(self) -> list[Future[Any]]:
        return [task.job.future for task in self._candidates()]

    def _next_done(self) -> _Task | None:
        """The batch that is given next, if it is there; lanes that have come to their end are left out."""
        while task := next((task for task in self._candidates() if task.job.future.done()), None):
            future = task.job.future
            if future.exception() is not None or not isinstance(future.result().batch, StreamEnd):
                return task
            task.lane.ended = True
            self._pending = deque(other for other in self._pending if other.lane is not task.lane)
            self._unsubmitted = deque(other for other in self._unsubmitted if other.lane is not task.lane)
            self._fill()
            self.submit()
        return None

    def _take(self, task: _Task) -> Any:
        self._pending.remove(task)
        for notice in self._stats.take_notices():
            warnings.warn(notice, LoaderWarning, stacklevel=4)
        self._plan_one()
        self.submit()
        error = task.job.future.exception()
        if error is not None:
            error = _original(error)
            raise error from error.__cause__
        batch = task.job.future.result().batch
        return _pin_memory(batch, self._pin_memory_device) if self._pin_memory else batch

    def _expire(self) -> None:
        """Give up on the batch that has been waited for."""
        task = self._pending.popleft()
        error = LoaderTimeoutError(
            f"{task.job.describe()} was not there after {self._timeout:g} s: the storage or a transform is stuck, "
            "or the timeout is too short for a batch of this size"
        )
        task.lane.executor.expire(task.job, error)
        raise error

    def _end(self) -> None:
        if not self._persistent_workers:
            self._lanes.clear()  # an executor that nobody holds ends its workers

    def _abandon(self) -> None:
        for lane in self._lanes:
            lane.executor.abandon([task.job for task in self._pending if task.lane is lane])
        self._pending.clear()
        self._unsubmitted.clear()

    def close(self) -> None:
        """Stop the work under way, and end the workers."""
        self._abandon()
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            lane.executor.close()

    def __del__(self) -> None:
        self._abandon()


class MapPass(Pass):
    """A pass over a map-style dataset; any worker makes any batch."""

    def _make_executors(self, loader: Any, collate_fn: Any) -> Sequence[Executor]:
        dataset = loader.dataset
        # Batches that the dataset makes whole, and samples that are not batched, are no list of samples to collate.
        self._whole = not self._auto_collation or bool(getattr(dataset, "__getitems__", None))
        if self._whole:
            samples: Any = WholeBatches(dataset, collate_fn, batched=self._auto_collation)
        else:
            samples = dataset if isinstance(dataset, Dataset) else Items(dataset)
        collate_fn = None if self._whole else collate_fn
        if loader.workers == "threads":
            maker = BatchMaker(samples, collate_fn, "raise", self._base_seed)
            return [ThreadExecutor(maker, loader.num_workers, keep=self._window + 2)]
        setup = ProcessSetup(dataset, loader.num_workers, self._base_seed, loader.worker_init_fn)
        maker = PortableMaker(samples, collate_fn, "raise", self._base_seed, seed_globals=True, worker_init=setup)
        return [ProcessExecutor(maker, loader.num_workers, 1, prefetch=self._window, stats=self._stats)]

    def _plan(self, number: int) -> _Task | None:
        try:
            index = self._next_index()
        except StopIteration:
            return None
        positions = [BatchIndex(number, index)] if self._whole else list(index)
        if not positions:
            raise ValueError(
                f"{type(self._index_sampler).__qualname__} gave an empty batch; a batch has one position at least"
            )
        return _Task(self._lanes[0], Job(number, self._epoch, positions))


class StreamPass(Pass):
    """A pass over an iterable-style dataset: a copy of it in each worker, which give their batches in turn."""

    def _make_executors(self, loader: Any, collate_fn: Any) -> Sequence[Executor]:
        executors = []
        for first in range(loader.num_workers):
            stream = Stream(loader.dataset, loader.batch_size, loader.drop_last, collate_fn)
            setup = ProcessSetup(loader.dataset, loader.num_workers, self._base_seed, loader.worker_init_fn, first)
            maker = PortableMaker(stream, None, "raise", self._base_seed, worker_init=setup)
            executors.append(ProcessExecutor(maker, 1, 1, prefetch=loader.prefetch_factor, stats=self._stats))
        return executors

    def _plan(self, number: int) -> _Task | None:
        lanes = [lane for lane in self._lanes if not lane.ended]
        if not lanes:
            return None
        lane = min(lanes, key=lambda lane: lane.planned)
        return _Task(lane, Job(number, self._epoch, [lane.planned]))


class AsyncPass:
    """One pass, by ``async for``."""

    def __init__(self, batches: Pass) -> None:
        self._batches = batches
        self._waiting = False

    def __aiter__(self) -> AsyncPass:
        return self

    async def __anext__(self) -> Any:
        if self._waiting:
            raise RuntimeError("two tasks wait for a batch of one pass: give each consumer its own `async for`")
        self._waiting = True
        try:
            await self._batches.ready()
        finally:
            self._waiting = False
        try:
            return next(self._batches)
        except StopIteration:
            raise StopAsyncIteration from None


async def _any_done(futures: Sequence[Future[Any]], timeout: float | None) -> bool:
    """Wait until one of the futures is done; False if none is after ``timeout`` seconds."""
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()

    def wake(future: Future[Any]) -> None:
        loop.call_soon_threadsafe(woken.set)

    for future in futures:
        future.add_done_callback(wake)
    try:
        async with asyncio.timeout(timeout):
            await woken.wait()
    except TimeoutError:
        return any(future.done() for future in futures)
    return True


def _original(error: BaseException) -> BaseException:
    """Give the user's own exception, with a note that names the sample."""
    cause = error.__cause__
    if type(error) is SampleError and cause is not None and not isinstance(cause, StopIteration | StopAsyncIteration):
        cause.add_note("\n".join([str(error), *getattr(error, "__notes__", ())]))
        return cause
    if isinstance(error, StopIteration | StopAsyncIteration):  # would end the pass as if all had been given
        failure = RuntimeError(f"making a batch raised {type(error).__name__}")
        failure.__cause__ = error
        return failure
    return error
