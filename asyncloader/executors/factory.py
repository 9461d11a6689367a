"""From the loader's arguments to the executor they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from asyncloader.executors.base import Executor
from asyncloader.executors.inline import InlineExecutor
from asyncloader.executors.threads import ThreadExecutor
from asyncloader.executors.work import BatchMaker, OnError
from asyncloader.stats import StatsCounter

__all__ = ["make_executor"]


def make_executor(
    workers: Literal["threads", "processes"],
    dataset: Any,
    collate_fn: Callable[[list[Any]], Any] | None,
    on_error: OnError,
    seed: int,
    *,
    num_workers: int,
    threads_per_worker: int,
    prefetch: int,
    stats: StatsCounter,
) -> Executor:
    """Make the executor; its workers start when it is started."""
    if workers not in ("threads", "processes"):
        raise ValueError(f"workers must be 'threads' or 'processes', not {workers!r}")
    # The global generators are a process's: they can be seeded for a sample only where one is made at a time.
    alone = workers == "processes" and threads_per_worker == 1 and num_workers > 0
    maker = BatchMaker(dataset, collate_fn, on_error, seed, seed_globals=alone)
    if num_workers == 0:
        return InlineExecutor(maker)
    if workers == "threads":
        # One block for each batch under way, one that the consumer looks at, and one that it has just let go.
        return ThreadExecutor(maker, num_workers * threads_per_worker, keep=prefetch + 2)
    from asyncloader.executors.processes import ProcessExecutor

    return ProcessExecutor(maker, num_workers, threads_per_worker, prefetch=prefetch, stats=stats)
