"""Worker processes: what they are told, how they fail, and how they end."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.utils.data as data  # noqa: E402

import asyncloader  # noqa: E402
from asyncloader.errors import LoaderTimeoutError, LoaderWarning, WorkerError  # noqa: E402
from asyncloader.torch import DataLoader  # noqa: E402
from tests.conftest import LeakCheck  # noqa: E402
from tests.torch.helpers import Numbers, assert_same  # noqa: E402

pytestmark = pytest.mark.torch


class WhoAmI(Numbers):
    """Says which process made a sample, and what that process was told."""

    prepared: int | None = None

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        info = data.get_worker_info()
        if info is None:
            return os.getpid(), None
        time.sleep(0.02)  # so that no worker makes them all
        return os.getpid(), (info.id, info.num_workers, info.seed, info.dataset is self, self.prepared)


def _prepare(number: int) -> None:
    info = data.get_worker_info()
    assert info is not None
    info.dataset.prepared = 10 * number + int(torch.initial_seed() == info.seed)


def test_workers_are_told_what_torch_tells_them() -> None:
    generator = torch.Generator().manual_seed(11)
    base_seed = torch.empty((), dtype=torch.int64).random_(generator=torch.Generator().manual_seed(11)).item()
    loader = DataLoader(WhoAmI(60), num_workers=2, generator=generator, worker_init_fn=_prepare, collate_fn=list)
    told = {sample for batch in loader for sample in batch}
    assert {info for _, info in told} == {(i, 2, base_seed + i, True, 10 * i + 1) for i in range(2)}
    assert len({pid for pid, _ in told}) == 2
    assert os.getpid() not in {pid for pid, _ in told}
    assert data.get_worker_info() is None


def test_threads_are_not_worker_processes() -> None:
    loader = DataLoader(WhoAmI(9), num_workers=2, workers="threads", collate_fn=list)
    assert [sample for batch in loader for sample in batch] == [(os.getpid(), None)] * 9


class Drawing(Numbers):
    def __getitem__(self, index: int) -> tuple[float, ...]:
        return random.random(), float(np.random.rand()), float(torch.rand(())), random.random()


def test_what_samples_draw_does_not_depend_on_the_number_of_workers() -> None:
    draws = []
    for num_workers in (1, 2):
        torch.manual_seed(3)
        with_workers = DataLoader(Drawing(24), 4, num_workers=num_workers, persistent_workers=True)
        draws.append([torch.stack(batch) for _ in range(2) for batch in with_workers])
    assert_same(draws[0], draws[1])
    drawn = torch.cat(draws[0], dim=1)
    assert len(torch.unique(drawn)) == drawn.numel()  # no two samples, passes or generators alike


class DrawingBatches(Drawing):
    def __getitems__(self, indexes: list[int]) -> list[tuple[float, ...]]:
        return [self[index] for index in indexes]


@pytest.mark.parametrize(("dataset", "batch_size"), [(DrawingBatches(24), 4), (Drawing(24), None)])
def test_no_two_batches_made_whole_draw_the_same(dataset: Any, batch_size: int | None) -> None:
    loader = DataLoader(dataset, batch_size, num_workers=1, collate_fn=torch.tensor)
    drawn = torch.cat([batch.flatten() for batch in loader])
    assert len(torch.unique(drawn)) == 24 * 4


class Box(NamedTuple):
    number: int


def _collate_boxes(boxes: list[Box], *, collate_fn_map: Any = None) -> str:
    return "+".join(str(box.number) for box in boxes)


def test_what_was_registered_for_the_default_collation_holds_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(data._utils.collate.default_collate_fn_map, Box, _collate_boxes)
    boxes = [{"box": Box(number)} for number in range(4)]
    for collate_fn in (None, lambda batch: data.default_collate(batch)):
        loader = DataLoader(boxes, 2, num_workers=1, collate_fn=collate_fn)
        assert list(loader) == [{"box": "0+1"}, {"box": "2+3"}]


SCRIPT = """
import torch
from asyncloader.torch import DataLoader, Dataset

print("once")

class Doubles(Dataset):
    scale = torch.tensor(2)
    def __len__(self):
        return 6
    def __getitem__(self, index):
        return self.scale * index

