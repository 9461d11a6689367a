"""Samplers that users bring: anything that can be iterated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from asyncloader.samplers import Schedule


class Recorder:
    """A sampler that remembers the epochs it was told."""

    def __init__(self) -> None:
        self.epochs: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def __iter__(self) -> Iterator[int]:
        return iter([0, 1, 2])


class Wrapper:
    """A batch sampler as PyTorch's is: the sampler within has the epoch."""

    def __init__(self, sampler: Recorder) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[list[int]]:
        return ([position] for position in self.sampler)


class Rewinding:
    """A sampler that is its own iterator, and begins again at each iter()."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Rewinding:
        self.at = 0
        return self

    def __next__(self) -> int:
        self.at += 1
        if self.at > 4:
            raise StopIteration
        return self.at - 1


class Draining:
    """A sampler that gives all it has once, and nothing afterwards."""

    def __init__(self) -> None:
        self.items = [0, 1, 2]

    def __iter__(self) -> Iterator[int]:
        while self.items:
            yield self.items.pop(0)


def give(schedule: Schedule) -> list[list[Any]]:
    run = schedule.begin()
    batches = []
    for batch in run:
        run.given(batch.number)
        batches.append(list(batch.positions))
    run.finished()
    return batches


def test_each_epoch_is_told_to_a_sampler() -> None:
    sampler = Recorder()
    schedule = Schedule(3, sampler=sampler)
    give(schedule)
    give(schedule)
    schedule.set_epoch(9)
    give(schedule)
    assert sampler.epochs == [0, 1, 9]


def test_each_epoch_is_told_to_the_sampler_within_a_batch_sampler() -> None:
    sampler = Recorder()
    schedule = Schedule(3, batch_sampler=Wrapper(sampler))
    give(schedule)
    give(schedule)
    assert sampler.epochs == [0, 1]


def test_without_a_length_there_are_batches_but_no_number_of_them() -> None:
    schedule = Schedule(3, sampler=Recorder(), batch_size=2)
    with pytest.raises(TypeError, match="Recorder has no length"):
        len(schedule)
    assert give(schedule) == [[0, 1], [2]]


@pytest.mark.parametrize("make", [lambda: iter([0, 1, 2]), lambda: (n for n in range(3)), Draining])
def test_a_sampler_that_can_be_iterated_once_is_an_error_the_second_time(make: Any) -> None:
    schedule = Schedule(3, sampler=make())
    assert give(schedule) == [[0], [1], [2]]
    with pytest.raises(ValueError, match="can be iterated only once"):
        give(schedule)


def test_what_is_left_of_a_generator_is_no_epoch() -> None:
    schedule = Schedule(9, sampler=(n for n in range(9)))
    next(schedule.begin())
    with pytest.raises(ValueError, match="generator can be iterated only once"):
        schedule.begin()


def test_a_sampler_that_rewinds_itself_can_be_iterated_again() -> None:
    schedule = Schedule(4, sampler=Rewinding(), batch_size=4)
    assert give(schedule) == give(schedule) == [[0, 1, 2, 3]]


def test_a_sampler_of_nothing_gives_no_batches_each_time() -> None:
    schedule = Schedule(4, sampler=[])
    assert give(schedule) == give(schedule) == []


@pytest.mark.parametrize("wrong", [4, -1, 2**63, 2**70, np.int64(4), np.uint64(2**63), np.int8(-1)])
@pytest.mark.parametrize("batched", [False, True])
def test_a_position_outside_the_dataset_is_named_with_its_sampler(wrong: int, batched: bool) -> None:
    arguments: dict[str, Any] = {"batch_sampler": [[0, wrong]]} if batched else {"sampler": [0, wrong], "batch_size": 2}
    with pytest.raises(ValueError, match=f"list gave position {int(wrong)}, but the dataset has 4 samples"):
        give(Schedule(4, **arguments))


@pytest.mark.parametrize("wrong", [True, np.True_, 1.0, np.float64(1), "1", None, [1], np.array([1, 2])])
@pytest.mark.parametrize("batched", [False, True])
def test_what_is_no_position_is_named_with_its_sampler(wrong: object, batched: bool) -> None:
    arguments: dict[str, Any] = {"batch_sampler": [[0, wrong]]} if batched else {"sampler": [0, wrong], "batch_size": 2}
    with pytest.raises(TypeError, match=f"list gave .*, a {type(wrong).__qualname__}, as a position"):
        give(Schedule(4, **arguments))


class Index:
    def __index__(self) -> int:
        return 3


def test_integers_of_all_kinds_are_positions() -> None:
    kinds = [1, np.int8(1), np.uint64(2), np.int32(0), Index()]
    [batch] = Schedule(4, sampler=kinds, batch_size=5).begin()
    assert isinstance(batch.positions, np.ndarray)
    assert batch.positions.dtype == np.int64
    assert batch.positions.tolist() == [1, 1, 2, 0, 3]


@pytest.mark.parametrize("batch", [(0, 2), [0, 2], np.array([0, 2], np.uint8), iter([0, 2]), {0: None, 2: None}])
def test_batches_of_all_kinds_are_taken(batch: object) -> None:
    assert give(Schedule(3, batch_sampler=[batch])) == [[0, 2]]


def test_a_batch_sampler_that_gives_no_batches_but_positions_is_an_error() -> None:
    with pytest.raises(TypeError, match="list gave 3 as a batch"):
        give(Schedule(4, batch_sampler=[3]))


def test_an_empty_batch_is_an_error() -> None:
    with pytest.raises(ValueError, match="list gave an empty batch"):
        give(Schedule(4, batch_sampler=[[0], []]))


def test_without_a_dataset_length_any_objects_pass() -> None:
    keys = ["a", (1, 2), None, -5, True]
    assert give(Schedule(None, sampler=keys, batch_size=2)) == [["a", (1, 2)], [None, -5], [True]]
    assert give(Schedule(None, batch_sampler=[["a", "b"], ["c"]])) == [["a", "b"], ["c"]]


def test_leftovers_of_any_objects_roll_over_and_resume() -> None:
    schedule = Schedule(None, sampler=["a", "b", "c"], batch_size=2, last_batch="rollover")
    assert give(schedule) == [["a", "b"]]
    resumed = Schedule(None, sampler=["a", "b", "c"], batch_size=2, last_batch="rollover")
    resumed.load_state_dict(schedule.state_dict())
    assert give(resumed) == give(schedule) == [["c", "a"], ["b", "c"]]


def test_a_sampler_that_fails_fails_the_pass_after_the_whole_batches_before_it() -> None:
    def failing() -> Iterator[int]:
        yield from range(5)
        raise RuntimeError("from the sampler")

    run = Schedule(9, sampler=failing(), batch_size=2).begin()
    assert [next(run).number, next(run).number] == [0, 1]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="from the sampler"):
            next(run)


def test_an_endless_sampler_is_read_no_further_than_the_next_step() -> None:
    read: list[int] = []

    class Endless:
        def __iter__(self) -> Iterator[int]:
            while True:
                read.append(0)
                yield 0

    run = Schedule(1, sampler=Endless(), batch_size=3).begin()
    next(run)
    assert len(read) == 6


def test_the_end_is_where_the_sampler_ends_whatever_its_length_says() -> None:
    class Liar:
        def __init__(self, says: int) -> None:
            self.says = says

        def __len__(self) -> int:
            return self.says

        def __iter__(self) -> Iterator[int]:
            return iter(range(5))

    for says in (3, 9):
        assert give(Schedule(5, sampler=Liar(says), batch_size=2)) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sampler": [0], "shuffle": True}, "give no shuffle"),
        ({"batch_sampler": [[0]], "shuffle": True}, "a batch_sampler makes the batches"),
        ({"batch_sampler": [[0]], "sampler": [0]}, "a batch_sampler makes the batches"),
        ({"batch_sampler": [[0]], "last_batch": "discard"}, "a batch_sampler makes the batches"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "a batch_sampler makes the batches"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is"),
        ({"world_size": 0}, "world_size is 0"),
        ({"shuffle": "block"}, "shuffle is 'block'"),
        ({"last_batch": "drop"}, "last_batch is 'drop'"),
        ({"short_ranks": "fill"}, "short_ranks is 'fill'"),
        ({"block_size": 0}, "block_size is 0"),
    ],
)
def test_arguments_that_cannot_be_honoured_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schedule(4, **arguments)


def test_arguments_of_the_wrong_type_are_refused() -> None:
    for arguments in ({"batch_size": 2.0}, {"batch_size": True}, {"seed": "1"}):
        with pytest.raises(TypeError, match="it is an integer"):
            Schedule(4, **arguments)  # type: ignore[arg-type]


def test_a_dataset_without_a_length_needs_a_sampler() -> None:
    with pytest.raises(ValueError, match="needs a sampler or a batch_sampler"):
        Schedule(None)


def test_numpy_integers_are_arguments_and_the_state_stays_plain() -> None:
    state = Schedule(np.int64(4), batch_size=np.int32(2), seed=np.uint8(3)).state_dict()  # type: ignore[arg-type]
    assert {type(state[name]) for name in ("length", "batch_size", "seed")} == {int}


def test_an_epoch_of_a_schedule_is_from_0() -> None:
    with pytest.raises(ValueError, match="epoch is -1"):
        Schedule(4).set_epoch(-1)
