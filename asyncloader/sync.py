"""DataLoader: the same loader for a plain ``for``, on an event loop in a background thread."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from asyncloader.errors import LoaderClosedError, WorkerError
from asyncloader.loader import AsyncDataLoader
from asyncloader.pipeline import BatchStream
from asyncloader.stats import LoaderStats

__all__ = ["DataLoader"]

T = TypeVar("T")


class DataLoader:
    """Loads batches for a plain ``for``, in scripts, in threads, and where an event loop is running already.

    It takes the arguments of :class:`AsyncDataLoader`, works the same way, and gives the same batches.
    """

    def __init__(self, dataset: Any, batch_size: int | None = 1, **arguments: Any) -> None:
        self._loader = AsyncDataLoader(dataset, batch_size, **arguments)
        self._thread = _LoopThread()
        # For a loader that is dropped: its executor ends its workers itself, so the loop is all that is left. What this
        # holds lives on until then, so it must not reach the dataset, nor a user's object that holds this one.
        self._finalizer = weakref.finalize(self, self._thread.stop)

    @property
    def dataset(self) -> Any:
        """The dataset given."""
        return self._loader.dataset

    def __len__(self) -> int:
        """Give the number of batches in the next pass."""
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass."""
        return _SyncStream(self, self._loader.__aiter__(), self._thread)

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next pass is."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Say where the consumer is; see :meth:`AsyncDataLoader.state_dict`."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was taken, with the next pass."""
        self._loader.load_state_dict(state)

    def stats(self) -> LoaderStats:
        """Say where the time went; see :meth:`AsyncDataLoader.stats`."""
        return self._loader.stats()

    def __enter__(self) -> Self:
        self._thread.run(self._loader.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop all passes, end the workers, and free what they held."""
        if self._finalizer.detach():
            self._thread.run(self._loader.aclose())
            self._thread.stop()
            self._thread.join()


class _SyncStream:
    """One pass, by ``next``."""

    def __init__(self, loader: DataLoader, stream: BatchStream, thread: _LoopThread) -> None:
        self._loader = loader  # one that nobody else holds lives as long as its passes
        self._stream = stream
        self._thread = thread

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._thread.run(self._stream.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class _LoopThread:
    """An event loop in a thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for what it gives."""
        with self._lock:
            if self._loop is not None and self._pid != os.getpid():
                coroutine.close()
                raise LoaderClosedError(
                    f"this loader is at work in process {self._pid}, which has forked this one: "
                    "make a new loader here, or fork before the loader is used"
                )
            if self._loop is None:
                self._pid = os.getpid()
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run_loop, args=(self._loop,), name="asyncloader-loop", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    coroutine.close()
                    self._loop.close()
                    self._loop = None
                    raise WorkerError(
                        f"no thread could be started ({error}): the limit on processes or on memory is reached; "
                        "raise it (ulimit -u, ulimit -v), or use AsyncDataLoader, which needs one thread less"
                    ) from error
                self._thread = thread
            loop = self._loop
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C while waiting: the coroutine must not go on and take a batch nobody gets
            future.cancel()
            raise

    def stop(self) -> None:
        """Have the loop end; does not wait."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def join(self) -> None:
        """Wait for the thread to end."""
        if self._thread is not None:
            self._thread.join()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    # In place of the loop's own, whose end would wait for a read that is stuck.
    pool = ThreadPoolExecutor(thread_name_prefix="asyncloader-read")
    loop.set_default_executor(pool)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        loop.close()
