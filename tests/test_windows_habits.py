"""What Windows does its own way."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncloader as al
from asyncloader import recordio
from asyncloader.errors import LoaderWarning, MissingFileError, WorkerCrashedError
from tests.conftest import ImageRecords
from tests.processes.helpers import Acting, Numbers, gone, numbers, wait_until, worker_processes

pytestmark = pytest.mark.skipif(sys.platform != "win32", reason="Windows alone does so")

THREADS: dict[str, Any] = {"num_workers": 2}
PROCESSES: dict[str, Any] = {"workers": "processes", "num_workers": 1}
PAYLOADS = [b"record %d" % number for number in range(20)]


def write(path: Path | str, payloads: list[bytes] = PAYLOADS) -> None:
    with recordio.RecordWriter(path, os.path.splitext(path)[0] + ".idx") as writer:
        for payload in payloads:
            writer.write(payload)


def load(path: Path | str, **workers: Any) -> list[bytes]:
    dataset = al.RecordDataset(path)
    try:
        with al.DataLoader(dataset, 6, collate_fn=list, **workers) as loader:
            return [record for batch in loader for record in batch]
    finally:
        dataset.close()


@pytest.mark.parametrize("workers", [THREADS, PROCESSES], ids=["threads", "processes"])
@pytest.mark.parametrize(
    "form",
    [
        str,
        lambda path: str(path).replace("\\", "/"),
        lambda path: str(path).lower(),
        lambda path: str(path).upper(),
        lambda path: f"{path.parent}\\.\\..\\{path.parent.name}\\{path.name}",
        lambda path: "\\\\?\\" + str(path),
        lambda path: os.path.relpath(path),
        lambda path: str(path.parent / "trai*.rec"),
    ],
    ids=["as it is", "slashes", "lower", "upper", "dots", "verbatim", "relative", "glob"],
)
def test_paths_in_all_their_forms(form: Any, workers: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "train.rec"
    assert path.drive.endswith(":")
    write(path)
    os.chdir(tmp_path.anchor)
    assert load(form(path), **workers) == PAYLOADS


@pytest.mark.parametrize("workers", [THREADS, PROCESSES], ids=["threads", "processes"])
def test_names_in_other_scripts(workers: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "für ähnliche 猫" / "набор"
    folder.mkdir(parents=True)
    write(folder / "ünïcode 图.rec")
    assert load(folder / "ünïcode 图.rec", **workers) == PAYLOADS
    with pytest.raises(MissingFileError, match="猫"):
        al.RecordDataset(folder / "猫.rec")


def test_a_file_that_is_open_can_be_neither_deleted_nor_replaced_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "train.rec"
    write(path)
    dataset = al.RecordDataset(path)
    with al.DataLoader(dataset, 6, collate_fn=list) as loader:
        batches = iter(loader)
        first = next(batches)
        with pytest.raises(PermissionError):
            path.unlink()
        with pytest.raises(PermissionError, match="refuses while it is open") as caught:
            write(path, [b"other"])
        assert caught.value.filename == str(path)
        assert "Close" in str(caught.value)
        assert sorted(os.listdir(tmp_path)) == ["train.idx", "train.rec"]  # what was to take its place is gone
        assert first + [record for batch in batches for record in batch] == PAYLOADS
    dataset.close()
    write(path, [b"other"])
    assert load(path) == [b"other"]
    path.unlink()


def test_a_worker_holds_its_file_no_longer_than_its_loader(tmp_path: Path) -> None:
    path = tmp_path / "train.rec"
    write(path)
    assert load(path, **PROCESSES) == PAYLOADS
    assert wait_until(lambda: not worker_processes())
    path.unlink()


@pytest.mark.usefixtures("no_leaks")
def test_a_worker_that_is_terminated_is_replaced() -> None:
    with al.DataLoader(Numbers(80, (2000,)), 4, **PROCESSES, prefetch=2) as loader:
        batches = iter(loader)
        got = [next(batches)]
        [worker] = worker_processes()
        worker.terminate()  # TerminateProcess: Windows knows no signals
        with pytest.warns(LoaderWarning, match="replaced"):
            got += batches
        assert numbers(got) == list(range(80))


def exits(position: int) -> None:
    os._exit(7)


@pytest.mark.usefixtures("no_leaks")
def test_a_sample_that_ends_its_worker_is_named_with_the_exit_status() -> None:
    with (
        pytest.raises(WorkerCrashedError, match=r"position 2 .*exit status 7") as caught,
        al.DataLoader(Acting(8, {2}, exits), 4, **PROCESSES) as loader,
    ):
        list(loader)
    assert "signal" not in str(caught.value)


@pytest.mark.usefixtures("no_leaks")
def test_shared_memory_lives_as_long_as_somebody_looks_at_it() -> None:
    with al.DataLoader(Numbers(24, (40_000,)), 4, **PROCESSES) as loader:
        kept = list(loader)
        workers = [worker.pid for worker in worker_processes()]
    assert gone(workers)
    gc.collect()
    assert numbers(kept) == list(range(24))  # the workers that made them are gone
    view = kept[2][0][1, :7]
    del kept
    gc.collect()
    assert view.tolist() == [9] * 7


@pytest.mark.parametrize("loop", ["ProactorEventLoop", "SelectorEventLoop"])
@pytest.mark.parametrize("workers", [THREADS, PROCESSES], ids=["threads", "processes"])
def test_both_event_loops(loop: str, workers: dict[str, Any], image_records: ImageRecords) -> None:
    async def consume() -> list[float]:
        async with al.AsyncDataLoader(al.ImageRecordDataset(image_records.path), 16, **workers) as loader:
            return np.concatenate([labels async for _, labels in loader]).tolist()  # type: ignore[no-any-return]

    with asyncio.Runner(loop_factory=getattr(asyncio, loop)) as runner:
        assert runner.run(consume()) == image_records.labels


async def test_the_default_is_the_proactor() -> None:
    assert type(asyncio.get_running_loop()).__name__ == "ProactorEventLoop"
    async with al.AsyncDataLoader(Numbers(8), 4) as loader:
        assert numbers([batch async for batch in loader]) == list(range(8))
