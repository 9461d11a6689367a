"""No workers: batches are made where they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from asyncloader.executors.base import Job
from asyncloader.executors.work import BatchMaker
from asyncloader.memory import MemoryPool

__all__ = ["InlineExecutor"]


class InlineExecutor:
    """Makes each batch in the thread that submits it, which is blocked meanwhile.

    Parameters
    ----------
    maker : BatchMaker
        Makes the batches.
    """

    blocking = True
    started = True

    def __init__(self, maker: BatchMaker) -> None:
        self._maker = maker
        self._memory = MemoryPool(keep=2)

    def start(self) -> None:
        """Nothing to start."""

    def submit(self, job: Job) -> None:
        """Make the batch now."""
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            made = self._maker.make(job, self._memory.empty)
        except Exception as error:
            job.future.set_exception(error)
        else:
            job.future.set_result(made)

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Have the jobs not start, or end at their next sample."""
        for job in jobs:
            job.abandon()

    def expire(self, job: Job, error: Exception) -> None:
        """Nothing to do: a job is done before anybody could wait for it."""

    def close(self) -> None:
        """Nothing to end."""
