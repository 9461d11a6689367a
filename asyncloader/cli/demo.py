"""``asyncloader demo``: train a small classifier from a record file, through ``async for``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asyncloader.cli.arguments import Sheet
from asyncloader.cli.console import amount, duration, plural, progress, say, size
from asyncloader.errors import AsyncLoaderError

if TYPE_CHECKING:
    from asyncloader.cli.training import EpochReport
    from asyncloader.datasets.images import ImageRecordDataset

__all__ = ["Workers", "demo"]

_EPOCHS = 2
_PICTURES = 6000
#: What is taken of a larger file, so that the demo ends while one looks on.
_MOST, _MOST_BYTES = 8000, 128 << 20
_BATCH = 64


class Workers(StrEnum):
    """Kinds of workers."""

    threads = "threads"
    processes = "processes"


def demo(
    rec: Annotated[
        Path | None,
        typer.Argument(
            metavar="REC", help="A file of image records; one is made where none is given.", show_default=False
        ),
    ] = None,
    workers: Annotated[Workers, typer.Option(help="What decodes.")] = Workers.threads,
    num_workers: Annotated[
        int | None, typer.Option(min=0, help="How many; one for each CPU if not given.", show_default=False)
    ] = None,
    sheet: Sheet = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where to keep the set that is made; a temporary folder if not given.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Load all of a large file, and not only a part.")] = False,
) -> None:
    """Train a small classifier from a record file for two epochs.

    Without REC, some thousand JPEGs of coloured shapes are made first.
    Shows loss, accuracy, speed, and the share of time spent waiting for data,
    checks that each sample came exactly once an epoch, and writes a contact
    sheet of one batch (asyncloader-demo.png, unless --sheet names another).
    """
    if rec is not None and folder is not None:
        raise typer.BadParameter("it is for the set that is made where no REC is given", param_hint="--folder")
    with _demo_set(rec, folder) as (path, names):
        _train(path, names, workers.value, num_workers, sheet or _default_sheet(folder), everything)


@contextmanager
def _demo_set(rec: Path | None, folder: Path | None) -> Iterator[tuple[Path, list[str] | None]]:
    """Give the record file and its classes' names; make it where none was given."""
    if rec is not None:
        yield rec, None
        return
    from asyncloader.cli.shapes import CLASSES

    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield _make(folder), CLASSES
        return
    # On Windows a file stays while a worker that is ending has it open; the folder is temporary all the same.
    with tempfile.TemporaryDirectory(prefix="asyncloader-demo-", ignore_cleanup_errors=True) as temporary:
        yield _make(Path(temporary)), CLASSES


def _make(folder: Path) -> Path:
    import time

    from asyncloader.cli.shapes import CLASSES, SIDE, write_shapes

    path = folder / "shapes.rec"
    start = time.perf_counter()
    with progress("Making pictures", _PICTURES) as done:
        write_shapes(path, path.with_suffix(".idx"), _PICTURES, done)
    say(
        f"Made {amount(_PICTURES)} JPEGs of {len(CLASSES)} classes, {SIDE} x {SIDE} pixels, "
        f"in {duration(time.perf_counter() - start)}: {os.path.abspath(path)} ({size(path.stat().st_size)})"
    )
    return path


def _default_sheet(folder: Path | None) -> Path:
    place = folder or Path.cwd()
    return (place if os.access(place, os.W_OK) else Path(tempfile.gettempdir())) / "asyncloader-demo.png"


def _train(
    path: Path, names: list[str] | None, workers: str, num_workers: int | None, sheet: Path, everything: bool
) -> None:
    import asyncio

    from asyncloader.cli.pictures import choose, labels_of, open_pictures
    from asyncloader.cli.training import Numbered, to_square

    dataset = open_pictures(path, None if names else to_square)
    try:
        most = len(dataset) if everything else _MOST
        positions = choose(dataset, most, 1 << 62 if everything else _MOST_BYTES)
        if names is None:
            _introduce(dataset, len(positions))
        classes = labels_of(dataset, positions)
        if classes is None:
            say("The labels are not classes (whole numbers, 2 to 1,000 different ones); nothing is learned from them.")
        else:
            say(
                f"Training a classifier of {len(classes)} classes; a guess is right in {1 / len(classes):.1%} of cases."
            )
        reports = asyncio.run(_epochs(Numbered(dataset, positions), classes, names, workers, num_workers, sheet))
    finally:
        dataset.close()
    _conclude(reports, os.path.abspath(path))


