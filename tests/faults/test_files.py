"""Files that are cut short, deleted or made unreadable while processes read them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import asyncloader as al
from asyncloader.errors import LoaderWarning, MissingFileError, ReadError
from tests.faults.conftest import payload, write_records
from tests.processes.helpers import gone, worker_processes

pytestmark = [pytest.mark.posix, pytest.mark.usefixtures("no_leaks")]  # Windows refuses all that is done here

COUNT, CUT = 40, 22


@pytest.mark.parametrize("size", [200, 3000, 300_000], ids=["short", "medium", "long"])
@pytest.mark.parametrize("within", ["head", "payload"])
def test_of_a_file_cut_short_all_that_is_left_is_delivered(size: int, within: str, tmp_path: Path) -> None:
    path, offsets = write_records(tmp_path, COUNT, size)
    expected = [payload(number, size) for number in range(COUNT)]
    dataset = al.RecordDataset(path)
    arguments = {"collate_fn": list, "workers": "processes", "num_workers": 1, "prefetch": 1}
    with (
        al.DataLoader(dataset, 5, **arguments) as loader,
        al.DataLoader(dataset, 5, on_error="skip", **arguments) as skipping,
    ):
        batches, remaining = iter(loader), iter(skipping)
        got, all_left = next(batches), next(remaining)
        os.truncate(path, offsets[CUT] + (4 if within == "head" else 8 + size // 2))
        with pytest.raises(ReadError, match="cut short") as caught:
            got.extend(record for batch in batches for record in batch)
        error = caught.value
        assert (error.path, error.position, error.offset) == (str(path), CUT, offsets[CUT])
        assert f"{path}: the record at position {CUT} (key {CUT}, byte offset {offsets[CUT]})" in str(error)
        assert got == expected[:20]  # all batches before the one that meets it
        with pytest.warns(LoaderWarning, match=f"{path}.*position {CUT}"):
            all_left.extend(record for batch in remaining for record in batch)
        assert all_left == expected[:CUT]
        assert skipping.stats()["skipped"] == COUNT - CUT


def delete(path: Path) -> None:
    path.unlink()


def make_unreadable(path: Path) -> None:
    path.chmod(0)
    try:
        path.open("rb").close()
    except PermissionError:
        return
    path.unlink()  # root reads what it likes, but no more than others what leads nowhere
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("spoil", "kind", "says"),
    [(delete, MissingFileError, "is not there"), (make_unreadable, ReadError, "cannot be opened")],
)
def test_a_worker_that_starts_later_names_the_file_that_it_cannot_open(
    spoil: Callable[[Path], None], kind: type[Exception], says: str, tmp_path: Path
) -> None:
    path, _ = write_records(tmp_path, COUNT, 3000)
    with al.DataLoader(
        al.RecordDataset(path), 5, collate_fn=list, workers="processes", num_workers=1, prefetch=1
    ) as loader:
        batches = iter(loader)
        got = next(batches)
        spoil(path)
        got += next(batches)  # who has it open goes on
        [worker] = worker_processes()
        worker.kill()
        assert gone([worker.pid])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoaderWarning)
            with pytest.raises(kind, match=f"{path} {says}") as caught:
                got.extend(record for batch in batches for record in batch)
    assert caught.value.path == str(path)
    assert got in ([payload(number, 3000) for number in range(stop)] for stop in (10, 15))


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("spoil", [delete, make_unreadable])
def test_a_file_that_is_open_is_read_to_its_end(spoil: Callable[[Path], None], workers: str, tmp_path: Path) -> None:
    path, _ = write_records(tmp_path, COUNT, 3000)
    with al.DataLoader(al.RecordDataset(path), 5, collate_fn=list, workers=workers, num_workers=1) as loader:
        for epoch in range(2):
            got = []
            for batch in loader:
                got += batch
                if epoch == 0 and len(got) == 5:
                    spoil(path)
            assert got == [payload(number, 3000) for number in range(COUNT)]
