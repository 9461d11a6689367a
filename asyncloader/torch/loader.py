"""PyTorch's DataLoader, without a fork."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Literal

from asyncloader.torch.framework import torch
from asyncloader.torch.passes import AsyncPass, MapPass, Pass, StreamPass

__all__ = ["DataLoader"]

_data = torch.utils.data


class DataLoader(torch.utils.data.DataLoader):
    """Loads batches with the arguments and results of ``torch.utils.data.DataLoader``, of which it is a subclass.

    Parameters
    ----------
    dataset : Dataset
        Map-style or iterable-style; PyTorch's, ours, or anything with ``__len__`` and ``__getitem__``.
    batch_size : int or None
        Samples in a batch; None gives single samples.
    shuffle : bool, optional
        Another random order in each pass, drawn as PyTorch draws it.
    sampler : iterable, optional
        Gives the order instead of ``shuffle``.
    batch_sampler : iterable, optional
        Gives the batches instead of ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
    num_workers : int
        0 makes each batch where it is asked for, by PyTorch's own code.
    collate_fn : callable, optional
        From a list of samples to a batch; ``default_collate`` if none is given.
    pin_memory : bool
        Copy batches to page-locked memory, where there is an accelerator.
    drop_last : bool
        Whether an incomplete last batch is left out.
    timeout : float
        Seconds that a batch may be waited for; 0 for no limit. The first one's include the start of the processes.
    worker_init_fn : callable, optional
        Called in each worker process with its number, after seeding.
    multiprocessing_context : str or BaseContext, optional
        Only ``"spawn"``, which is what is done in any case.
    generator : torch.Generator, optional
        Random orders and the workers' seeds are drawn from it.
    prefetch_factor : int, optional
        Batches under way for each worker; 2 if nothing is said.
    persistent_workers : bool
        Whether the workers, with their copies of the dataset, are kept for the next pass. Spawned workers import
        PyTorch at their start, which takes a second or more: they are worth keeping.
    pin_memory_device : str
        As PyTorch has it.
    in_order : bool
        False gives batches as they are ready.
    workers : {"processes", "threads"}
        What the workers are. Threads share the dataset and the process's global generators; they have no
        ``get_worker_info()`` and no ``worker_init_fn``, and take no iterable-style dataset.

    Raises
    ------
    ValueError
        Arguments that exclude each other, as in PyTorch; or that ask for what is not done here: a fork, DataPipes in
        workers, and what threads do not have.

    Notes
    -----
    Workers in processes get the dataset by value, pickled by cloudpickle, so that lambdas and the classes of scripts
    work, and no ``if __name__ == "__main__"`` is needed. Its arrays and tensors lie in memory that they share.

    Batches of a map-style dataset equal PyTorch's as long as samples do not draw from the global generators (of
    Python, numpy or PyTorch). If they do, they get other numbers than in PyTorch, whose depend on the worker that
    made the sample: in a process each sample's generators are seeded from the base seed, the pass and the index (each
    batch's, from its number and indexes, where the dataset has ``__getitems__`` or ``batch_size`` is None), so that
    results do not depend on the number of workers. Iterable-style datasets are seeded worker by worker as in
    PyTorch, and give the same.

    An error in a sample is raised as it is, of its own type, with a note that names the sample; the next batch can be
    asked for after it. A worker that is killed is replaced and its batches are made again, but for an iterable-style
    dataset, where it is an error.
    """

    _iterator: Iterator[Any] | None

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Any | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        workers: Literal["processes", "threads"] = "processes",
    ) -> None:
        if workers not in ("processes", "threads"):
            raise ValueError(f"workers must be 'processes' or 'threads', not {workers!r}")
        self.workers = workers
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
        )
        self.in_order = in_order  # PyTorch before 2.6 does not know it
        if num_workers > 0:
            self._check_workers()

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """How processes start: by spawning, where there are any."""
        context: BaseContext | None = _data.DataLoader.multiprocessing_context.fget(self)
        return context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: str | BaseContext | None) -> None:
        # Said aloud, so that a loader that others make from this one's attributes does not fork either.
        wanted = "spawn" if context is None and self.num_workers > 0 else context
        _data.DataLoader.multiprocessing_context.fset(self, wanted)
        taken = self.multiprocessing_context
        method = taken.get_start_method() if taken is not None else "spawn"
        if method != "spawn":
            raise ValueError(
                f"multiprocessing_context {method!r} is refused: a process that is forked while threads run inherits "
                "their locks and the positions of open files, which is what makes loaders hang or read wrong bytes; "
                "leave it out: workers are spawned, and need neither a main guard nor what can be pickled"
            )

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass; the workers start at once."""
        batches: Iterator[Any] = super().__iter__()
        if isinstance(batches, Pass):
            batches.submit()
        return batches

    def __aiter__(self) -> AsyncIterator[Any]:
        """Begin a pass for ``async for``; with ``num_workers=0`` the event loop waits while a batch is made."""
        batches = super().__iter__()
        return AsyncPass(batches) if isinstance(batches, Pass) else _inline(batches)

    def close(self) -> None:
        """End persistent workers; without this they end when the loader is dropped."""
        batches = self._iterator
        self._iterator = None
        if isinstance(batches, Pass):
            batches.close()

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            return super()._get_iterator()
        self._check_workers()
        return (StreamPass if isinstance(self.dataset, _data.IterableDataset) else MapPass)(self)

    def _check_workers(self) -> None:
        """Refuse what workers cannot do here; asked again at each pass, since attributes may have been set."""
        if self.prefetch_factor is None or self.prefetch_factor < 1:
            raise ValueError(f"prefetch_factor must be at least 1, not {self.prefetch_factor!r}")
        if isinstance(self.dataset, _data.IterDataPipe | _data.MapDataPipe):
            raise ValueError(
                "DataPipes are not loaded in workers here; use num_workers=0, or a Dataset or an IterableDataset"
            )
        if self.workers == "processes":
            return
        if isinstance(self.dataset, _data.IterableDataset):
            raise ValueError(
                "workers='threads' takes no iterable-style dataset: it is cut up by get_worker_info(), which is a "
                "process's; use workers='processes' or num_workers=0"
            )
        if self.worker_init_fn is not None:
            raise ValueError(
                "worker_init_fn prepares worker processes, and with workers='threads' there are none; "
                "leave it out, or use workers='processes'"
            )


async def _inline(batches: Iterator[Any]) -> AsyncIterator[Any]:
    for batch in batches:
        yield batch
