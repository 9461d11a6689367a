"""What commands print: results on standard output, progress on standard error, and there only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

__all__ = ["amount", "duration", "facts", "plural", "print_json", "progress", "say", "size", "table"]


def say(text: str = "", style: str = "") -> None:
    """Print a line of results; the style shows on a terminal only."""
    # Results are not wrapped: they are as wide as what they say, so that grep finds whole lines.
    Console(highlight=False).print(Text(text, style=style), soft_wrap=True)


def facts(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and what belongs to them, one a line; a row without a name goes on with the one before."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        Console(highlight=False).print(
            Text(f"{name:<{width}}  ", style="bold") + Text(value, style="none"), soft_wrap=True
        )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        say("  ".join(cells).rstrip(), "bold" if row is header else "")


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object, in ASCII whatever the names in it are."""
    print(json.dumps(value, indent=2))


@contextmanager
def progress(label: str, total: int, *, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Show how far a task is while the body runs.

    Parameters
    ----------
    label : str
        What is being done.
    total : int
        What is to do.
    in_bytes : bool
        Whether that is bytes, for how it is shown.

    Yields
    ------
    callable
        To be called with what is done so far.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if in_bytes else MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def amount(number: int) -> str:
    """Give a number with separators."""
    return f"{number:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """Give a number and what it counts."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(nbytes: float) -> str:
    """Give bytes as people read them."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if nbytes < 1024 or unit == "TiB":
            break
        nbytes /= 1024
    return f"{nbytes:,.0f} {unit}" if unit == "bytes" or nbytes >= 100 else f"{nbytes:.1f} {unit}"


def duration(seconds: float) -> str:
    """Give a time as people read it."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min"
