"""Where the time went."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TypedDict

from asyncloader.executors.base import Made

__all__ = ["LoaderStats", "StatsCounter"]


class LoaderStats(TypedDict):
    """What ``loader.stats()`` gives, counted since the loader was made.

    ``reading``, ``decoding`` and ``collating`` are seconds of work, summed over workers; decoding includes transforms.
    ``waiting`` is seconds that consumers waited for a batch. ``padded`` and ``dropped`` are samples given twice or left
    out so that all ranks have as many batches, over all ranks and finished passes.
    """

    batches: int
    samples: int
    nbytes: int
    reading: float
    decoding: float
    collating: float
    waiting: float
    skipped: int
    timeouts: int
    workers_restarted: int
    padded: int
    dropped: int


class StatsCounter:
    """Counts what happens in a loader, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        #: Whether the last batch was slow to read, so that telling the kernel of the next ones is worth it.
        self.reads_slowly = True
        self._noticed: set[str] = set()
        self._notices: list[str] = []
        self._seconds: dict[str, float] = {"reading": 0.0, "decoding": 0.0, "collating": 0.0, "waiting": 0.0}

    def notice(self, kind: str, message: str) -> None:
        """Have the consumer told something, once for each kind."""
        with self._lock:
            if kind not in self._noticed:
                self._noticed.add(kind)
                self._notices.append(message)

    def take_notices(self) -> list[str]:
        """Give what the consumer has to be told, for it to be said in the consumer's thread."""
        if not self._notices:
            return []
        with self._lock:
            notices, self._notices = self._notices, []
            return notices

    def add_batch(self, made: Made, waited: float) -> None:
        """Count a batch that was made, and the seconds that its consumer waited for it."""
        if made.skipped:
            self.notice(
                "skipped",
                f"a sample was skipped: {made.skipped[0]} (this is said once; stats()['skipped'] counts on)",
            )
        with self._lock:
            self._counts["batches"] += bool(made.samples)
            self._counts["samples"] += made.samples
            self._counts["nbytes"] += made.nbytes
            self._counts["skipped"] += len(made.skipped)
            self._seconds["reading"] += made.reading
            self._seconds["decoding"] += made.decoding
            self._seconds["collating"] += made.collating
            self._seconds["waiting"] += waited

    def add(self, what: str, count: int = 1) -> None:
        """Count some other event: a key of :class:`LoaderStats`."""
        with self._lock:
            self._counts[what] += count

    def snapshot(self) -> LoaderStats:
        """Give the figures as they are now."""
        with self._lock:
            counts, seconds = self._counts, self._seconds
            return LoaderStats(
                batches=counts["batches"],
                samples=counts["samples"],
                nbytes=counts["nbytes"],
                reading=seconds["reading"],
                decoding=seconds["decoding"],
                collating=seconds["collating"],
                waiting=seconds["waiting"],
                skipped=counts["skipped"],
                timeouts=counts["timeouts"],
                workers_restarted=counts["workers_restarted"],
                padded=counts["padded"],
                dropped=counts["dropped"],
            )
