"""``asyncloader pack``: make a record file of pictures."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asyncloader.cli.arguments import Force, refuse_to_overwrite
from asyncloader.cli.console import amount, plural, progress, say, size
from asyncloader.errors import AsyncLoaderError

if TYPE_CHECKING:
    from asyncloader.cli.sources import Entry

__all__ = ["pack"]

#: Classes that are named at the end.
_SHOWN_CLASSES = 20
#: Pictures read and encoded ahead of the one that is written.
_AHEAD = 64


def pack(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A folder of class folders, or a list (.lst).", show_default=False)
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The record file; its index is written beside it.", show_default=False)
    ],
    root: Annotated[
        Path | None,
        typer.Option(help="Where the list's paths start; its own folder if not given.", show_default=False),
    ] = None,
    resize: Annotated[
        int | None,
        typer.Option(min=1, max=65500, metavar="PIXELS", help="Bring the short side to this.", show_default=False),
    ] = None,
    quality: Annotated[
        int | None,
        typer.Option(min=1, max=100, help="JPEG quality; 95 if only --resize is given.", show_default=False),
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out files that are no pictures.")] = False,
    force: Force = False,
) -> None:
    """Make a record file of pictures.

    SOURCE is a folder with one folder a class, whose labels are 0, 1, 2, ... in
    the order of their names; or a list as im2rec takes it: index, labels and
    path a line, with tabs between them. The index becomes the record's key.

    Pictures are stored as they are, unless --resize or --quality asks for new
    JPEGs. A file that is no picture ends the work, and nothing is written;
    with --skip-bad it is named and left out, and the exit status is 1.
    """
    from asyncloader.cli.sources import entries_of_folder, entries_of_list
    from asyncloader.recordio.header import IRHeader
    from asyncloader.recordio.header import pack as pack_record
    from asyncloader.recordio.index import index_path_beside
    from asyncloader.recordio.writer import RecordWriter

    index_path = index_path_beside(out)
    if os.path.abspath(index_path) == os.path.abspath(out):
        raise typer.BadParameter("it must not end in .idx, which the index beside it does", param_hint="OUT")
    if not force:
        refuse_to_overwrite(out, index_path)
    classes: list[str] = []
    if source.is_dir():
        entries, classes = entries_of_folder(source)
    else:
        entries = entries_of_list(source, root if root is not None else source.parent)
    bad = 0
    with RecordWriter(out, index_path) as writer, progress("Packing", len(entries)) as done:
        for number, (entry, data) in enumerate(_pictures(entries, resize, quality), 1):
            if isinstance(data, AsyncLoaderError):
                if not skip_bad:
                    raise data
                bad += 1
                print(f"asyncloader: left out: {data}", file=sys.stderr)
            else:
                label = entry.labels[0] if len(entry.labels) == 1 else entry.labels
                writer.write(pack_record(IRHeader(0, label, entry.key, 0), data), entry.key)
            done(number)
        written = writer.tell()
    say(f"{writer.path}: {plural(len(writer), 'picture')}, {size(written)}, with an index")
    for label, name in enumerate(classes[:_SHOWN_CLASSES]):
        say(f"  label {label}: {name}")
    if len(classes) > _SHOWN_CLASSES:
        say(f"  and {amount(len(classes) - _SHOWN_CLASSES)} more, in the order of their names")
    if bad:
        say(f"{plural(bad, 'file')} left out", "yellow")
        raise typer.Exit(1)


def _pictures(
    entries: Sequence[Entry], resize: int | None, quality: int | None
) -> Iterator[tuple[Entry, bytes | AsyncLoaderError]]:
    """Read, and encode where asked, ahead of the writer, in order, in as many threads as there are CPUs."""
    from collections import deque
    from concurrent.futures import Future, ThreadPoolExecutor

    from asyncloader.cli.sources import read_picture
    from asyncloader.loader import available_cpus

    def read(entry: Entry) -> bytes | AsyncLoaderError:
        try:
            return read_picture(entry.path, resize, quality)
        except AsyncLoaderError as error:
            return error

    ahead: deque[tuple[Entry, Future[bytes | AsyncLoaderError]]] = deque()
    with ThreadPoolExecutor(available_cpus(), thread_name_prefix="asyncloader-pack") as threads:
        try:
            for entry in entries:
                ahead.append((entry, threads.submit(read, entry)))
                if len(ahead) >= _AHEAD:
                    first, future = ahead.popleft()
                    yield first, future.result()
            for first, future in ahead:
                yield first, future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
