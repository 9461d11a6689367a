"""One pass over the samples: the batches to come, and which of them the consumer was given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from asyncloader.errors import StateError
from asyncloader.samplers.plan import Plan, PlannedBatch
from asyncloader.samplers.state import Progress

__all__ = ["Pass"]


class Pass:
    """An iterator of the batches of one epoch on one rank; made by ``Schedule.begin``.

    It is advanced by one thread; `given`, `finished` and `state_dict` may be called by another meanwhile.

    Parameters
    ----------
    plan : Plan
        All batches of the epoch.
    progress : Progress
        What was given already.
    to_dict : callable
        Writes a progress as a state.
    on_finished : callable
        Told of the pass, and of the progress that the next epoch begins with, when the consumer reached the end.
    """

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        to_dict: Callable[[Progress], dict[str, object]],
        on_finished: Callable[[Pass, Progress], None],
    ) -> None:
        self._plan = plan
        self._progress = progress
        self._given_before = progress.given.copy()
        self._to_dict = to_dict
        self._on_finished = on_finished
        self._planned = 0
        self._lock = threading.Lock()

    @property
    def epoch(self) -> int:
        """The epoch whose batches these are."""
        return self._progress.epoch

    @property
    def padded(self) -> int:
        """Samples given twice in this epoch to fill up short ranks, over all ranks; 0 while the end is not known."""
        return self._plan.division.padded if self._plan.division else 0

    @property
    def dropped(self) -> int:
        """Samples left out of this epoch, over all ranks; 0 while the end is not known."""
        return self._plan.division.dropped if self._plan.division else 0

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> PlannedBatch:
        number = self._given_before.first_missing(self._planned)
        positions = self._plan.batch(number)
        if positions is None:
            self._check_end()
            raise StopIteration
        with self._lock:
            self._planned = number + 1
        return PlannedBatch(number, positions)

    def given(self, number: int) -> None:
        """Note that the consumer was given a batch. Batches may be given in any order.

        Parameters
        ----------
        number : int
            The batch's number.

        Raises
        ------
        ValueError
            The pass did not plan such a batch yet.
        """
        with self._lock:
            if not 0 <= number < self._planned:
                raise ValueError(f"batch {number} was not planned; the pass has planned {self._planned} batches")
            self._progress.given.add(number, number + 1)

    def finished(self) -> None:
        """Note that the consumer reached the end: the schedule goes on to the next epoch."""
        self._on_finished(self, self._next_epoch())

    def state_dict(self) -> dict[str, object]:
        """Say what the consumer was given, as a plain dict.

        As soon as the last batch was given, whether or not the consumer asked for one more, the state is that of the
        next epoch's start: no epoch of a resumed run is empty, and each gives each of its samples once.

        Returns
        -------
        dict
            For ``Schedule.load_state_dict``.
        """
        with self._lock:
            division = self._plan.division
            progress = replace(self._progress, given=self._progress.given.copy())
        if division is not None and progress.given.first_missing() >= division.steps:
            progress = self._next_epoch()
        return self._to_dict(progress)

    def _next_epoch(self) -> Progress:
        leftover = self._plan.leftover()
        return Progress(self._progress.epoch + 1, self._progress.world_size, carry=leftover)

    def _check_end(self) -> None:
        """Compare a loaded state with where a sampler ended; for computed orders that was known when it was loaded."""
        division = self._plan.division
        if division is None:
            return
        nothing_left = self._progress.taken.size and not division.total
        if self._given_before.stop > division.steps or self._plan.ended_early or nothing_left:
            raise StateError(
                f"the state is from further on in epoch {self.epoch} than where the sampler ended; "
                "resume with the sampler that the state was saved with"
            )
