"""Batches made in spawned processes."""

from __future__ import annotations

import atexit
import contextlib
import pickle
import threading
import weakref
from collections.abc import Sequence

import cloudpickle

from asyncloader.errors import LoaderClosedError, SharedMemoryError, WorkerError
from asyncloader.executors.base import Job
from asyncloader.executors.blocks import SharedBlock
from asyncloader.executors.supervisor import Payload, Supervisor
from asyncloader.executors.wire import BlockWriter, Packed
from asyncloader.executors.work import BatchMaker
from asyncloader.memory import ALIGNMENT
from asyncloader.stats import StatsCounter

__all__ = ["ProcessExecutor"]

#: How long ``close`` waits for the workers; they are killed long before.
CLOSE_TIMEOUT = 5.0

#: A batch is not asked for again when so many timeouts have passed without a worker that was ready to begin it.
UNBEGUN = 5

#: From this many bytes of arrays on, a dataset's are shared by the workers instead of sent to each.
SHARED_PAYLOAD = 1 << 16


class ProcessExecutor:
    """A fixed number of spawned processes that read and decode for themselves.

    Parameters
    ----------
    maker : BatchMaker
        Makes the batches; pickled once, when the workers start.
    num_workers, threads_per_worker : int
        How many processes, and threads in each.
    prefetch : int
        Batches that may be under way.
    stats : StatsCounter
        Told of workers that are replaced.
    """

    blocking = False

    def __init__(
        self, maker: BatchMaker, num_workers: int, threads_per_worker: int, *, prefetch: int, stats: StatsCounter
    ) -> None:
        self._maker = maker
        self._num_workers = num_workers
        self._threads_per_worker = threads_per_worker
        self._prefetch = prefetch
        self._stats = stats
        self._lock = threading.Lock()
        self._supervisor: Supervisor | None = None
        self._finalizer: weakref.finalize[..., ProcessExecutor] | None = None
        self._closed = False

    @property
    def started(self) -> bool:
        """Whether the workers have been told to start."""
        return self._supervisor is not None

    def start(self) -> None:
        """Pickle what the workers need and have them start, in the background."""
        with self._lock:
            if self._closed:
                raise LoaderClosedError("the loader is closed; make a new one")
            if self._supervisor is not None:
                return
            supervisor = Supervisor(
                _payload(self._maker),
                self._num_workers,
                self._threads_per_worker,
                prefetch=self._prefetch,
                skips=self._maker.on_error != "raise",
                stats=self._stats,
            )
            supervisor.start()
            self._supervisor = supervisor
            _running.add(supervisor)
            # The supervisor's thread holds no reference to this object, so that one that is dropped ends the workers.
            self._finalizer = weakref.finalize(self, supervisor.stop)
            self._finalizer.atexit = False

    def submit(self, job: Job) -> None:
        """Have a worker make the batch."""
        self.start()
        assert self._supervisor is not None
        self._supervisor.submit(job)

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Have the jobs not start, or end at their next sample."""
        for job in jobs:
            job.abandon()
        if self._supervisor is not None:
            self._supervisor.abandon(jobs)

    def expire(self, job: Job, error: Exception) -> Job | None:
        """End the worker that is stuck; without the sample, once it is known which it is, the batch is made again."""
        begun, stuck = bool(job.active), [position for position in job.active.values() if position is not None]
        job.abandon()
        if self._supervisor is not None:
            self._supervisor.end_worker_of(job)
        if self._maker.on_error == "raise":
            return None
        successor = job.without(stuck, error)
        if begun and len(successor.failed) == len(job.failed):
            return None  # no sample is stuck, but the collate function
        successor.careful = True
        successor.unbegun = 0 if begun else job.unbegun + 1
        if successor.unbegun >= UNBEGUN:
            return None
        return successor

    def close(self) -> None:
        """End the workers and wait until they are gone."""
        with self._lock:
            self._closed = True
            supervisor = self._supervisor
        if supervisor is not None and self._finalizer is not None:
            self._finalizer.detach()
            supervisor.stop()
            supervisor.join(CLOSE_TIMEOUT)


#: Supervisors that are at work: the interpreter does not wait for their threads at its exit, so this module does.
_running: weakref.WeakSet[Supervisor] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    supervisors = list(_running)
    for supervisor in supervisors:
        supervisor.stop()
    for supervisor in supervisors:
        supervisor.join(CLOSE_TIMEOUT)


def _payload(maker: BatchMaker) -> Payload:
    """Pickle what the workers need, once for all of them, its large arrays into memory that they share."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        body = cloudpickle.dumps(maker, protocol=5, buffer_callback=buffers.append)
    except Exception as error:
        raise WorkerError(
            f"the dataset, its transform or the collate function cannot be sent to a process ({error}): open files, "
            "locks and connections cannot; open them when a sample is first asked for, or use workers='threads'"
        ) from error
    raws = [buffer.raw() for buffer in buffers]
    size = sum(raw.nbytes + ALIGNMENT for raw in raws)
    block = None
    if size >= SHARED_PAYLOAD:
        with contextlib.suppress(SharedMemoryError):  # then each worker is sent its own copy
            block = SharedBlock(-1, size)
    writer = BlockWriter(block.memory if block is not None else None)
    places = [(writer.place(raw), raw.nbytes) for raw in raws]
    rest = [raw for raw, (start, _) in zip(raws, places, strict=True) if start is None]
    header = pickle.dumps((Packed(body, places, writer.needed), block is not None, len(rest)), protocol=5)
    return Payload(header, block, rest)
