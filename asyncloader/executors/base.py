"""What an executor is: "run this batch, give me its future"."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Executor", "Job", "Made", "Positions"]

Positions: TypeAlias = NDArray[np.int64] | list[Any]


@dataclass(slots=True, eq=False)
class Job:
    """One batch to make.

    Attributes
    ----------
    number : int
        The batch's number in its epoch.
    epoch : int
        Goes into the samples' randomness.
    positions : sequence
        The samples wanted.
    payloads : sequence, optional
        What was read for them already, where the dataset reads on the event loop.
    failed : dict
        Slots of samples that are known to fail (they hang, or kill their worker), and their errors.
    future : Future
        Gets the :class:`Made` batch, or the exception.
    abandoned : bool
        Set when nobody wants the batch any more; looked at before each sample.
    active : dict
        The position each slice is at, by the slice's first slot; None where it is at no sample that is known.
    careful : bool
        Whether samples are read and made one by one, each reported before; set once a batch has cost a worker.
    unbegun : int
        How many times it was given up before a worker had begun it.
    """

    number: int
    epoch: int
    positions: Positions
    payloads: Sequence[object] | None = None
    failed: dict[int, Exception] = field(default_factory=dict)
    future: Future[Made] = field(default_factory=Future)
    abandoned: bool = False
    active: dict[int, Any] = field(default_factory=dict)
    careful: bool = False
    unbegun: int = 0

    def abandon(self) -> None:
        """Say that nobody wants the batch any more: it does not start, or ends at its next sample."""
        self.abandoned = True
        self.future.cancel()

    def without(self, positions: Collection[Any], error: Exception) -> Job:
        """Give the same batch as a new job in which the samples at ``positions`` are known to fail."""
        failed = {slot: error for slot, position in enumerate(self.positions) if position in positions}
        return Job(self.number, self.epoch, self.positions, self.payloads, {**self.failed, **failed})

    def describe(self) -> str:
        """Name the batch, for messages."""
        shown = ", ".join(map(str, self.positions[:8]))
        rest = f", ... ({len(self.positions)} in all)" if len(self.positions) > 8 else ""
        return f"batch {self.number} of epoch {self.epoch} (positions {shown}{rest})"


@dataclass(slots=True)
class Made:
    """A batch that was made.

    Attributes
    ----------
    batch : object
        What the collate function gave; meaningless if ``samples`` is 0.
    samples : int
        How many samples are in it.
    nbytes : int
        Bytes of its arrays.
    skipped : list of str
        The messages of the samples that were dropped.
    reading, decoding, collating : float
        Seconds of work, summed over the threads that did it.
    """

    batch: Any
    samples: int
    nbytes: int = 0
    skipped: list[str] = field(default_factory=list)
    reading: float = 0.0
    decoding: float = 0.0
    collating: float = 0.0


class Executor(Protocol):
    """Where batches are made: inline, in threads, in processes. The pipeline cannot tell which."""

    #: Whether ``submit`` returns only when the batch is done, so that nothing should be submitted ahead.
    blocking: bool

    @property
    def started(self) -> bool:
        """Whether ``start`` has nothing left to do."""

    def start(self) -> None:
        """Get the workers ready, in the background; called again it does nothing."""

    def submit(self, job: Job) -> None:
        """Have ``job`` made and its future set, from any thread."""

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Say that nobody wants these jobs' batches any more."""

    def expire(self, job: Job, error: Exception) -> Job | None:
        """Give up on a job that takes too long, and on the worker it holds if it holds one.

        Gives the job to submit in its place, with ``error`` for the samples that are stuck, where samples that fail
        need not end the pass; else None.
        """

    def close(self) -> None:
        """End the workers; waits for them, but not for one that is stuck."""
