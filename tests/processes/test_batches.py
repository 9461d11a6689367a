"""What comes back from a process is what was made there, and stays it."""

from __future__ import annotations

import collections
import dataclasses
import gc
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import asyncloader as al
from asyncloader.errors import SampleError, WorkerError
from tests.processes.helpers import Numbers, numbers, run_python, shared_blocks, worker_processes

LARGE = (64, 64)  # int32, 16 KB a sample


def test_kept_batches_never_change() -> None:
    with al.DataLoader(Numbers(1600, LARGE), 4, workers="processes", num_workers=2, prefetch=4) as loader:
        kept, copies, views = [], [], []
        for number, (arrays, labels) in enumerate(loader):
            if number % 3 == 0:  # the memory of the others is used again
                kept.append((arrays, labels))
                copies.append((arrays.copy(), labels.copy()))
            if number % 50 == 1:  # of these a view of a view alone is kept
                views.append((arrays[2:3].T[5:].reshape(-1)[::2][3:4], int(labels[2])))
        list(loader)
    del loader
    gc.collect()
    for batch, copy in zip(kept, copies, strict=True):
        assert (batch[0] == copy[0]).all()
        assert (batch[1] == copy[1]).all()
    assert numbers(kept)[:8] == [0, 1, 2, 3, 12, 13, 14, 15]
    assert [int(view[0]) for view, _ in views] == [label for _, label in views]


def test_what_the_consumer_writes_reaches_no_other_batch() -> None:
    with al.DataLoader(Numbers(400, LARGE), 4, workers="processes", num_workers=2) as loader:
        for arrays, labels in loader:
            assert (arrays.reshape(4, -1) == labels[:, None]).all()
            arrays[...] = -1
            labels[...] = -1


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_memory_that_is_shared_is_bounded_when_the_consumer_keeps_everything() -> None:
    def blocks(process: psutil.Process) -> int:
        return len(shared_blocks(process.pid))

    gc.collect()
    assert blocks(psutil.Process()) == 0  # what earlier tests had is gone
    with al.DataLoader(Numbers(800, LARGE), 4, workers="processes", num_workers=2, prefetch=4) as loader:
        kept, most = [], 0
        for batch in loader:
            kept.append(batch)
            most = max(most, blocks(psutil.Process()))
        # As many as may be kept, and two that each worker fills.
        assert 0 < most <= 4 + 2 + 2 * 2
        assert max(map(blocks, worker_processes())) <= 4 + 2 + 2 * 2
        assert numbers(kept) == list(range(800))
        most = 0
        for _ in loader:  # one that keeps nothing is served from as few
            most = max(most, blocks(psutil.Process()))
        assert most <= 4 + 2 + 2 * 2


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_does_not_stay_as_large_as_the_largest_batch_made_it() -> None:
    class OneIsHuge(Numbers):
        def __getitem__(self, position: int) -> Any:
            return np.full(8_000_000 if position == 5 else 10_000, position % 100, np.uint8)

    def mapped() -> int:
        bounds = (line.split()[0].split("-") for line in shared_blocks())
        return sum(int(end, 16) - int(start, 16) for start, end in bounds)

    with al.DataLoader(OneIsHuge(300), 1, workers="processes", num_workers=2, prefetch=4) as loader:
        for number, batch in enumerate(loader):
            assert batch.size == (8_000_000 if number == 5 else 10_000)
            assert (batch == number % 100).all()
            del batch
        assert mapped() < 8_000_000


@dataclasses.dataclass
class Record:
    name: str
    values: Any
    more: dict[str, Any]


Pair = collections.namedtuple("Pair", "left right")

