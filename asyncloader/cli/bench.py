"""``asyncloader bench``: how fast a file loads on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from asyncloader.cli.arguments import Json, Record
from asyncloader.cli.console import amount, duration, plural, print_json, progress, say, table

if TYPE_CHECKING:
    from asyncloader.cli.lanes import Result

__all__ = ["bench"]


def bench(
    rec: Record,
    num_workers: Annotated[
        int | None,
        typer.Option(min=1, help="Threads, or processes; one for each CPU if not given.", show_default=False),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples in a batch.")] = 128,
    json: Json = False,
) -> None:
    """Measure how fast a file loads on this machine.

    A bare loop of positional reads and decoding, in threads and without any
    loader, is the limit; the loader with threads and with processes is measured
    beside it, in turns, on the same records in the same order. Files that hold
    no pictures are read without decoding.
    """
    from asyncloader.cli.lanes import Measurement
    from asyncloader.loader import available_cpus

    measurement = Measurement(rec, num_workers or available_cpus(), batch_size)
    with progress("Measuring", measurement.steps) as done:
        results = measurement.run(done)
    if json:
        print_json(
            {
                "path": measurement.path,
                "unit": measurement.unit,
                "records": measurement.count,
                "of": measurement.total,
                "workers": measurement.workers,
                "batch_size": batch_size,
                "lanes": [
                    {
                        "name": r.name,
                        "per_second": r.rate,
                        "ratio": r.rate / results[0].rate,
                        "first_batch_seconds": r.first,
                    }
                    for r in results
                ],
            }
        )
        return
    part = "" if measurement.count == measurement.total else f" of {amount(measurement.total)}"
    say(f"{measurement.path}: {plural(measurement.count, 'record')}{part}, in random order, from a warm cache")
    workers = plural(measurement.workers, "worker")
    say(f"{workers}, batches of {batch_size}; medians of {measurement.rounds} rounds in turns")
    say()
    table(("", f"{measurement.unit}/s", "of the limit", "first batch after"), [_row(r, results[0]) for r in results])


def _row(result: Result, limit: Result) -> tuple[str, str, str, str]:
    first = duration(result.first) if result.first is not None else "-"
    return result.name, amount(round(result.rate)), f"{result.rate / limit.rate:.2f}", first
