"""Whose fault it is that a worker ended: nobody's, a sample's, or the dataset's."""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

from asyncloader.errors import WorkerCrashedError
from asyncloader.executors.base import Job

__all__ = ["CrashRecord", "ending"]

#: A sample is given up when it has ended this many workers in its batch's careful repetitions: a kill that comes from
#: outside does not hit the same sample again and again.
CRASHES_PER_SAMPLE = 3
#: A batch is given up after this many workers that could not say which sample they were at. The first never can.
CRASHES_PER_BATCH = 5
#: Workers that end before they are ready, in a row, before the loader gives up.
FAILED_STARTS = 3
#: The same for workers that SIGKILL ended while they loaded the user's dataset, which may be for lack of memory, or by
#: somebody's hand.
KILLED_LOADS = 10
#: The same for workers that were killed before they came to load anything of the user's, so that nothing of it is at
#: fault.
KILLED_STARTS = 25
#: The exit code of what SIGKILL ended; on Windows there is no such name.
KILLED = -9


class CrashRecord:
    """What workers were at when they ended."""

    def __init__(self) -> None:
        self._positions: dict[Job, list[Any]] = {}
        self._bad_starts: Counter[str] = Counter()

    def forget(self, job: Job) -> None:
        """Note that a job is done."""
        self._positions.pop(job, None)

    def note_start(self) -> None:
        """Note that a worker came to be ready."""
        self._bad_starts.clear()

    def judge_start(self, loading: bool, code: int | None) -> WorkerCrashedError | None:
        """Give the error to fail with after a worker ended before it was ready, or None to try another.

        Parameters
        ----------
        loading : bool
            Whether it had begun to load the dataset.
        code : int or None
            Its exit code.
        """
        if code != KILLED:
            reason, limit = "loading the dataset there ends the process; try it with num_workers=0", FAILED_STARTS
        elif loading:
            reason, limit = "loading the dataset there takes too much memory, or something kills them", KILLED_LOADS
        else:
            reason, limit = "memory is short, or something kills them", KILLED_STARTS
        self._bad_starts[reason] += 1
        count = self._bad_starts[reason]
        if count < limit:
            return None
        return WorkerCrashedError(
            f"{count} worker processes in a row ended before they were ready, the last {ending(code)}: {reason}"
        )

    def judge(self, job: Job, code: int | None) -> WorkerCrashedError | None:
        """Give the error for the job, or the sample, that a worker was at when it ended; None to do it again.

        Afterwards the job is done with care: the worker reports each position before it makes the sample.
        """
        position = job.active.pop(0, None)
        if position not in job.positions:  # none, or one that does not equal what was sent
            position = None
        crashes = self._positions.setdefault(job, [])
        crashes.append(position)
        job.careful = True
        if position is not None and crashes.count(position) >= CRASHES_PER_SAMPLE:
            self.forget(job)
            return WorkerCrashedError(
                f"sample at position {position} ended its worker process {CRASHES_PER_SAMPLE} times, the last "
                f"{ending(code)}: its transform or codec crashes, or it takes too much memory (in {job.describe()})",
                position=position,
            )
        if crashes.count(None) >= CRASHES_PER_BATCH:
            self.forget(job)
            return WorkerCrashedError(
                f"{job.describe()} ended its worker {len(crashes)} times, the last {ending(code)}"
            )
        return None


def ending(code: int | None) -> str:
    """Word how a process ended."""
    if code is None or code >= 0:
        return f"with exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = ", perhaps by the kernel because memory was short" if name == "SIGKILL" else ""
    return f"by signal {-code} ({name}{hint})"
