"""An exception in a worker arrives as itself, with the worker's traceback and the sample's identity."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

import asyncloader as al
from asyncloader.errors import SampleError, WorkerError
from tests.processes.helpers import Acting, Numbers


class OfTheProgram(Exception):
    def __init__(self, code: int, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


class Unpicklable(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("never")


class CannotBeMadeAgain(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class HasNoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _failure_of(action: Any, **arguments: Any) -> BaseException:
    with al.DataLoader(Acting(9, {4}, action), 3, workers="processes", num_workers=1, **arguments) as loader:
        batches = iter(loader)
        assert next(batches)[1].tolist() == [0, 1, 2]
        with pytest.raises(al.AsyncLoaderError) as caught:
            next(batches)
        assert next(batches)[1].tolist() == [6, 7, 8]
    return caught.value


def test_an_exception_keeps_its_type_its_attributes_and_its_own_cause() -> None:
    def deep_in_the_transform(position: int) -> None:
        try:
            raise KeyError("the first cause")
        except KeyError as error:
            raise OfTheProgram(7, "detail") from error

    error = _failure_of(deep_in_the_transform)
    assert isinstance(error, SampleError)
    assert error.position == 4
    cause = error.__cause__
    assert isinstance(cause, OfTheProgram)
    assert (cause.code, cause.detail) == (7, "detail")
    assert isinstance(cause.__cause__, KeyError)
    shown = "".join(traceback.format_exception(error))
    assert "deep_in_the_transform" in shown  # the worker's traceback
    assert "position 4" in shown
    assert "the first cause" in shown


def test_an_exception_of_a_local_class_keeps_its_type() -> None:
    class Local(Exception):
        pass

    def fail(position: int) -> None:
        raise Local("mine")

    assert isinstance(_failure_of(fail).__cause__, Local)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (lambda: Unpicklable("what it said"), "what it said"),
        (lambda: CannotBeMadeAgain("this", "that"), "this and that"),
        (lambda: OfTheProgram(1, lambda: 0), "OfTheProgram"),  # type: ignore[arg-type]
    ],
    ids=["unpicklable", "cannot be made again", "of what cloudpickle can"],
)
def test_an_exception_that_cannot_travel_leaves_its_text(error: Any, text: str) -> None:
    def fail(position: int) -> None:
        raise error()

    failure = _failure_of(fail)
    assert isinstance(failure, SampleError)
    assert text in str(failure.__cause__) or text in repr(failure.__cause__)
    assert text in str(failure) + repr(failure.__notes__)
    assert any("in fail" in note for note in failure.__notes__)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_an_exception_that_would_end_the_program_ends_neither_it_nor_the_worker(error: BaseException) -> None:
    def fail(position: int) -> None:
        raise error

    failure = _failure_of(fail)
    assert isinstance(failure, WorkerError)
    assert type(error).__name__ in str(failure)
    assert type(failure.__cause__) is type(error)


def test_an_exception_without_a_text_is_told_all_the_same() -> None:
    def collate(samples: list[Any]) -> Any:
        raise HasNoText

    with (
        al.DataLoader(Numbers(3), 3, collate_fn=collate, workers="processes", num_workers=1) as loader,
        pytest.raises((HasNoText, al.AsyncLoaderError)) as caught,
    ):
        next(iter(loader))
    assert any("HasNoText" in note for note in caught.value.__notes__)


def test_an_error_of_the_collate_function_arrives_as_itself() -> None:
    def collate(samples: list[Any]) -> Any:
        raise OfTheProgram(2, "from collate")

    with (
        al.DataLoader(Numbers(3), 3, collate_fn=collate, workers="processes", num_workers=1) as loader,
        pytest.raises(OfTheProgram) as caught,
    ):
        next(iter(loader))
    assert caught.value.detail == "from collate"
    assert any("in collate" in note for note in caught.value.__notes__)


def test_errors_are_skipped_or_replaced_in_processes_too() -> None:
    def fail(position: int) -> None:
        raise OfTheProgram(position, "bad")

    def replace(error: al.AsyncLoaderError) -> Any:
        assert isinstance(error.__cause__, OfTheProgram)
        return [error.position]

    with al.DataLoader(Acting(4, {1}, fail), None, workers="processes", num_workers=1, on_error=replace) as loader:
        assert [batch if isinstance(batch, list) else batch[1] for batch in loader] == [0, [1], 2, 3]
