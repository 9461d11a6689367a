"""The thread that owns the worker processes.

All that concerns a worker (its process, its connection, what it is doing) is touched by this one thread, so none of it
needs a lock. Others put a command in its queue and wake it.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import numpy as np

from asyncloader.errors import LoaderClosedError, SharedMemoryError, WorkerError
from asyncloader.executors.base import Job, Made
from asyncloader.executors.blocks import SharedBlock
from asyncloader.executors.crashes import CrashRecord, ending
from asyncloader.executors.lending import BlockLender
from asyncloader.executors.pipes import ProcessConnection
from asyncloader.executors.sender import Sender
from asyncloader.executors.spawn import WorkerProcess, start_process
from asyncloader.executors.watch import Watch
from asyncloader.executors.wire import Packed, unpack, unpack_error
from asyncloader.executors.worker import WorkerOptions, worker_main
from asyncloader.stats import StatsCounter

__all__ = ["Payload", "Supervisor"]

#: Seconds that workers get to end by themselves at the end.
STOP_TIMEOUT = 0.5


@dataclass(frozen=True, slots=True)
class Payload:
    """What every worker is given at its start, pickled once.

    Attributes
    ----------
    header : bytes
        The pickled batch maker, what follows, and how it belongs together.
    block : SharedBlock or None
        The large arrays in it, which workers map instead of each getting a copy.
    rest : list of memoryview
        The arrays, where shared memory is short.
    """

    header: bytes
    block: SharedBlock | None
    rest: Sequence[memoryview]


@dataclass(eq=False)
class _Assignment:
    """A job that a worker has."""

    job: Job
    block: SharedBlock | None


@dataclass(eq=False)
class _Worker:
    number: int
    process: WorkerProcess
    connection: ProcessConnection
    sender: Sender
    loading: bool = False
    ready: bool = False
    jobs: dict[int, _Assignment] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    expired: bool = False


class Supervisor:
    """Keeps ``num_workers`` processes at work until it is stopped.

    Parameters
    ----------
    payload : Payload
        What the workers are given.
    num_workers, threads_per_worker : int
        How many processes, and threads in each.
    prefetch : int
        Batches that may be under way, from which the number of shared blocks follows.
    skips : bool
        Whether a sample that ends its worker may be left to ``on_error``, or ends the batch.
    stats : StatsCounter
        Told of workers that are replaced.
    """

    def __init__(
        self,
        payload: Payload,
        num_workers: int,
        threads_per_worker: int,
        *,
        prefetch: int,
        skips: bool,
        stats: StatsCounter,
    ) -> None:
        self._payload = payload
        self._num_workers = num_workers
        self._threads = threads_per_worker
        self._depth = threads_per_worker + 1  # the next batch is there when the one before it is done
        self._skips = skips
        self._stats = stats
        self._numbers = itertools.count()
        self._workers: list[_Worker] = []
        self._pending: deque[Job] = deque()
        self._crashes = CrashRecord()
        self._failure: Exception | None = None
        self._blocks = BlockLender(prefetch, self._forget)
        self._receiving: _Worker | None = None
        self._commands: deque[Callable[[], None]] = deque()
        self._awake, self._wake = multiprocessing.Pipe(duplex=False)
        self._watch = Watch()
        self._watch.add(self._awake)
        self._pid = os.getpid()
        # Reentrant, since the garbage collector may run a finalizer that stops this object while the lock is held.
        self._waking = threading.RLock()
        self._woken = False
        self._idle = False
        self._stopping = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="asyncloader-supervisor", daemon=True)

    # What other threads call

    def start(self) -> None:
        """Start the thread, which starts the workers."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._watch.close()
            self._wake.close()
            self._awake.close()
            raise WorkerError(f"no thread could be started ({error}): the limit on processes is reached") from error

    def submit(self, job: Job) -> None:
        """Have a worker make the job's batch."""
        if os.getpid() != self._pid:
            raise LoaderClosedError(
                f"the workers of this loader serve process {self._pid}, which has forked this one: "
                "make a new loader here, or fork before the loader is used"
            )
        if not self._command(lambda: self._pending.append(job), urgent=False):
            _set(job, LoaderClosedError("the loader is closed; make a new one"))

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Tell the workers that nobody wants these batches any more."""
        self._command(lambda: self._tell_abandoned(jobs))

    def end_worker_of(self, job: Job) -> None:
        """Kill the worker that is at a job; its other jobs are done by another."""
        told = self._command(lambda: self._end_worker_of(job))
        sending = self._receiving
        if told and sending is not None and any(assignment.job is job for assignment in list(sending.jobs.values())):
            # In the middle of a message it is stuck, and the thread that waits for the rest of it.
            sending.expired = True
            sending.process.kill()

    def stop(self) -> None:
        """Have everything end; does not wait."""
        told = self._command(self._begin_stop)
        sending = self._receiving
        if told and sending is not None:
            sending.process.kill()

    def join(self, timeout: float) -> None:
        """Wait for the end."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _command(self, command: Callable[[], None], *, urgent: bool = True) -> bool:
        """Have the thread do something, now or if that is soon enough with the next batch; False if it has ended."""
        if os.getpid() != self._pid:
            return False
        with self._waking:
            if self._ended:
                return False
            self._commands.append(command)
            if not self._woken and (urgent or self._idle):
                self._woken = True
                self._wake.send_bytes(b"\0")
            return True

    # The thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._keep_workers()
                self._assign()
                self._wait()
        except Exception as error:  # a fault of ours must reach the consumer, not leave it waiting
            self._failure = WorkerError(f"the supervisor of the worker processes failed: {error!r}")
            self._failure.__cause__ = error
        finally:
            self._end()

    def _wait(self) -> None:
        with self._waking:
            # While all have work, each new job would wake this thread for nothing: it wakes anyway when one is done.
            busy = bool(self._workers) and all(len(worker.jobs) >= self._threads for worker in self._workers)
            self._idle = not busy or self._failure is not None
            wait = not self._commands
        ready = set(self._watch.wait()) if wait else set()
        if self._awake in ready:
            with self._waking:
                self._awake.recv_bytes()
                self._woken = False
        while self._commands:
            self._commands.popleft()()
        for worker in list(self._workers):
            ended = worker.process.sentinel in ready
            if (ended or worker.connection in ready) and not self._receive(worker, everything=ended):
                self._bury(worker)

    def _receive(self, worker: _Worker, *, everything: bool) -> bool:
        """Take a message that a worker has sent, or all it ever will; False if it will send no more."""
        self._receiving = worker
        try:
            while not everything or worker.connection.poll():
                self._handle(worker, *pickle.loads(worker.connection.recv_bytes()))
                if not everything:
                    return True
        except (EOFError, OSError):
            pass
        finally:
            self._receiving = None
        return False

    def _keep_workers(self) -> None:
        while len(self._workers) < self._num_workers and self._failure is None:
            try:
                self._start_worker()
            except (WorkerError, SharedMemoryError) as error:
                if not self._workers:
                    self._fail(error)
                else:
                    self._num_workers = len(self._workers)  # fewer workers give the same batches
                return

    def _start_worker(self) -> None:
        taken = {worker.number for worker in self._workers}
        number = next(number for number in itertools.count() if number not in taken)
        try:
            ours, theirs = multiprocessing.Pipe()
        except OSError as error:
            raise WorkerError(f"a worker process could not be started ({error}): use fewer workers") from error
        try:
            process = start_process(
                worker_main, (theirs, WorkerOptions(number, self._threads)), f"asyncloader-{number}"
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
            sender = Sender(ours, process.kill)
        except WorkerError:
            process.finish()
            ours.close()
            raise
        self._workers.append(_Worker(number, process, ours, sender))
        self._watch.add(ours, process.sentinel)
        payload = self._payload
        sender.send(payload.header, *([payload.block] if payload.block is not None else []), *payload.rest)

    def _assign(self) -> None:
        """Give waiting jobs to the workers that have the fewest; a careful one waits for a worker that has none."""
        if self._failure is not None:
            self._fail(self._failure)
        while self._pending:
            free = [worker for worker in self._workers if self._has_room(worker)]
            if not free:
                return
            job = self._pending.popleft()
            if job.abandoned or job.future.cancelled():
                self._crashes.forget(job)
                continue
            if job.careful and all(worker.jobs for worker in free):
                self._pending.appendleft(job)
                return
            if not job.future.running() and not job.future.set_running_or_notify_cancel():
                continue
            self._give(min(free, key=lambda worker: len(worker.jobs)), job)

    def _has_room(self, worker: _Worker) -> bool:
        # One that is suspected of ending its worker is there alone, so that no other is blamed or taken along.
        suspected = any(assignment.job.careful for assignment in worker.jobs.values())
        return worker.ready and len(worker.jobs) < self._depth and not suspected

    def _give(self, worker: _Worker, job: Job) -> None:
        fields = (job.number, job.epoch, job.positions, job.payloads, job.failed)
        try:
            # By value where need be: a user's positions may be of a class of the main module. numpy's are not.
            dump = pickle.dumps if isinstance(job.positions, np.ndarray) else cloudpickle.dumps
            pickled = dump(fields, protocol=5)
        except Exception as error:
            failure = WorkerError(f"the positions of batch {job.number} cannot be sent to a process: {error}")
            failure.__cause__ = error
            _set(job, failure)
            return
        block = self._take_block()
        number = next(self._numbers)
        worker.jobs[number] = _Assignment(job, block)
        if block is not None and block.number not in worker.known:
            worker.known.add(block.number)
            worker.sender.send(pickle.dumps(("map", block.number)), block)
        worker.sender.send(pickle.dumps(("job", number, job.careful, block.number if block else None, pickled)))

    def _handle(self, worker: _Worker, kind: str, *content: Any) -> None:
        if kind == "loading":
            worker.loading = True
        elif kind == "ready":
            worker.ready = True
            self._crashes.note_start()
        elif kind == "failed":
            self._fail(unpack_error(content[0]))
        elif kind == "at":
            worker.jobs[content[0]].job.active[0] = content[1]
        elif kind == "made":
            self._deliver(worker, *content)
        else:
            assignment = worker.jobs.pop(content[0])
            self._blocks.give_back(assignment.block)
            self._crashes.forget(assignment.job)
            if kind == "error":
                _set(assignment.job, unpack_error(content[1]))
            elif not assignment.job.abandoned:  # abandoned there, but by mistake: nobody may be left waiting
                self._pending.appendleft(assignment.job)

    def _deliver(self, worker: _Worker, number: int, packed: Packed) -> None:
        rest = []
        for start, size in packed.places:
            if start is None:
                buffer = bytearray(size)
                worker.connection.recv_bytes_into(buffer)
                rest.append(buffer)
        assignment = worker.jobs.pop(number)
        job, block = assignment.job, assignment.block
        self._crashes.forget(job)
        self._blocks.note_need(packed.needed)
        memory: Any = None
        if block is not None:
            if job.abandoned or all(start is None for start, _ in packed.places):
                self._blocks.give_back(block)
            else:
                memory = self._blocks.lend(block, packed.needed)
        if job.abandoned:
            return
        try:
            made: Made = unpack(packed, memory, rest)
        except Exception as error:
            failure = WorkerError(f"{job.describe()} came from its worker but cannot be unpickled here: {error}")
            failure.__cause__ = error
            _set(job, failure)
        else:
            _set(job, made)

    # Blocks

    def _take_block(self) -> SharedBlock | None:
        """Give a block for the next batch, or None where it must come another way."""
        try:
            return self._blocks.take()
        except SharedMemoryError as error:
            self._stats.notice("memory", f"{error}; batches are sent through pipes, which is slower")
            return None

    def _forget(self, block: SharedBlock) -> None:
        for worker in self._workers:
            if block.number in worker.known:
                worker.known.discard(block.number)
                _send(worker, ("unmap", block.number))

    # Workers that end

    def _bury(self, worker: _Worker) -> None:
        """Deal with a worker that has ended: its jobs go to others, the one it was at with caution."""
        self._workers.remove(worker)
        self._watch.remove(worker.connection, worker.process.sentinel)
        pid = worker.process.pid
        code = worker.process.finish()  # its connection may have ended before it has
        worker.sender.close()
        if not worker.ready:
            error = self._crashes.judge_start(worker.loading, code)
            if error is not None and self._failure is None:
                self._fail(error)
        elif not worker.expired:
            self._stats.notice(
                "crash",
                f"a worker process (pid {pid}) ended {ending(code)} and was replaced; its batches are made again "
                "(this is said once; stats()['workers_restarted'] counts on)",
            )
        if self._failure is None:
            self._stats.add("workers_restarted")
        assignments = list(worker.jobs.values())
        for assignment in assignments:
            self._blocks.give_back(assignment.block)
        jobs: list[Job | None] = [assignment.job for assignment in assignments]
        if not worker.expired:
            jobs[: self._threads] = [self._after_crash(a.job, code) for a in assignments[: self._threads]]
        self._pending.extendleft(job for job in reversed(jobs) if job is not None)

    def _after_crash(self, job: Job, code: int | None) -> Job | None:
        """Give the job to do again after a worker ended at it, or None if it is given up."""
        error = self._crashes.judge(job, code)
        if error is None:
            return job
        if error.position is None or not self._skips:
            _set(job, error)
            return None
        job.failed.update((slot, error) for slot, other in enumerate(job.positions) if other == error.position)
        return job

    def _end_worker_of(self, job: Job) -> None:
        for worker in self._workers:
            if any(assignment.job is job for assignment in worker.jobs.values()):
                worker.expired = True
                worker.process.kill()
                return

    def _tell_abandoned(self, jobs: Sequence[Job]) -> None:
        gone = set(map(id, jobs))
        for worker in self._workers:
            for number, assignment in worker.jobs.items():
                if id(assignment.job) in gone:
                    _send(worker, ("abandon", number))

    # The end

    def _fail(self, error: Exception) -> None:
        """Tell every consumer that there will be no batches."""
        self._failure = error
        jobs = [*self._pending, *(a.job for worker in self._workers for a in worker.jobs.values())]
        self._pending.clear()
        for job in jobs:
            _set(job, error)

    def _begin_stop(self) -> None:
        self._stopping = True

    def _end(self) -> None:
        self._fail(self._failure or LoaderClosedError("the loader was closed while a batch was awaited"))
        for worker in self._workers:
            if worker.jobs or not worker.ready:
                worker.process.kill()  # it is in the middle of what nobody wants
            else:
                _send(worker, ("stop",))
        deadline = time.monotonic() + STOP_TIMEOUT
        for worker in self._workers:
            worker.process.finish(max(0.0, deadline - time.monotonic()))
            worker.sender.close()
        for worker in self._workers:
            worker.sender.join(STOP_TIMEOUT)
        self._workers.clear()
        with self._waking:
            self._ended = True
            self._watch.close()
            self._wake.close()
            self._awake.close()
        while self._commands:  # a job that was submitted meanwhile must not wait for ever
            self._commands.popleft()()
        self._fail(LoaderClosedError("the loader is closed; make a new one"))
        del self._blocks, self._payload  # a closed loader that is kept holds no memory


def _set(job: Job, outcome: Made | Exception) -> None:
    if job.future.done():
        return
    if isinstance(outcome, Made):
        job.future.set_result(outcome)
    elif job.future.running() or job.future.set_running_or_notify_cancel():
        job.future.set_exception(outcome)


def _send(worker: _Worker, message: tuple[Any, ...]) -> None:
    worker.sender.send(pickle.dumps(message))