def _introduce(dataset: ImageRecordDataset, chosen: int) -> None:
    from asyncloader.datasets.faces import FaceRecordDataset

    people = f" of {amount(dataset.num_classes)} people" if isinstance(dataset, FaceRecordDataset) else ""
    say(f"{dataset.files.readers[0].path}: {plural(len(dataset), 'picture')}{people}")
    if chosen < len(dataset):
        say(f"It is large: {amount(chosen)} pictures from all over it are taken; --all takes every one.")


async def _epochs(
    dataset: Any, classes: Any, names: list[str] | None, workers: Any, num_workers: int | None, sheet: Path
) -> list[EpochReport]:
    import numpy as np

    from asyncloader.cli.classifier import Classifier
    from asyncloader.cli.sheet import write_sheet
    from asyncloader.cli.training import Batch, run_epoch
    from asyncloader.loader import AsyncDataLoader

    # Small sets get more steps, since two epochs of a few batches teach nothing.
    batch_size = _BATCH if len(dataset) >= 16 * _BATCH else _BATCH // 4
    loader = AsyncDataLoader(
        dataset, batch_size, shuffle=True, workers=workers, num_workers=num_workers, on_error="skip"
    )
    classifier = Classifier(len(classes)) if classes is not None else None
    shown: list[str] = []
    reports = []
    say()
    say("epoch    loss  accuracy  images/s  waiting for data", "bold")
    async with loader:
        for epoch in range(1, _EPOCHS + 1):
            with progress(f"Epoch {epoch}", len(dataset)) as done:
                samples = 0

                def on_batch(batch: Batch, done: Any = done) -> None:
                    nonlocal samples
                    pictures, labels, numbers = batch
                    if not shown:
                        captions = [_caption(label, names) for label in labels]
                        shown.append(write_sheet(sheet, list(pictures), captions))
                    samples += len(numbers)
                    done(samples)

                report = await run_epoch(
                    loader, classifier, lambda labels: np.searchsorted(classes, np.ravel(labels)), on_batch
                )
            if report.samples == 0:
                break
            _show(epoch, report)
            reports.append(report)
    say()
    if shown:
        say(f"Contact sheet of one batch: {shown[0]}")
    return reports


def _caption(label: Any, names: list[str] | None) -> str:
    if names is not None:
        return names[int(label)]
    values = label.ravel().tolist() if hasattr(label, "ravel") else [label]
    return ", ".join(f"{value:g}" for value in values)


def _show(epoch: int, report: EpochReport) -> None:
    loss = "-" if report.loss is None else f"{report.loss:.3f}"
    accuracy = "-" if report.accuracy is None else f"{report.accuracy:.1%}"
    speed = amount(round(report.samples / report.seconds))
    say(f"{epoch:>5}  {loss:>6}  {accuracy:>8}  {speed:>8}  {report.waiting / report.seconds:>16.1%}")


def _conclude(reports: list[EpochReport], path: str) -> None:
    """Say whether each sample came exactly once an epoch."""
    if not reports:
        raise AsyncLoaderError(
            f"{path}: not one sample could be loaded; `asyncloader verify --decode` lists what is wrong", path=path
        )
    for epoch, report in enumerate(reports, 1):
        if not report.exact:
            missing, repeated = int((report.times == 0).sum()), int((report.times > 1).sum())
            raise AsyncLoaderError(
                f"{path}: in epoch {epoch} {plural(missing, 'sample')} did not come (of which {report.skipped} were "
                f"skipped) and {repeated} came more than once; this is a fault of asyncloader: please report it",
                path=path,
            )
    skipped = reports[-1].skipped
    say(f"Checked: each of {plural(reports[-1].samples, 'sample')} came exactly once in each of {len(reports)} epochs.")
    if skipped:
        say(
            f"{plural(skipped, 'sample')} more could not be loaded; `asyncloader verify --decode` lists them.", "yellow"
        )
