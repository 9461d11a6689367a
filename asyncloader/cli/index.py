"""``asyncloader index``: write the index of a record file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from asyncloader.cli.arguments import Force, Record, refuse_to_overwrite
from asyncloader.cli.console import plural, say

__all__ = ["index"]


def index(
    rec: Record,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT", help="Where to write it; REC with .idx if not given.", show_default=False
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Find the records of a file, and write its index.

    The whole file is read once. The keys are 0, 1, 2, ... in file order.
    The index appears under its name only when it is whole.
    """
    from asyncloader.cli.records import build_index
    from asyncloader.recordio.index import index_path_beside

    path = os.path.abspath(output or index_path_beside(rec))
    if os.path.abspath(rec) == path:
        raise typer.BadParameter("it is the record file itself", param_hint="--output")
    if not force:
        refuse_to_overwrite(path)
    built = build_index(rec)
    built.save(path)
    say(f"{path}: {plural(len(built), 'record')}")
