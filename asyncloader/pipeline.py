"""The only place that schedules: what is under way, in which order it comes out, when it stops.

A :class:`BatchStream` is one pass over a dataset. It has no task of its own: planned batches are handed to the executor
when the consumer asks for a batch, so many that ``prefetch`` are under way, and a worker that finishes one wakes the
consumer if it waits. With no task there is nothing to be destroyed pending when a stream is dropped in mid-pass. The
exception are datasets that read by coroutines: their reads are tasks, and the stream that started them ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from asyncloader.datasets.base import FetchesPayloads
from asyncloader.errors import LoaderClosedError, LoaderTimeoutError, LoaderWarning
from asyncloader.executors.base import Executor, Job, Made
from asyncloader.offload import in_thread
from asyncloader.output import Converter
from asyncloader.samplers import Pass, PlannedBatch
from asyncloader.stats import StatsCounter

__all__ = ["BatchStream", "Limits"]

#: Seconds a sample from which on reading is worth announcing to the kernel; the page cache is faster than that.
SLOW_READ = 50e-6


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be under way in one pass.

    Attributes
    ----------
    prefetch : int
        Batches, counted from the reading to the consumer's taking them.
    max_bytes : int or None
        Bytes of batches; one batch is always allowed.
    timeout : float or None
        Seconds that a consumer waits for one batch.
    in_order : bool
        Whether batches come in the planned order, or as they are ready.
    """

    prefetch: int
    max_bytes: int | None = None
    timeout: float | None = None
    in_order: bool = True


