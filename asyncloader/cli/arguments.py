"""Arguments and options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from asyncloader.errors import AsyncLoaderError

__all__ = ["Force", "Json", "Record", "Sheet", "refuse_to_overwrite"]

Record: TypeAlias = Annotated[Path, typer.Argument(metavar="REC", help="The record file.", show_default=False)]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def _check_png(value: Path | None) -> Path | None:
    # A sheet replaces what is there, which must not be a record file.
    if value is not None and value.suffix.lower() != ".png":
        raise typer.BadParameter(f"{value} does not end in .png")
    return value


Sheet: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--sheet",
        metavar="PNG",
        callback=_check_png,
        help="Write a contact sheet of some pictures.",
        show_default=False,
    ),
]


def refuse_to_overwrite(*paths: str | os.PathLike[str]) -> None:
    """Raise where a file is there already."""
    for path in paths:
        if os.path.lexists(path):
            where = os.path.abspath(path)
            raise AsyncLoaderError(f"{where} is there already; --force replaces it", path=where)
