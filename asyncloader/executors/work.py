"""What runs in a worker: positions to a batch."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from asyncloader.collate import Columns, takes_memory
from asyncloader.datasets.base import Dataset, Failure, LoadContext, Location, sample_error
from asyncloader.errors import AsyncLoaderError
from asyncloader.executors.base import Job, Made
from asyncloader.memory import BatchMemory, Empty
from asyncloader.samplers import sample_seed

__all__ = ["BatchMaker", "JobAbandoned", "OnError", "Slice", "batch_nbytes"]

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[AsyncLoaderError], Any]


class JobAbandoned(BaseException):
    """Ends the work on a batch that nobody wants any more; no handler of a sample's own errors may stop it."""


class Slice:
    """The samples of part of a batch, and what making them cost."""

    def __init__(self, samples: Sequence[Any], context: LoadContext) -> None:
        self.samples = samples
        self.context = context


class BatchMaker:
    """Makes batches: reads and decodes the samples, deals with those that fail, collates the rest.

    Parameters
    ----------
    dataset : object
        With ``__getitem__``, and better with ``read_many``; or one of the package's own.
    collate_fn : callable or None
        Samples to a batch; None gives the one sample of a batch as it is.
    on_error : "raise", "skip" or callable
        What becomes of a sample that fails: the batch fails with it, the batch does without it, or the callable gives
        a replacement.
    seed : int
        Goes into the samples' randomness.
    seed_globals : bool
        Whether Python's, numpy's and torch's global generators are seeded for each sample. For workers that run one
        sample at a time, since the generators are the process's.
    worker_init : callable, optional
        Called in each worker process with its number, from 0, before it makes anything.
    """

    def __init__(
        self,
        dataset: Any,
        collate_fn: Callable[[list[Any]], Any] | None,
        on_error: OnError,
        seed: int,
        *,
        seed_globals: bool = False,
        worker_init: Callable[[int], None] | None = None,
    ) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn
        self.on_error = on_error
        self.seed = seed
        self.seed_globals = seed_globals
        self.worker_init = worker_init
        self._uniform = True
        self._takes_memory = collate_fn is not None and takes_memory(collate_fn)

    def memory(self, job: Job, empty: Empty) -> BatchMemory:
        """Make the memory of one batch, for :meth:`load` and :meth:`finish`."""
        return BatchMemory(len(job.positions), empty, use_rows=self._uniform and self._takes_memory)

    @property
    def asks_one_by_one(self) -> bool:
        """Whether each sample is asked for by itself, so that what is reported is the very sample a slice is at."""
        return not isinstance(self.dataset, Dataset) and _read_many(self.dataset) is None

    def make(self, job: Job, empty: Empty = np.empty) -> Made:
        """Make a whole batch in this thread."""
        memory = self.memory(job, empty)
        return self.finish(job, memory, [self.load(job, memory)])

    def load(
        self,
        job: Job,
        memory: BatchMemory,
        start: int = 0,
        stop: int | None = None,
        watch: Callable[[Any], None] | None = None,
    ) -> Slice:
        """Make the samples ``start`` to ``stop`` of a batch.

        Parameters
        ----------
        job : Job
            The batch.
        memory : BatchMemory
            The batch's memory, the same for all its slices.
        start, stop : int
            The slice.
        watch : callable, optional
            Told each position before its sample is made, if the job is to be done with care.
        """
        stop = len(job.positions) if stop is None else stop
        active = job.active

        def before_sample(position: Any) -> None:
            if job.abandoned:
                raise JobAbandoned
            active[start] = position
            if watch is not None and job.careful:
                watch(position)
            if self.seed_globals:
                _seed_globals(sample_seed(self.seed, job.epoch, position))

        active[start] = None
        context = LoadContext(memory, start, self.seed, job.epoch)
        context.before_sample = before_sample
        load = self._load_one_by_one if job.careful else self._load
        part = job.positions[start:stop]
        # Python's integers, which datasets of lists and dicts can be asked for too.
        positions: list[Any] = part.tolist() if isinstance(part, np.ndarray) else part
        payloads = job.payloads[start:stop] if job.payloads is not None else None
        if job.failed:
            samples = self._load_without(load, job.failed, start, positions, payloads, context)
        else:
            samples = load(positions, payloads, context)
        active[start] = None
        if not isinstance(samples, Columns) and any(type(sample) is Failure for sample in samples):
            samples = [self._settle(sample) if type(sample) is Failure else sample for sample in samples]
        return Slice(samples, context)

    def _load_without(
        self,
        load: Callable[[Sequence[Any], Sequence[object] | None, LoadContext], Sequence[Any]],
        failed: Mapping[int, Exception],
        start: int,
        positions: Sequence[Any],
        payloads: Sequence[object] | None,
        context: LoadContext,
    ) -> Sequence[Any]:
        """Make the samples of a slice but for those, by slot, that are known to fail."""
        context.memory.use_rows = False  # rows are for slots without gaps
        wanted = [place for place in range(len(positions)) if start + place not in failed]
        chosen = [payloads[place] for place in wanted] if payloads is not None else None
        samples = iter(load([positions[place] for place in wanted], chosen, context) if wanted else ())
        places = range(start, start + len(positions))
        return [Failure(failed[place]) if place in failed else next(samples) for place in places]

    def _load_one_by_one(
        self, positions: Sequence[Any], payloads: Sequence[object] | None, context: LoadContext
    ) -> list[Any]:
        """Do the same so that it is known which sample a read is for, where one is stuck or ends the process."""
        samples: list[Any] = []
        first = context.first_slot
        for place, position in enumerate(positions):
            context.before_sample(position)
            context.first_slot = first + place
            samples += self._load([position], payloads[place : place + 1] if payloads is not None else None, context)
        return samples

    def _load(self, positions: Sequence[Any], payloads: Sequence[object] | None, context: LoadContext) -> Sequence[Any]:
        dataset = self.dataset
        if payloads is not None:
            samples: list[Any] = dataset.load_payloads(payloads, positions, context)
            return samples
        if isinstance(dataset, Dataset):
            return dataset.load_many(positions, context)
        with context.time_decoding():
            read_many = _read_many(dataset)
            if read_many is None:
                return [self._one(position, context) for position in positions]
            context.before_sample(positions[0])
            try:
                samples = list(read_many(positions))
            except Exception as error:
                # Which of them was it? Asked one by one they tell, if they can be asked so.
                if not hasattr(dataset, "__getitem__"):
                    raise sample_error(error, Location(), positions[0], _name(read_many)) from error
                return [self._one(position, context) for position in positions]
            if len(samples) != len(positions):
                raise TypeError(f"{_name(read_many)} gave {len(samples)} samples for {len(positions)} positions")
            return samples

    def _one(self, position: Any, context: LoadContext) -> Any:
        try:
            context.before_sample(position)
            return self.dataset[position]
        except Exception as error:
            return Failure(sample_error(error, Location(), position, _name(self.dataset)))

    def _settle(self, failure: Failure) -> Any:
        """Do with a failed sample what ``on_error`` says."""
        error = failure.error
        if self.on_error == "raise":
            raise error
        if self.on_error == "skip":
            return failure
        assert isinstance(error, AsyncLoaderError)
        return self.on_error(error)

    def settle_unsendable(self, job: Job, part: Slice) -> bool:
        """Do the same with samples that cannot leave the process: generators, locks, open files. False if all can."""
        import cloudpickle

        if isinstance(part.samples, Columns):
            return False  # arrays
        found, samples = False, list(part.samples)
        for slot, (position, sample) in enumerate(zip(job.positions, samples, strict=True)):
            if type(sample) is Failure:
                continue
            try:
                cloudpickle.dumps(sample, protocol=5, buffer_callback=lambda buffer: None)
            except Exception as error:
                found = True
                location = self.dataset.locate(position) if isinstance(self.dataset, Dataset) else Location()
                failed = sample_error(error, location, position, "sending it from its worker process")
                samples[slot] = self._settle(Failure(failed))
        part.samples = samples
        return found

    def finish(self, job: Job, memory: BatchMemory, slices: list[Slice]) -> Made:
        """Collate the slices of a batch, given in order."""
        start = time.perf_counter()
        samples = slices[0].samples if len(slices) == 1 else list(itertools.chain(*(part.samples for part in slices)))
        skipped: list[str] = []
        if not isinstance(samples, Columns):  # in which there is none that failed
            skipped = [str(sample.error) for sample in samples if type(sample) is Failure]
        if skipped:
            samples = [sample for sample in samples if type(sample) is not Failure]
        batch: Any = None
        if samples:
            if self.collate_fn is None:
                [batch] = samples
            elif self._takes_memory:
                batch = self.collate_fn(samples, memory)  # type: ignore[call-arg, arg-type]
                self._uniform = memory.use_rows
            else:
                batch = self.collate_fn(list(samples))
        return Made(
            batch,
            len(samples),
            batch_nbytes(batch),
            skipped,
            reading=sum(part.context.reading for part in slices),
            decoding=sum(part.context.decoding for part in slices),
            collating=time.perf_counter() - start,
        )


def batch_nbytes(batch: Any) -> int:
    """Count the bytes of the arrays, tensors and byte strings in a batch."""
    nbytes = getattr(batch, "nbytes", None)
    if isinstance(nbytes, int):
        return nbytes
    if isinstance(batch, bytes | bytearray | str):
        return len(batch)
    if isinstance(batch, Mapping):
        return sum(map(batch_nbytes, batch.values()))
    if isinstance(batch, list | tuple):
        return sum(map(batch_nbytes, batch))
    return 8


def _read_many(dataset: Any) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
    found: Callable[[Sequence[Any]], Sequence[Any]] | None = getattr(dataset, "read_many", None)
    return found or getattr(dataset, "__getitems__", None)


def _name(thing: object) -> str:
    return getattr(thing, "__qualname__", None) or type(thing).__name__


def _seed_globals(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002 - the global generator is what the user's transform draws from
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