loader = DataLoader(Doubles(), 3, num_workers=1, collate_fn=lambda batch: torch.stack(batch) + 1)
print([batch.tolist() for batch in loader])
"""


def test_a_script_needs_no_main_guard_and_nothing_that_can_be_imported(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    folder = str(Path(asyncloader.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": folder},
    )
    assert done.stdout == "once\n[[1, 3, 5], [7, 9, 11]]\n"
    assert done.stderr == ""


class Changing(Numbers):
    """Its samples say what was set before the pass, and how many this copy has made."""

    setting = 0
    made = 0

    def __getitem__(self, index: int) -> tuple[int, int, int]:
        self.made += 1
        return self.setting, self.made, os.getpid()


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_and_their_copies_of_the_dataset_persist_if_asked(persistent: bool, no_leaks: LeakCheck) -> None:
    dataset = Changing(3)
    loader = DataLoader(dataset, num_workers=1, persistent_workers=persistent)
    passes = []
    for setting in (1, 2):
        dataset.setting = setting
        passes.append([tuple(map(int, batch)) for batch in loader])
    pids = {pid for batches in passes for _, _, pid in batches}
    seen = [[batch[:2] for batch in batches] for batches in passes]
    if persistent:
        assert seen == [[(1, 1), (1, 2), (1, 3)], [(1, 4), (1, 5), (1, 6)]]
        assert len(pids) == 1
        loader.close()
    else:
        assert seen == [[(1, 1), (1, 2), (1, 3)], [(2, 1), (2, 2), (2, 3)]]
        assert len(pids) == 2
    no_leaks.check()


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_pass_that_is_broken_off_leaves_nothing(workers: str, no_leaks: LeakCheck) -> None:
    for batch in DataLoader(Numbers(1000), num_workers=2, workers=workers):
        assert batch.tolist() == [0]
        break
    no_leaks.check()


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_persistent_pass_can_be_broken_off_and_begun_again(workers: str) -> None:
    loader = DataLoader(Numbers(40), 4, num_workers=2, workers=workers, persistent_workers=True)
    assert next(iter(loader)).tolist() == [0, 1, 2, 3]
    assert_same(list(loader), list(data.DataLoader(Numbers(40), 4)))
    loader.close()


class FailingAt(Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 5:
            raise LookupError("no 5 here")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_an_error_has_its_own_type_names_the_sample_and_ends_no_pass(workers: str) -> None:
    batches = iter(DataLoader(FailingAt(12), 4, num_workers=2, workers=workers))
    assert next(batches).tolist() == [0, 1, 2, 3]
    with pytest.raises(LookupError, match="no 5 here") as caught:
        next(batches)
    assert any("position 5" in note and "FailingAt" in note for note in caught.value.__notes__)
    assert [batch.tolist() for batch in batches] == [[8, 9, 10, 11]]


class StoppingAt(Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 5:
            return next(iter(()))
        return super().__getitem__(index)


@pytest.mark.parametrize("batch_size", [4, None])
def test_a_stop_iteration_in_a_sample_does_not_cut_the_pass_short(batch_size: int | None) -> None:
    batches = DataLoader(StoppingAt(12), batch_size, num_workers=2, workers="threads")
    with pytest.raises(Exception, match="StopIteration"):
        list(batches)


def test_what_cannot_be_collated_raises_what_torch_raises() -> None:
    ragged = [torch.zeros(2), torch.zeros(3)]
    with pytest.raises(RuntimeError) as theirs:
        next(iter(data.DataLoader(ragged, 2)))
    for workers in ("threads", "processes"):
        with pytest.raises(RuntimeError) as ours:
            next(iter(DataLoader(ragged, 2, num_workers=1, workers=workers)))
        assert str(ours.value) == str(theirs.value)


def _fail(number: int) -> None:
    raise PermissionError("not in here")


def test_an_error_in_worker_init_fn_is_raised() -> None:
    with pytest.raises(PermissionError, match="not in here"):
        list(DataLoader(Numbers(9), num_workers=1, worker_init_fn=_fail))


class SlowAt(Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 2:
            time.sleep(600)
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_timeout_names_the_batch(workers: str) -> None:
    loader = DataLoader(SlowAt(4), num_workers=1, workers=workers, timeout=15 if workers == "processes" else 0.5)
    batches = iter(loader)
    assert [next(batches).item() for _ in range(2)] == [0, 1]
    with pytest.raises(LoaderTimeoutError, match=r"batch 2 .*positions 2\)"):
        next(batches)


class KillsItself(Numbers):
    """Ends its process, once, at one sample."""

    def __init__(self, length: int, marker: str) -> None:
        super().__init__(length)
        self.marker = marker

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 7 and not os.path.exists(self.marker):
            with open(self.marker, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return torch.tensor([index, data.get_worker_info().id])  # type: ignore[union-attr]


@pytest.mark.posix
def test_a_worker_that_is_killed_is_replaced_by_one_of_its_number(tmp_path: Any) -> None:
    loader = DataLoader(KillsItself(40, str(tmp_path / "killed")), 4, num_workers=2)
    with pytest.warns(LoaderWarning, match="was replaced"):
        made = torch.cat(list(loader))
    assert made[:, 0].tolist() == list(range(40))
    assert set(made[:, 1].tolist()) <= {0, 1}


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_forking_is_refused_with_the_reason(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    for context in (method, multiprocessing.get_context(method)):
        with pytest.raises(ValueError, match=f"'{method}' is refused: .*locks"):
            DataLoader(Numbers(9), num_workers=1, multiprocessing_context=context)


def test_spawning_is_what_is_done_and_what_is_said() -> None:
    for context in (None, "spawn", multiprocessing.get_context("spawn")):
        loader = DataLoader(Numbers(3), num_workers=1, multiprocessing_context=context)
        assert loader.multiprocessing_context.get_start_method() == "spawn"  # type: ignore[union-attr]
    assert DataLoader(Numbers(3)).multiprocessing_context is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"workers": "fibres"}, "'processes' or 'threads'"),
        ({"workers": "threads", "num_workers": 1, "worker_init_fn": print}, "there are none"),
        ({"num_workers": 1, "prefetch_factor": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        DataLoader(Numbers(9), **arguments)


def test_a_dataset_that_cannot_be_sent_is_refused_with_the_reason() -> None:
    dataset = Numbers(3)
    dataset.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(WorkerError, match="cannot be sent to a process"):
        iter(DataLoader(dataset, num_workers=1))


def test_an_empty_batch_of_a_sampler_is_an_error() -> None:
    with pytest.raises(ValueError, match="list gave an empty batch"):
        list(DataLoader(Numbers(9), batch_sampler=[[1], []], num_workers=1, workers="threads"))


def test_batches_come_as_they_are_ready_if_asked() -> None:
    loader = DataLoader(SlowAt(4), num_workers=2, workers="threads", in_order=False, timeout=0.5)
    batches = iter(loader)
    assert sorted(next(batches).item() for _ in range(3)) == [0, 1, 3]
    with pytest.raises(LoaderTimeoutError, match="batch 2"):
        next(batches)
