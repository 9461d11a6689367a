"""Batches made in threads of this process."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from asyncloader.errors import LoaderClosedError, WorkerError
from asyncloader.executors.base import Job
from asyncloader.executors.work import BatchMaker, Slice
from asyncloader.memory import BatchMemory, MemoryPool

__all__ = ["ThreadExecutor"]

#: How long ``close`` waits for threads that are in the middle of a sample.
CLOSE_TIMEOUT = 2.0

#: A slice of a batch is worth a hop to another thread from this many samples on.
SMALLEST_SLICE = 8


class ThreadExecutor:
    """A fixed number of threads that take batches from one queue.

    A batch is one task, made whole by one thread. Where threads are idle at the time it is submitted (the first batch
    of a pass, or a consumer that has caught up), it is cut into a slice for each of them, so that it is there sooner.

    The threads are daemons: one that hangs in a user's transform must not keep the interpreter from ending.

    Parameters
    ----------
    maker : BatchMaker
        Makes the batches.
    num_workers : int
        Number of threads.
    keep : int
        Blocks of batch memory kept for the next batches.
    name : str
        The threads' names begin with it.
    """

    blocking = False

    def __init__(self, maker: BatchMaker, num_workers: int, keep: int, name: str = "asyncloader") -> None:
        self._maker = maker
        self._num_workers = num_workers
        self._memory = MemoryPool(keep)
        self._name = name
        self._queue = _TaskQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        # Threads hold the queue, not the executor, so an executor that is dropped ends them.
        self._finalizer = weakref.finalize(self, self._queue.close)

    @property
    def started(self) -> bool:
        """Whether all threads run, in this process."""
        return len(self._threads) >= self._num_workers and self._pid == os.getpid()

    def start(self) -> None:
        """Start the threads."""
        if self._threads and self._pid != os.getpid():
            raise LoaderClosedError(
                f"the threads of this loader are in process {self._pid}, which has forked this one: "
                "make a new loader here, or fork before the loader is used"
            )
        with self._lock:
            self._pid = os.getpid()
            if self._queue.closed:
                raise LoaderClosedError("the loader is closed; make a new one")
            while len(self._threads) < self._num_workers:
                self._add_thread()

    def _add_thread(self) -> None:
        thread = threading.Thread(
            target=_work, args=(self._queue,), name=f"{self._name}-{len(self._threads)}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            if self._threads:
                self._num_workers = len(self._threads)  # fewer threads give the same batches
                return
            raise WorkerError(
                f"no thread could be started ({error}): the limit on processes or on memory is reached; "
                "raise it (ulimit -u, ulimit -v), or load inline with num_workers=0"
            ) from error
        self._threads.append(thread)

    def submit(self, job: Job) -> None:
        """Queue a batch, in slices where threads are idle."""
        if not self.started:
            self.start()
        count = len(job.positions)
        parts = max(1, min(self._queue.idle(), count // SMALLEST_SLICE))
        cuts = [count * part // parts for part in range(parts + 1)]
        task = _BatchTask(self._maker, job, self._memory, cuts)
        for part in range(parts):
            self._queue.put(partial(task.run, part))

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Have the jobs not start, or end at their next sample."""
        for job in jobs:
            job.abandon()

    def expire(self, job: Job, error: Exception) -> Job | None:
        """Leave the threads that are stuck to themselves, and put others in their place."""
        at_it = list(job.active.values())
        job.abandon()
        with self._lock:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            for _ in at_it:
                self._num_workers += 1
                self._add_thread()
        if self._maker.on_error == "raise" or (not at_it and job.unbegun):
            return None
        # Where samples are read together the one reported last need not be the one that is stuck.
        known = job.careful or self._maker.asks_one_by_one
        stuck = [position for position in at_it if position is not None] if known else []
        if at_it and known and not stuck:
            return None  # no sample is stuck, but the collate function
        successor = job.without(stuck, error)
        successor.careful = True
        successor.unbegun = int(not at_it)  # what is read on the event loop is stuck there, or all threads are
        return successor

    def close(self) -> None:
        """End the threads; one in the middle of a sample is given a while."""
        self._finalizer()
        deadline = time.monotonic() + CLOSE_TIMEOUT
        current = threading.current_thread()
        for thread in self._threads:
            if thread is not current:
                thread.join(max(0.0, deadline - time.monotonic()))


class _TaskQueue:
    """Tasks for threads that block until there is one."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._tasks: deque[Callable[[], None]] = deque()
        self._waiting = 0
        self.closed = False

    def put(self, task: Callable[[], None]) -> None:
        with self._condition:
            if self.closed:
                raise LoaderClosedError("the loader is closed; make a new one")
            self._tasks.append(task)
            self._condition.notify()

    def take(self) -> Callable[[], None] | None:
        """Give the next task, or None when there will be none."""
        with self._condition:
            self._waiting += 1
            while not self._tasks and not self.closed:
                self._condition.wait()
            self._waiting -= 1
            return self._tasks.popleft() if self._tasks and not self.closed else None

    def idle(self) -> int:
        """How many threads have nothing to do."""
        with self._condition:
            return self._waiting - len(self._tasks)

    def close(self) -> None:
        with self._condition:
            self.closed = True
            self._tasks.clear()
            self._condition.notify_all()


def _work(queue: _TaskQueue) -> None:
    while (task := queue.take()) is not None:
        task()
        del task  # holds a batch, which must not outlive its consumer while this thread waits


class _BatchTask:
    """One batch, in one or more slices; the thread that ends last collates."""

    def __init__(self, maker: BatchMaker, job: Job, pool: MemoryPool, cuts: list[int]) -> None:
        self._maker = maker
        self._job = job
        self._cuts = cuts
        self._memory: BatchMemory = maker.memory(job, pool.empty)
        self._slices: list[Slice | None] = [None] * (len(cuts) - 1)
        self._missing = len(self._slices)
        self._started = False
        self._lock = threading.Lock()

    def run(self, part: int) -> None:
        job = self._job
        with self._lock:
            if not self._started:
                self._started = True
                if not job.future.set_running_or_notify_cancel():
                    job.abandoned = True
        if job.abandoned or job.future.done():
            return
        try:
            self._slices[part] = self._maker.load(job, self._memory, self._cuts[part], self._cuts[part + 1])
            with self._lock:
                self._missing -= 1
                if self._missing:
                    del job.active[self._cuts[part]]  # this thread is free
                    return
            made = self._maker.finish(job, self._memory, [part for part in self._slices if part is not None])
        except Exception as error:
            self._fail(error)
        except BaseException as error:  # sys.exit() in a transform ends neither this thread nor the consumer's loop
            failure = WorkerError(f"{job.describe()}: the work was ended by {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._fail(failure)
        else:
            job.future.set_result(made)

    def _fail(self, error: Exception) -> None:
        with self._lock:  # the slices of one batch may fail at the same time; the first to do so is told
            if not self._job.future.done():
                self._job.abandoned = True
                self._job.future.set_exception(error)
