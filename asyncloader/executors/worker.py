"""What a worker process runs.

Its main thread makes batches, and is where a user's transform finds itself. Another thread takes what the parent
sends, so that neither side ever waits for the other to listen, and so that the parent's death is seen in the middle of
a batch.

This module imports no numpy: the limits on threads must be in the environment before its libraries are loaded.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncloader.executors.base import Job
    from asyncloader.executors.pipes import ProcessConnection

__all__ = ["NUM_THREADS_VARIABLE", "WorkerOptions", "worker_main"]

#: Says how many threads OpenMP, BLAS, OpenCV and torch may use in a worker, instead of one.
NUM_THREADS_VARIABLE = "ASYNCLOADER_WORKER_NUM_THREADS"

_LIBRARY_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker is told at its start.

    Attributes
    ----------
    number : int
        Which of the workers it is, from 0; one that is replaced leaves its number to its successor.
    threads : int
        How many threads make batches in it.
    """

    number: int
    threads: int


def worker_main(connection: ProcessConnection, options: WorkerOptions) -> None:
    """Serve the parent until it says stop, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _end_with_parent()
    limit = os.environ.get(NUM_THREADS_VARIABLE, "1")
    for variable in _LIBRARY_VARIABLES:
        os.environ[variable] = limit
    try:
        _Worker(connection, options, limit).serve()
    except (EOFError, OSError):
        os._exit(1)  # the parent is gone, and with it whoever could be told


def _end_with_parent() -> None:
    """Have the kernel end this process with its parent, where it can.

    The end of the connection tells as well, but not to a worker whose code keeps the GIL, nor while a process that the
    parent forked holds the connection's other end.
    """
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        parent = multiprocessing.parent_process()
        if parent is not None and os.getppid() != parent.pid:
            os._exit(1)


class _Worker:
    def __init__(self, connection: ProcessConnection, options: WorkerOptions, thread_limit: str) -> None:
        self._connection = connection
        self._options = options
        self._thread_limit = thread_limit
        self._sending = threading.Lock()
        self._inbox: queue.SimpleQueue[tuple[int, Job, int | None] | None] = queue.SimpleQueue()
        self._jobs: dict[int, Job] = {}
        self._blocks: dict[int, Any] = {}

    def serve(self) -> None:
        from asyncloader.errors import SharedMemoryError
        from asyncloader.executors.wire import pack_error

        try:
            payload = self._receive_payload()
        except SharedMemoryError as error:
            self._send("failed", pack_error(error))
            return
        # From here on the parent's end is seen, however long the user's code takes to load.
        threading.Thread(target=self._receive, name="asyncloader-receive", daemon=True).start()
        self._send("loading")
        try:
            self._load_maker(*payload)
        except BaseException as error:
            self._send("failed", pack_error(error))
            return
        self._send("ready")
        extra = [
            threading.Thread(target=self._make_batches, name=f"asyncloader-{number}", daemon=True)
            for number in range(1, self._options.threads)
        ]
        for thread in extra:
            thread.start()
        self._make_batches()

    def _receive_payload(self) -> tuple[Any, Any, list[bytearray]]:
        from asyncloader.executors.blocks import receive_block

        packed, has_block, parts = pickle.loads(self._connection.recv_bytes())
        block = receive_block(self._connection, private=True) if has_block else None
        return packed, block, [bytearray(self._connection.recv_bytes()) for _ in range(parts)]

    def _load_maker(self, packed: Any, block: Any, rest: list[bytearray]) -> None:
        from asyncloader.errors import WorkerError
        from asyncloader.executors.wire import unpack

        if not self._thread_limit.isdecimal() or int(self._thread_limit) < 1:
            raise WorkerError(f"{NUM_THREADS_VARIABLE} must be a positive whole number, not {self._thread_limit!r}")
        self._maker = unpack(packed, block, rest)
        self._limit_loaded_libraries()
        if self._maker.worker_init is not None:
            self._maker.worker_init(self._options.number)

    def _limit_loaded_libraries(self) -> None:
        # These two set their number of threads when they are loaded, and have a function to change it.
        limit = int(self._thread_limit)
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(limit)
        if (cv2 := sys.modules.get("cv2")) is not None:
            cv2.setNumThreads(limit if limit > 1 else 0)

    def _receive(self) -> None:
        from asyncloader.errors import SharedMemoryError
        from asyncloader.executors.blocks import receive_block

        try:
            while True:
                kind, *content = pickle.loads(self._connection.recv_bytes())
                if kind == "job":
                    self._take_job(*content)
                elif kind == "abandon":
                    if (begun := self._jobs.get(content[0])) is not None:
                        begun.abandoned = True
                elif kind == "map":
                    try:
                        self._blocks[content[0]] = receive_block(self._connection)
                    except SharedMemoryError:
                        self._blocks[content[0]] = None  # the batches in it are sent
                elif kind == "unmap":
                    self._blocks.pop(content[0], None)
                else:  # stop
                    for _ in range(self._options.threads):
                        self._inbox.put(None)
                    return
        except (EOFError, OSError):
            os._exit(1)

    def _take_job(self, number: int, careful: bool, block: int | None, pickled: bytes) -> None:
        from asyncloader.executors.base import Job
        from asyncloader.executors.wire import pack_error

        try:
            job = Job(*pickle.loads(pickled))
            job.careful = careful
        except Exception as error:  # positions of a sampler's own classes
            self._send("error", number, pack_error(error))
            return
        self._jobs[number] = job
        self._inbox.put((number, job, block))

    def _make_batches(self) -> None:
        while (item := self._inbox.get()) is not None:
            self._make(*item)
            del item

    def _make(self, number: int, job: Job, block: int | None) -> None:
        from asyncloader.executors.wire import BlockWriter, pack, pack_error
        from asyncloader.executors.work import JobAbandoned

        def report(position: Any) -> None:
            self._send("at", number, position)

        try:
            writer = BlockWriter(self._blocks[block] if block is not None else None)
            memory = self._maker.memory(job, writer.empty)
            samples = self._maker.load(job, memory, watch=report)
            if job.careful:
                report(None)
            made = self._maker.finish(job, memory, [samples])
            try:
                packed, rest = pack(made, writer)
            except Exception:
                if not self._maker.settle_unsendable(job, samples):
                    raise
                packed, rest = pack(self._maker.finish(job, memory, [samples]), writer)
        except JobAbandoned:
            self._send("abandoned", number)
        except BaseException as error:
            self._send("error", number, pack_error(error))
        else:
            self._send("made", number, packed, rest=rest)
        finally:
            self._jobs.pop(number, None)

    def _send(self, kind: str, *content: Any, rest: Any = ()) -> None:
        if kind == "at":  # the position may be of a class in the main module
            import cloudpickle

            message = cloudpickle.dumps((kind, *content), protocol=5)
        else:
            message = pickle.dumps((kind, *content), protocol=5)
        try:
            with self._sending:
                self._connection.send_bytes(message)
                for buffer in rest:
                    self._connection.send_bytes(buffer)
        except OSError:
            os._exit(1)  # the parent is gone
