"""Whose fault it is that a worker ended: nobody's, a sample's, or the dataset's."""

from __future__ import annotations

import signal
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
#: The same for workers that are killed before they came to load anything of the user's, so that nothing of it is at
#: fault.
KILLED_STARTS = 25
#: The exit code of what SIGKILL ended; on Windows there is no such name.
KILLED = -9


class CrashRecord:
    """What workers were at when they ended."""

    def __init__(self) -> None:
        self._positions: dict[Job, list[Any]] = {}
        self._failed_starts = 0
        self._killed_starts = 0

    def forget(self, job: Job) -> None:
        """Note that a job is done."""
        self._positions.pop(job, None)

    def note_start(self) -> None:
        """Note that a worker came to be ready."""
        self._failed_starts = self._killed_starts = 0

    def judge_start(self, loading: bool, code: int | None) -> WorkerCrashedError | None:
        """Give the error to fail with after a worker ended before it was ready, or None to try another.

        Parameters
        ----------
        loading : bool
            Whether it had begun to load the dataset.
        code : int or None
            Its exit code.
        """
        if code == KILLED and not loading:
            self._killed_starts += 1
            count, limit, advice = self._killed_starts, KILLED_STARTS, "memory is short, or something kills them"
        else:
            self._failed_starts += 1
            count, limit = self._failed_starts, FAILED_STARTS
            advice = "loading the dataset there ends the process; try it with num_workers=0"
        if count < limit:
            return None
        return WorkerCrashedError(
            f"{count} worker processes in a row ended before they were ready, the last {ending(code)}: {advice}"
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
