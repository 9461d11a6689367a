"""What a worker process runs.

Its main thread makes batches, and is where a user's transform finds itself. Another thread takes what the parent
sends, so that neither side ever waits for the other to listen, and so that the parent's death is seen in the middle of
a batch.

This module imports no numpy: the limits on threads must be in the environment before its libraries are loaded.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncloader.executors.base import Job

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
        Which of the workers it is.
    threads : int
        How many threads make batches in it.
    """

    number: int
    threads: int


def worker_main(connection: Connection[Any, Any], options: WorkerOptions) -> None:
    """Serve the parent until it says stop, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    limit = os.environ.get(NUM_THREADS_VARIABLE, "1")
    for variable in _LIBRARY_VARIABLES:
        os.environ[variable] = limit
    try:
        _Worker(connection, options, int(limit)).serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # the parent is gone, and with it whoever could be told


class _Worker:
    def __init__(self, connection: Connection[Any, Any], options: WorkerOptions, thread_limit: int) -> None:
        self._connection = connection
        self._options = options
        self._thread_limit = thread_limit
        self._sending = threading.Lock()
        self._inbox: queue.SimpleQueue[tuple[int, Job, int | None, bool] | None] = queue.SimpleQueue()
        self._jobs: dict[int, Job] = {}
        self._blocks: dict[int, Any] = {}

    def serve(self) -> None:
        from asyncloader.executors.wire import pack_error

        try:
            self._maker = self._load_maker()
        except BaseException as error:
            self._send("failed", pack_error(error))
            return
        self._limit_loaded_libraries()
        threading.Thread(target=self._receive, name="asyncloader-receive", daemon=True).start()
        self._send("ready")
        extra = [
            threading.Thread(target=self._make_batches, name=f"asyncloader-{number}", daemon=True)
            for number in range(1, self._options.threads)
        ]
        for thread in extra:
            thread.start()
        self._make_batches()

    def _load_maker(self) -> Any:
        from asyncloader.executors.blocks import receive_block
        from asyncloader.executors.wire import unpack

        packed, has_block, sizes = self._connection.recv()
        block = receive_block(self._connection, private=True) if has_block else None
        rest = [bytearray(self._connection.recv_bytes()) for _ in sizes]
        return unpack(packed, block, rest)

    def _limit_loaded_libraries(self) -> None:
        # These two set their number of threads when they are loaded, and have a function to change it.
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(self._thread_limit)
        if (cv2 := sys.modules.get("cv2")) is not None:
            cv2.setNumThreads(self._thread_limit if self._thread_limit > 1 else 0)

    def _receive(self) -> None:
        from asyncloader.executors.base import Job
        from asyncloader.executors.blocks import receive_block

        try:
            while True:
                kind, *content = self._connection.recv()
                if kind == "job":
                    number, careful, block, *fields = content
                    job = Job(*fields)
                    self._jobs[number] = job
                    self._inbox.put((number, job, block, careful))
                elif kind == "abandon":
                    if (begun := self._jobs.get(content[0])) is not None:
                        begun.abandoned = True
                elif kind == "map":
                    self._blocks[content[0]] = receive_block(self._connection)
                elif kind == "unmap":
                    self._blocks.pop(content[0], None)
                else:  # stop
                    for _ in range(self._options.threads):
                        self._inbox.put(None)
                    return
        except (EOFError, OSError):
            os._exit(1)

    def _make_batches(self) -> None:
        while (item := self._inbox.get()) is not None:
            self._make(*item)
            del item

    def _make(self, number: int, job: Job, block: int | None, careful: bool) -> None:
        from asyncloader.executors.wire import BlockWriter, pack, pack_error
        from asyncloader.executors.work import JobAbandoned

        def report(position: Any) -> None:
            self._send("at", number, position)

        try:
            writer = BlockWriter(self._blocks[block] if block is not None else None)
            made = self._maker.make(job, writer.empty, report if careful else None)
            packed, rest = pack(made, writer)
        except JobAbandoned:
            self._send("abandoned", number)
        except BaseException as error:
            self._send("error", number, pack_error(error))
        else:
            self._send("made", number, packed, rest=rest)
        finally:
            self._jobs.pop(number, None)

    def _send(self, kind: str, *content: Any, rest: Any = ()) -> None:
        with self._sending:
            self._connection.send((kind, *content))
            for buffer in rest:
                self._connection.send_bytes(buffer)
