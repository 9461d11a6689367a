"""Whatever a transform does, the sample is named, and the rest of the set comes where ``on_error`` allows it."""

from __future__ import annotations

import ctypes
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import asyncloader as al
from asyncloader.errors import AsyncLoaderError, LoaderTimeoutError, LoaderWarning, SampleError, WorkerCrashedError
from tests.faults.conftest import payload, write_records
from tests.processes.helpers import TIMEOUT, run_python

COUNT, BAD = 40, 17


def raises(record: bytes) -> Any:
    raise ZeroDivisionError("of the transform")


def sleeps(record: bytes) -> Any:
    time.sleep(600)


def exits(record: bytes) -> Any:
    os._exit(3)


def segfaults(record: bytes) -> Any:
    return ctypes.string_at(0)


def generates(record: bytes) -> Any:
    return (byte for byte in record)


def none(record: bytes) -> Any:
    return None


class At:
    """Acts for one record, and gives all others as they are."""

    def __init__(self, action: Callable[[bytes], Any]) -> None:
        self.action = action

    def __call__(self, record: bytes) -> Any:
        return self.action(record) if record == payload(BAD, 200) else record


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return write_records(tmp_path, COUNT, 200)[0]


THREADS = {"num_workers": 2}
PROCESSES = {"workers": "processes", "num_workers": 2}
CRASH = SampleError if sys.platform == "win32" else WorkerCrashedError  # Windows makes an exception of a bad address


@pytest.mark.parametrize(
    ("workers", "action", "kind", "says"),
    [
        (THREADS, raises, SampleError, "transform .* raised ZeroDivisionError: of the transform"),
        (PROCESSES, raises, SampleError, "transform .* raised ZeroDivisionError: of the transform"),
        (PROCESSES, sleeps, LoaderTimeoutError, "batch 3 of epoch 0 .*15, 16, 17, 18, 19"),
        (PROCESSES, exits, WorkerCrashedError, "position 17 ended its worker process 3 .* exit status 3"),
        (PROCESSES, segfaults, CRASH, r"position 17\b"),
        (PROCESSES, generates, SampleError, "sending it from its worker process raised TypeError.*generator"),
    ],
)
@pytest.mark.usefixtures("no_leaks")
def test_the_sample_is_named_and_the_rest_comes(
    workers: dict[str, Any], action: Callable[[bytes], Any], kind: type[Exception], says: str, records: Path
) -> None:
    dataset = al.RecordDataset(records, transform=At(action))
    timeout = TIMEOUT if action is sleeps else None
    whole = [[payload(number, 200) for number in range(start, start + 5)] for start in range(0, COUNT, 5)]

    with al.DataLoader(dataset, 5, collate_fn=list, timeout=timeout, **workers) as loader:
        batches = iter(loader)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoaderWarning)
            assert [next(batches) for _ in range(3)] == whole[:3]
            with pytest.raises(kind, match=says) as caught:
                next(batches)
            if isinstance(caught.value, SampleError):
                named = (caught.value.path, caught.value.position, caught.value.key)
                assert named == (str(records), BAD, BAD)
            if action is not sleeps:  # a timeout ends the pass
                assert list(batches) == whole[4:]

    with al.DataLoader(dataset, 5, collate_fn=list, timeout=timeout, on_error="skip", **workers) as loader:
        with pytest.warns(LoaderWarning) as warned:
            assert list(loader) == [[record for record in batch if record != whole[3][2]] for batch in whole]
        [skipped] = [str(warning.message) for warning in warned if "was skipped" in str(warning.message)]
        assert "17" in skipped
        assert loader.stats()["skipped"] == 1


@pytest.mark.parametrize("workers", [THREADS, PROCESSES], ids=["threads", "processes"])
def test_none_is_a_value_as_any_other(workers: dict[str, Any], records: Path) -> None:
    expected = [None if number == BAD else payload(number, 200) for number in range(COUNT)]
    with al.DataLoader(al.RecordDataset(records, transform=At(none)), 5, **workers) as loader:
        assert [sample for batch in loader for sample in batch] == expected


def test_in_threads_a_generator_is_a_value_as_any_other(records: Path) -> None:
    with al.DataLoader(al.RecordDataset(records, transform=At(generates)), 5, **THREADS) as loader:
        samples = [sample for batch in loader for sample in batch]
    assert isinstance(samples[BAD], Iterator)
    assert bytes(samples.pop(BAD)) == payload(BAD, 200)
    assert samples == [payload(number, 200) for number in range(COUNT) if number != BAD]


def test_a_sample_that_cannot_leave_its_worker_can_be_replaced(records: Path) -> None:
    def replace(error: AsyncLoaderError) -> bytes:
        assert isinstance(error.__cause__, TypeError)
        return b"instead of %d" % (error.position or 0)

    dataset = al.RecordDataset(records, transform=At(generates))
    with al.DataLoader(dataset, 5, collate_fn=list, on_error=replace, **PROCESSES) as loader:
        samples = [sample for batch in loader for sample in batch]
    assert samples[BAD] == b"instead of 17"
    assert len(samples) == COUNT


@pytest.mark.posix
@pytest.mark.parametrize("workers", [THREADS, PROCESSES], ids=["threads", "processes"])
def test_memory_that_the_system_refuses_costs_its_sample_alone(workers: dict[str, Any], records: Path) -> None:
    code = """
    import resource, sys, warnings
    import asyncloader as al
    from asyncloader.errors import LoaderWarning, SampleError
    from tests.faults.conftest import payload

    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # which workers inherit

    def greedy(record):
        return bytearray(10 << 30) if record == payload(17, 200) else record

    dataset = al.RecordDataset(sys.argv[1], transform=greedy)
    workers = eval(sys.argv[2])
    with al.DataLoader(dataset, 5, collate_fn=list, **workers) as loader:
        batches = iter(loader)
        assert [record for _ in range(3) for record in next(batches)] == [payload(n, 200) for n in range(15)]
        try:
            next(batches)
        except SampleError as error:
            assert error.position == 17 and isinstance(error.__cause__, MemoryError), error
        else:
            raise AssertionError("the limit does not hold")
        assert [record for batch in batches for record in batch] == [payload(n, 200) for n in range(20, 40)]
    warnings.simplefilter("ignore", LoaderWarning)
    with al.DataLoader(dataset, 5, collate_fn=list, on_error="skip", **workers) as loader:
        assert [record for batch in loader for record in batch] == [payload(n, 200) for n in range(40) if n != 17]
    print("done")
    """
    if sys.platform == "darwin":
        pytest.skip("macOS does not keep to RLIMIT_AS")
    assert run_python("-c", dedent(code), str(records), repr(workers)) == ("done\n", "", 0)