class BatchStream:
    """One pass: an async iterator of batches.

    Parameters
    ----------
    plan : Pass
        Gives the positions of batch after batch.
    executor : Executor
        Makes them.
    dataset : object
        Told what comes next, and asked for the bytes where it reads by coroutines.
    limits : Limits
        What may be under way.
    stats : StatsCounter
        Told what happens.
    convert : Converter
        Makes of a batch of numpy arrays what the consumer wants.
    """

    def __init__(
        self,
        plan: Pass,
        executor: Executor,
        dataset: Any,
        limits: Limits,
        stats: StatsCounter,
        convert: Converter,
    ) -> None:
        self._plan = plan
        self._planned: PlannedBatch | None = None
        self._executor = executor
        self._advise: Callable[[Any], None] | None = getattr(dataset, "advise", None)
        self._fetches = dataset if isinstance(dataset, FetchesPayloads) and not executor.blocking else None
        self._limits = limits
        self._stats = stats
        self._convert = convert
        self._ahead: tuple[Made, Any] | None = None
        self._jobs: deque[Job] = deque()
        self._reads: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waiting_since = 0.0
        self._largest = 0
        self._plan_error: Exception | None = None
        self._closed = False
        self._ended = False

    @property
    def plan(self) -> Pass:
        """The pass this stream works through."""
        return self._plan

    def __aiter__(self) -> BatchStream:
        return self

    async def __anext__(self) -> Any:
        if self._closed:
            raise LoaderClosedError("this pass was closed before its end; begin another with `async for`")
        if self._waiter is not None:
            raise RuntimeError("two tasks wait for a batch of one pass: give each consumer its own `async for`")
        self._loop = asyncio.get_running_loop()
        if not self._executor.started:
            await in_thread(self._executor.start)  # pickling a large dataset takes its time
        while True:
            self._submit_ahead()
            if not self._jobs:
                self._end()
            made = await self._next_made()
            for notice in self._stats.take_notices():
                warnings.warn(notice, LoaderWarning, stacklevel=2)
            if made.samples:
                batch = self._converted(made)
                self.convert_ahead()
                return batch

    async def _next_made(self) -> Made:
        start = time.perf_counter()
        try:
            self._waiting_since = start
            while (job := self._ready()) is None:
                await self._wait()
        except BaseException:
            self.close()
            raise
        waited = time.perf_counter() - start
        self._jobs.remove(job)
        made = job.future.result()
        self._plan.given(job.number)
        self._largest = max(self._largest, made.nbytes)
        self._stats.add_batch(made, waited)
        self._stats.reads_slowly = made.reading > SLOW_READ * len(job.positions)
        if not self._executor.blocking:
            self._submit_ahead()
        return made

    def _converted(self, made: Made) -> Any:
        if self._ahead is None or self._ahead[0] is not made:
            return self._convert(made.batch)
        batch, self._ahead = self._ahead[1], None
        return batch

    def convert_ahead(self) -> None:
        """Convert the batch that the consumer gets next, if it is there and was not; in the thread of the loop."""
        if not self._convert.ahead or self._ahead is not None or self._closed or not self._jobs:
            return
        job = self._ready()
        if job is None or job.future.exception() is not None:
            return
        made = job.future.result()
        if made.samples:
            with contextlib.suppress(Exception):  # the consumer gets the error when it gets to the batch
                self._ahead = (made, self._convert(made.batch))

    def _ready(self) -> Job | None:
        """The job whose batch the consumer gets next, if it is done."""
        if self._closed:
            raise LoaderClosedError("the loader was closed while a batch was awaited")
        candidates = [self._jobs[0]] if self._limits.in_order else self._jobs
        return next((job for job in candidates if job.future.done()), None)

    async def _wait(self) -> None:
        """Wait until a job has ended, as long as the timeout allows."""
        assert self._loop is not None
        self._waiter = self._loop.create_future()
        try:
            if self._ready() is not None:  # it ended before there was anybody to wake
                return
            timeout = self._limits.timeout
            if timeout is None:
                await self._waiter
                return
            try:
                async with asyncio.timeout(self._waiting_since + timeout - time.perf_counter()):
                    await self._waiter
            except TimeoutError:
                if self._ready() is None:
                    self._expire(timeout)
        finally:
            self._waiter = None

    def _expire(self, timeout: float) -> None:
        """Give up on the batch the consumer waits for, or have it made again without the sample that is stuck."""
        job = self._jobs[0]
        self._stats.add("timeouts")
        error = LoaderTimeoutError(
            f"{job.describe()} was not there after {timeout:g} s: the storage or a transform is stuck, "
            "or the timeout is too short for a batch of this size"
        )
        successor = self._executor.expire(job, error)
        if successor is None:
            raise error
        self._jobs[0] = self._watched(successor)
        self._waiting_since = time.perf_counter()
        self._executor.submit(successor)

    def _submit_ahead(self) -> None:
        """Hand over as many batches as may be under way."""
        while not self._ended and self._has_room():
            try:
                planned = next(self._plan)
            except StopIteration:
                self._ended = True
                return
            except Exception as error:  # a user's sampler; what was planned before it failed is delivered first
                self._ended, self._plan_error = True, error
                return
            self._submit(planned)
            if self._executor.blocking:
                return

    def _has_room(self) -> bool:
        count = len(self._jobs)
        if count == 0:
            return True
        if count >= self._limits.prefetch or self._executor.blocking:
            return False
        if self._limits.max_bytes is None:
            return True
        # A batch on its way is taken to be as large as the largest so far; before the first is known, it goes alone.
        return self._largest > 0 and (count + 1) * self._largest <= self._limits.max_bytes

    def _submit(self, planned: PlannedBatch) -> None:
        job = self._watched(Job(planned.number, self._plan.epoch, planned.positions))
        if self._fetches is not None:
            assert self._loop is not None
            read = self._loop.create_task(_read_then_submit(self._fetches, job, self._executor))
            self._reads.add(read)
            read.add_done_callback(self._reads.discard)
        else:
            if self._advise is not None and self._jobs and self._stats.reads_slowly:
                self._advise(planned.positions)
            self._executor.submit(job)
        self._jobs.append(job)

    def _watched(self, job: Job) -> Job:
        # Weakly: a stream that the consumer has dropped must not live on in the jobs it has under way.
        stream = weakref.ref(self)
        job.future.add_done_callback(lambda future: _job_ended(stream))
        return job

    def wake(self) -> None:
        """Have the consumer look again, if it waits, and the next batch converted; from any thread."""
        waiter, loop = self._waiter, self._loop
        if loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
            if waiter is not None:
                loop.call_soon_threadsafe(_set_unless_done, waiter)
            if self._convert.ahead and not self._closed:
                loop.call_soon_threadsafe(_convert_ahead, weakref.ref(self))

    def _end(self) -> NoReturn:
        self.close()
        if self._plan_error is not None:
            raise self._plan_error
        self._plan.finished()
        self._stats.add("padded", self._plan.padded)
        self._stats.add("dropped", self._plan.dropped)
        raise StopAsyncIteration

    def close(self) -> None:
        """Stop the work under way; in the thread of the event loop, or when the stream is dropped."""
        self._closed = self._ended = True
        self._ahead = None
        self.wake()
        if self._jobs:
            self._executor.abandon(list(self._jobs))
            self._jobs.clear()
        reads, self._reads = self._reads, set()
        for read in reads:
            read.cancel()

    async def aclose(self) -> None:
        """Stop the work under way and wait for the reads that were started on the event loop."""
        reads = list(self._reads)
        self.close()
        await asyncio.gather(*reads, return_exceptions=True)

    def __del__(self) -> None:
        loop = self._loop
        if self._reads and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.close)  # tasks may be cancelled in their loop's thread only
        else:
            self.close()


async def _read_then_submit(dataset: FetchesPayloads, job: Job, executor: Executor) -> None:
    """Read a batch's bytes on the event loop, then have it made; what goes wrong is the batch's."""
    try:
        job.payloads = await dataset.fetch_payloads(list(job.positions))
        executor.submit(job)
    except Exception as error:
        job.future.set_exception(error)


def _job_ended(reference: weakref.ref[BatchStream]) -> None:
    stream = reference()
    if stream is not None:
        stream.wake()


def _convert_ahead(reference: weakref.ref[BatchStream]) -> None:
    stream = reference()
    if stream is not None:
        stream.convert_ahead()


def _set_unless_done(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
