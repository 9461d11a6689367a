"""Sending to a worker without ever waiting for it to listen."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeAlias

from asyncloader.errors import WorkerError
from asyncloader.executors.blocks import SharedBlock
from asyncloader.executors.pipes import ProcessConnection

__all__ = ["Sender"]

Part: TypeAlias = bytes | memoryview | SharedBlock


class Sender:
    """A thread that sends what it is given through one connection.

    A worker that is starting, stopped, or in code that keeps the GIL does not listen, and a pipe holds little. Whoever
    has to look after other workers meanwhile leaves the waiting to this thread.

    Parameters
    ----------
    connection : Connection
        Closed by this object, after what was given until ``close``.
    on_failure : callable
        Called in the thread when the worker has ended, or cannot be reached any more.

    Raises
    ------
    WorkerError
        No thread can be started.
    """

    def __init__(self, connection: ProcessConnection, on_failure: Callable[[], None]) -> None:
        self._queue: queue.SimpleQueue[tuple[Part, ...] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=_send_all, args=(connection, self._queue, on_failure), name="asyncloader-send", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:
            raise WorkerError(f"no thread could be started ({error}): the limit on processes is reached") from error

    def send(self, *parts: Part) -> None:
        """Send these one after the other: bytes as one message each, a block as a block."""
        self._queue.put(parts)

    def close(self) -> None:
        """Close the connection after what was given; does not wait."""
        self._queue.put(None)

    def join(self, timeout: float) -> None:
        """Wait until the connection is closed."""
        self._thread.join(timeout)


def _send_all(
    connection: ProcessConnection,
    waiting: queue.SimpleQueue[tuple[Part, ...] | None],
    on_failure: Callable[[], None],
) -> None:
    with connection:
        try:
            while (parts := waiting.get()) is not None:
                for part in parts:
                    if isinstance(part, SharedBlock):
                        part.send(connection)
                    else:
                        connection.send_bytes(part)
                del parts, part  # may hold a block, which must not live on while this thread waits
        except OSError:
            on_failure()
            while waiting.get() is not None:
                pass
