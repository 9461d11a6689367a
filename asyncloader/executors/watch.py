"""Waiting for any of several connections and processes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeAlias

from asyncloader.executors.pipes import ProcessConnection

__all__ = ["Source", "Watch"]

#: A connection that may have something to read, or the sentinel of a process that may end.
Source: TypeAlias = "ProcessConnection | int"

if sys.platform == "win32":
    from multiprocessing.connection import wait

    class Watch:
        """The sources waited for."""

        def __init__(self) -> None:
            self._sources: list[Source] = []

        def add(self, *sources: Source) -> None:
            """Wait for these too."""
            self._sources += sources

        def remove(self, *sources: Source) -> None:
            """Wait for these no longer; before they are closed."""
            for source in sources:
                self._sources.remove(source)

        def wait(self) -> Iterable[Source]:
            """Wait until there are some that are ready, and give them."""
            return wait(self._sources)  # type: ignore[return-value]

        def close(self) -> None:
            """Wait for nothing any more."""

else:
    import selectors

    class Watch:
        """The sources waited for.

        ``multiprocessing.connection.wait`` makes a new selector at each call, which takes longer than dealing with
        what it finds.
        """

        def __init__(self) -> None:
            self._selector = selectors.DefaultSelector()

        def add(self, *sources: Source) -> None:
            """Wait for these too."""
            for source in sources:
                self._selector.register(source, selectors.EVENT_READ)

        def remove(self, *sources: Source) -> None:
            """Wait for these no longer; before they are closed."""
            for source in sources:
                self._selector.unregister(source)

        def wait(self) -> Iterable[Source]:
            """Wait until there are some that are ready, and give them."""
            return [key.fileobj for key, _ in self._selector.select()]  # type: ignore[misc]

        def close(self) -> None:
            """Wait for nothing any more."""
            self._selector.close()
