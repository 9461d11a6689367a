"""``asyncloader unpack``: make a file of each record."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asyncloader.cli.arguments import Record
from asyncloader.cli.console import plural, progress, say
from asyncloader.errors import AsyncLoaderError

if TYPE_CHECKING:
    from asyncloader.cli.payloads import Content

__all__ = ["unpack"]


def unpack(
    rec: Record,
    outdir: Annotated[
        Path, typer.Argument(metavar="OUTDIR", help="A folder that is empty, or not there yet.", show_default=False)
    ],
) -> None:
    """Make a file of each record.

    The files are called by their records' keys. Of image records the picture is
    written as it is, and labels.tsv says each one's key, labels and file: a list
    that `asyncloader pack` takes. Damaged records are named and left out, and the
    exit status is 1.
    """
    import numpy as np

    from asyncloader.cli.names import FileNames
    from asyncloader.cli.payloads import SUFFIXES, inspect
    from asyncloader.cli.records import chunks, open_reader
    from asyncloader.storage.atomic import AtomicFile

    damaged = written = 0
    with open_reader(rec) as reader:
        _make_empty(outdir)
        names = FileNames()
        names.name("labels", ".tsv")
        with AtomicFile(outdir / "labels.tsv") as table, progress("Unpacking", len(reader)) as done:
            for part in chunks(np.arange(len(reader)), reader.index.spans.astype(np.int64)):
                payloads = reader.read_many(part, on_error="return")
                for position, payload in zip(part.tolist(), payloads, strict=True):
                    if isinstance(payload, Exception):
                        damaged += 1
                        print(f"asyncloader: left out: {payload}", file=sys.stderr)
                        continue
                    content = inspect(payload)
                    key = reader.index.key(position)
                    name = names.name(key, SUFFIXES[content.kind])
                    # "x": a link that someone puts there meanwhile is not followed.
                    with open(outdir / name, "xb") as file:
                        file.write(content.data)
                    table.write(_line(key, content, name))
                    written += 1
                done(int(part[-1]) + 1)
    say(f"{os.path.abspath(outdir)}: {plural(written, 'file')}, and labels.tsv")
    if damaged:
        say(f"{plural(damaged, 'record')} left out", "yellow")
        raise typer.Exit(1)


def _make_empty(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        where = os.path.abspath(folder)
        raise AsyncLoaderError(f"{where} is not empty; name a folder that is, or that is not there yet", path=where)


def _line(key: int | str, content: Content, name: str) -> bytes:
    labels = [] if content.labels is None else [f"{label:.9g}" for label in content.labels.ravel().tolist()]
    return ("\t".join([str(key), *labels, name]) + "\n").encode()