ODD = [
    None,
    True,
    "text é",
    b"bytes" * 1000,
    bytearray(b"mutable"),
    memoryview(b"seen"),
    1 << 100,
    float("inf"),
    {"a": [1, (2, {3})], "b": frozenset({4})},
    Record("name", np.arange(5000), {"nested": [np.eye(3)]}),
    Pair(np.arange(3), Pair("x", 1)),
    lambda number: number + 1,
    np.float32(1.5),
    np.array(7),
    np.empty((0, 5), np.int64),
    np.empty((3, 0)),
    np.arange(20_000).reshape(100, 200).T,
    np.arange(20_000)[::-3],
    np.array(["unicode", "é"]),
    np.array([b"bytes", b""]),
    np.array([1, "object", None], dtype=object),
    np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
    np.arange(10, dtype=">i4"),
    np.ones(5, np.float16),
    np.ones(70_000, np.complex128),
    np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]),
    np.broadcast_to(np.arange(3), (4, 3)),
    np.zeros(5, bool),
    slice(1, 2),
    range(10),
    ValueError("an exception as a value"),
    ...,
]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        if type(one) is not type(other) or one.dtype != other.dtype or one.shape != other.shape:
            return False
        return one.tolist() == other.tolist() and (not isinstance(one, np.ma.MaskedArray) or same(one.mask, other.mask))
    if isinstance(one, memoryview):
        return one.tobytes() == bytes(other)
    if callable(one):
        return bool(one(1) == other(1))
    if isinstance(one, BaseException):
        return repr(one) == repr(other)
    if dataclasses.is_dataclass(one):
        return type(one) is type(other) and same(vars(one), vars(other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def test_odd_objects_come_back_equal() -> None:
    class Odd(Numbers):
        def __getitem__(self, position: int) -> Any:
            return ODD[position]

    with al.DataLoader(Odd(len(ODD)), None, workers="processes", num_workers=1) as loader:
        for _ in range(2):  # with no block yet, and with one
            for expected, got in zip(ODD, loader, strict=True):
                assert same(expected, got), expected


def test_batches_of_changing_sizes_and_structures() -> None:
    class Changing(Numbers):
        def __getitem__(self, position: int) -> Any:
            return {"array": np.full(position * position * 10, position, np.int16), "text": "x" * position}

    with al.DataLoader(Changing(100), 3, workers="processes", num_workers=2) as loader:
        for _ in range(2):
            samples = [
                (array, text) for batch in loader for array, text in zip(batch["array"], batch["text"], strict=True)
            ]
            assert len(samples) == 100
            for position, (array, text) in enumerate(samples):
                assert (array.size, len(text)) == (position * position * 10, position)
                assert (array == position).all()


def test_padded_batches_come_in_shared_memory_too() -> None:
    class Ragged(Numbers):
        def __getitem__(self, position: int) -> Any:
            return np.full(1000 + position % 7, position, np.int32)

    with al.DataLoader(Ragged(70), 7, collate_fn=al.pad, workers="processes", num_workers=2) as loader:
        for number, batch in enumerate(loader):
            assert batch.shape == (7, 1006)
            assert batch[:, 999].tolist() == list(range(7 * number, 7 * number + 7))
            assert (batch[0, 1000:] == 0).all()


def test_a_batch_of_many_positions() -> None:
    with al.DataLoader(
        al.ArrayDataset(np.arange(400_000)), 100_000, shuffle=True, workers="processes", num_workers=2
    ) as loader:
        for _ in range(2):
            assert (np.sort(np.concatenate(list(loader))) == np.arange(400_000)).all()


def test_messages_larger_than_any_pipe_in_both_directions() -> None:
    text = "0123456789" * 100_000

    class Echo(Numbers):
        def __getitem__(self, position: int) -> int:
            return position

    sampler = [[position] * 50_000 for position in range(6)]
    with al.DataLoader(
        Echo(6),
        batch_sampler=sampler,
        collate_fn=lambda samples: (len(samples), text[samples[-1] :]),
        workers="processes",
        num_workers=2,
    ) as loader:
        assert list(loader) == [(50_000, text[position:]) for position in range(6)]


def test_what_cannot_leave_the_worker_fails_its_batch_alone() -> None:
    class Fails(Numbers):
        def __getitem__(self, position: int) -> Any:
            return (number for number in range(3)) if position == 1 else position

    with al.DataLoader(Fails(3), None, workers="processes", num_workers=1) as loader:
        batches = iter(loader)
        assert next(batches) == 0
        with pytest.raises(SampleError, match="generator") as caught:
            next(batches)
        assert caught.value.position == 1
        assert isinstance(caught.value.__cause__, TypeError)
        assert next(batches) == 2


def test_what_cannot_be_unpickled_here_fails_its_batch_alone() -> None:
    class Poisoned:
        def __reduce__(self) -> Any:
            return int, ("no number",)

    class Fails(Numbers):
        def __getitem__(self, position: int) -> Any:
            return Poisoned() if position == 1 else position

    with al.DataLoader(Fails(3), None, workers="processes", num_workers=1) as loader:
        batches = iter(loader)
        assert next(batches) == 0
        with pytest.raises(WorkerError, match=r"batch 1 of epoch 0 \(positions 1\).*no number"):
            next(batches)
        assert next(batches) == 2


def test_memory_and_descriptors_are_flat_over_thousands_of_small_batches() -> None:
    with al.DataLoader(Numbers(1500, (300,)), 1, workers="processes", num_workers=2) as loader:
        processes = [psutil.Process()]

        def held() -> tuple[list[int], list[int], int]:
            gc.collect()
            processes[1:] = worker_processes()
            descriptors = [process.num_fds() if hasattr(process, "num_fds") else 0 for process in processes]
            return descriptors, [process.memory_info().rss for process in processes], processes[0].num_threads()

        for _ in range(2):
            for _ in loader:
                pass
        descriptors, memory, threads = held()
        for _ in range(3):
            for _ in loader:
                pass
        for _ in range(300):
            for _ in loader:
                break
        time.sleep(0.1)
        later_descriptors, later_memory, later_threads = held()
        assert max(map(int.__sub__, later_descriptors, descriptors)) <= 2  # a block more or less
        assert max(map(int.__sub__, later_memory, memory)) < 4_000_000
        assert later_threads == threads


@pytest.mark.posix
def test_many_loaders_with_few_descriptors(tmp_path: Path) -> None:
    code = """
import gc, os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
import numpy as np
import asyncloader as al

class Data:
    def __len__(self): return 60
    def __getitem__(self, position): return np.full(10_000, position)

def held():
    gc.collect()
    return sorted(os.listdir("/proc/self/fd" if os.path.exists("/proc/self/fd") else "/dev/fd"))

before = None
for turn in range(8):
    loader = al.DataLoader(Data(), 3, workers="processes", num_workers=2)
    kept = list(loader)
    assert [int(array[0]) for batch in kept for array in batch] == list(range(60))
    if turn % 2:
        loader.close()
    else:
        workers = loader._thread
        del loader, kept
        gc.collect()
        workers.join()
    if turn == 1:
        kept = None
        before = held()
kept = None
assert held() == before, (held(), before)
print("done")
"""
    assert run_python("-W", "error", "-c", code) == ("done\n", "", 0)
