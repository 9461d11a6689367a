"""AsyncDataLoader: batches of a dataset, by ``async for``."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from asyncloader.collate import stack
from asyncloader.errors import LoaderClosedError
from asyncloader.executors.base import Executor
from asyncloader.executors.factory import make_executor
from asyncloader.executors.work import OnError
from asyncloader.offload import in_thread
from asyncloader.output import Output, converter
from asyncloader.pipeline import BatchStream, Limits
from asyncloader.samplers import Schedule, detect_shard
from asyncloader.stats import LoaderStats, StatsCounter

if TYPE_CHECKING:
    from jax.sharding import Sharding

__all__ = ["AsyncDataLoader"]

#: More workers than this by default would rather use up memory than be of use; ask for more where they are.
MAX_DEFAULT_WORKERS = 16


class AsyncDataLoader:
    """Loads batches for ``async for``, without ever forking.

    Parameters
    ----------
    dataset : object
        One of the package's, or any object with ``__len__`` and ``__getitem__``; with ``read_many(positions)`` it is
        asked for whole batches.
    batch_size : int or None
        Samples in a batch; None gives single samples, not collated.
    shuffle : bool or "blocks"
        True gives each epoch another order of all samples. "blocks" keeps reads near each other on slow disks: blocks
        of neighbouring records in random order, mixed in a buffer.
    sampler : iterable of positions, optional
        Gives the order instead of ``shuffle``.
    batch_sampler : iterable of lists of positions, optional
        Gives whole batches instead of ``batch_size``, ``shuffle``, ``sampler`` and ``last_batch``.
    last_batch : {"keep", "discard", "rollover"}
        What becomes of an incomplete last batch; "rollover" puts its samples first in the next epoch.
    collate_fn : callable, optional
        From a list of samples to a batch; :func:`asyncloader.stack` if none is given.
    workers : {"threads", "processes"}
        Threads suit decoding, which releases the GIL; processes suit transforms in Python, which hold it.
    num_workers : int, optional
        How many; by default one for each CPU this process may use, at most 16. 0 works inline, where it is asked.
    threads_per_worker : int
        Threads in each process.
    prefetch : int, optional
        Batches under way; by default twice the number of threads that make them, at least 2.
    max_bytes : int, optional
        A second bound on what is under way, in bytes of batches.
    seed : int
        Orders and ``rng`` arguments of transforms come from it, the epoch and the sample, never from the workers.
    rank, world_size : int
        Which part of each epoch this process takes, of how many.
    shard : {"auto"}, optional
        Take ``rank`` and ``world_size`` from the environment of torchrun or Open MPI.
    short_ranks : {"pad", "drop"}
        Whether ranks are given the same number of batches by repeating samples or by leaving some out.
    timeout : float, optional
        Seconds that one batch may take.
    on_error : "raise", "skip" or callable
        What becomes of a sample that fails: the error is raised, the sample is dropped and counted, or the callable,
        given the error, gives a sample in its place.
    in_order : bool
        False gives batches as they are ready.
    pin_memory : bool
        With ``output="torch"`` and a CUDA device: tensors in page-locked memory.
    output : {"numpy", "torch", "jax", "mxnet"}
        Whose arrays the batches hold. JAX's are put on the device one batch ahead of the consumer.
    sharding : jax.sharding.Sharding, optional
        With ``output="jax"``: how each array is spread over devices.

    Notes
    -----
    ``async with loader`` starts the workers at once and ends them at the end of the block. Without it they start with
    the first batch and end when the loader is closed or dropped. The loader can be iterated any number of times, also
    by several tasks at once: each gets a pass of its own.

    A pass to its end moves the epoch on by one; one that is broken off is begun again by the next ``async for``.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        *,
        shuffle: bool | Literal["blocks"] = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        last_batch: Literal["keep", "discard", "rollover"] = "keep",
        collate_fn: Callable[[list[Any]], Any] | None = None,
        workers: Literal["threads", "processes"] = "threads",
        num_workers: int | None = None,
        threads_per_worker: int = 1,
        prefetch: int | None = None,
        max_bytes: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        shard: Literal["auto"] | None = None,
        short_ranks: Literal["pad", "drop"] = "pad",
        timeout: float | None = None,
        on_error: OnError = "raise",
        in_order: bool = True,
        pin_memory: bool = False,
        output: Output = "numpy",
        sharding: Sharding | None = None,
    ) -> None:
        if num_workers is None:
            num_workers = min(available_cpus(), MAX_DEFAULT_WORKERS)
        _check_arguments(num_workers, threads_per_worker, prefetch, max_bytes, timeout, on_error)
        if shard == "auto":
            rank, world_size = detect_shard(os.environ)
        self.dataset = dataset
        self._schedule = Schedule(
            _length(dataset, sampler is not None or batch_sampler is not None),
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            last_batch=last_batch,
            seed=seed,
            rank=rank,
            world_size=world_size,
            short_ranks=short_ranks,
        )
        self._limits = Limits(
            prefetch if prefetch is not None else max(2, 2 * num_workers * threads_per_worker),
            max_bytes,
            timeout,
            in_order,
        )
        if collate_fn is None and batch_size is not None:
            collate_fn = stack
        self._convert = converter(output, pin_memory=pin_memory, sharding=sharding)
        self._stats = StatsCounter()
        self._executor: Executor = make_executor(
            workers,
            dataset,
            collate_fn,
            on_error,
            seed,
            num_workers=num_workers,
            threads_per_worker=threads_per_worker,
            prefetch=self._limits.prefetch,
            stats=self._stats,
        )
        self._streams: weakref.WeakSet[BatchStream] = weakref.WeakSet()
        self._closed = False

    def __len__(self) -> int:
        """Give the number of batches in the next pass.

        Raises
        ------
        TypeError
            The sampler has no length.
        """
        return len(self._schedule)

    def __aiter__(self) -> BatchStream:
        """Begin a pass."""
        if self._closed:
            raise LoaderClosedError("the loader is closed; make a new one")
        stream = BatchStream(
            self._schedule.begin(), self._executor, self.dataset, self._limits, self._stats, self._convert
        )
        self._streams.add(stream)
        return stream

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next pass is."""
        self._schedule.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Say where the consumer is: the epoch, and the batches it was given; a few plain values, fit for JSON."""
        return self._schedule.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was taken, with the next pass.

        Raises
        ------
        StateError
            The state is of another dataset, batch size, seed or order.
        """
        self._schedule.load_state_dict(state)

    def stats(self) -> LoaderStats:
        """Say where the time went: reading, decoding, collating, waiting; and what was skipped."""
        return self._stats.snapshot()

    async def __aenter__(self) -> Self:
        if self._closed:
            raise LoaderClosedError("the loader is closed; make a new one")
        if not self._executor.started:
            await in_thread(self._executor.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop all passes, end the workers, and free what they held."""
        self._closed = True
        for stream in list(self._streams):
            await stream.aclose()
        await in_thread(self._executor.close)


def available_cpus() -> int:
    """Count the CPUs this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _length(dataset: Any, has_sampler: bool) -> int | None:
    try:
        return len(dataset)
    except TypeError:
        if has_sampler:
            return None
        raise TypeError(
            f"{type(dataset).__name__} has no length: a dataset needs __len__ and __getitem__, "
            "or a sampler that says which samples there are"
        ) from None


def _check_arguments(
    num_workers: int,
    threads_per_worker: int,
    prefetch: int | None,
    max_bytes: int | None,
    timeout: float | None,
    on_error: OnError,
) -> None:
    for name, value, least in (
        ("num_workers", num_workers, 0),
        ("threads_per_worker", threads_per_worker, 1),
        ("prefetch", prefetch, 1),
        ("max_bytes", max_bytes, 1),
    ):
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < least):
            raise ValueError(f"{name} must be an int of at least {least}, not {value!r}")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, or None for no limit, not {timeout!r}")
    if on_error not in ("raise", "skip") and not callable(on_error):
        raise ValueError(f"on_error must be 'raise', 'skip' or a callable, not {on_error!r}")
