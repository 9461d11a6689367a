"""A state taken anywhere, loaded into a fresh schedule, gives exactly what was not given."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncloader.errors import StateError
from asyncloader.samplers import MixtureSampler, Pass, Schedule

lengths = st.one_of(st.integers(0, 3), st.integers(0, 60))
batch_sizes = st.integers(1, 20)
seeds = st.integers(0, (1 << 64) - 1)
last_batches = st.sampled_from(["keep", "discard", "rollover"])
short_ranks = st.sampled_from(["pad", "drop"])
orders = st.sampled_from(["sequential", "shuffle", "blocks", "sampler", "unsized", "mixture", "batch_sampler"])


class EpochShuffle:
    """A user's sampler: another order for each epoch, iterated only."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Any:
        return iter(np.random.default_rng(self.epoch).permutation(self.length).tolist())


class SizedEpochShuffle(EpochShuffle):
    def __len__(self) -> int:
        return self.length


class EpochBatches(SizedEpochShuffle):
    """A user's batch sampler: batches of 1, 2, 3, 1, 2, 3 and so on positions."""

    def __iter__(self) -> Any:
        order = list(super().__iter__())
        size = 1
        while order:
            yield order[:size]
            order = order[size:]
            size = size % 3 + 1


def make(length: int, order: str, batch_size: int, last: str, **arguments: Any) -> Schedule:
    if order == "batch_sampler":
        return Schedule(length, batch_sampler=EpochBatches(length), **arguments)
    arguments.update(batch_size=batch_size, last_batch=last)
    if order == "sampler":
        arguments["sampler"] = SizedEpochShuffle(length)
    elif order == "unsized":
        arguments["sampler"] = EpochShuffle(length)
    elif order == "mixture":
        parts = [length // 3, length - length // 3]
        arguments["sampler"] = MixtureSampler(parts, [1, 3], when_exhausted="exhaust", seed=5)
    elif order == "blocks":
        arguments.update(shuffle="blocks", block_size=4, buffer_size=9)
    else:
        arguments["shuffle"] = order == "shuffle"
    return Schedule(length, **arguments)


def plain(batch: Any) -> tuple[int, list[int]]:
    return batch.number, [int(position) for position in batch.positions]


def give(run: Pass, count: int | None = None) -> list[tuple[int, list[int]]]:
    """Be given some batches, or all and the end."""
    batches = []
    for batch in run:
        run.given(batch.number)
        batches.append(plain(batch))
        if len(batches) == count:
            return batches
    run.finished()
    return batches


def through_json(state: dict[str, object]) -> dict[str, object]:
    copy: dict[str, object] = json.loads(json.dumps(state))
    assert copy == state
    return copy


@given(lengths, orders, batch_sizes, last_batches, seeds, st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_any_number_of_stops_changes_nothing(
    length: int, order: str, batch_size: int, last: str, seed: int, stops: list[int]
) -> None:
    def fresh() -> Schedule:
        return make(length, order, batch_size, last, seed=seed)

    uninterrupted = fresh()
    expected = [(epoch, *batch) for epoch in range(8) for batch in give(uninterrupted.begin())]
    schedule = fresh()
    got: list[tuple[int, int, list[int]]] = []
    for stop in stops:  # at each, the run ends and another begins
        got_now = 0
        while got_now < stop and schedule.epoch < 8:
            run = schedule.begin()
            batches = give(run, stop - got_now)
            got += [(run.epoch, *batch) for batch in batches]
            got_now += max(len(batches), 1)  # an epoch without a batch goes by as well
        state = through_json(schedule.state_dict())
        schedule = fresh()
        schedule.load_state_dict(state)
        assert schedule.state_dict() == state
    while schedule.epoch < 8:
        run = schedule.begin()
        got += [(run.epoch, *batch) for batch in give(run)]
    assert got == expected


@given(lengths, orders, batch_sizes, last_batches, seeds, st.integers(1, 30))
def test_batches_planned_ahead_count_as_not_given(
    length: int, order: str, batch_size: int, last: str, seed: int, given_count: int
) -> None:
    schedule = make(length, order, batch_size, last, seed=seed)
    run = schedule.begin()
    planned = [plain(batch) for batch in run]  # all of them, before the first is given
    for number, _ in planned[:given_count]:
        run.given(number)
    state = through_json(run.state_dict())
    other = make(length, order, batch_size, last, seed=seed)
    other.load_state_dict(state)
    if given_count < len(planned):
        assert other.epoch == 0
        assert give(other.begin()) == planned[given_count:]
    assert other.epoch == 1


@given(st.integers(1, 60), orders, batch_sizes, last_batches)
def test_after_the_last_batch_the_state_is_the_next_epochs_start(
    length: int, order: str, batch_size: int, last: str
) -> None:
    schedule = make(length, order, batch_size, last)
    count = len(give(schedule.begin()))
    after_end = schedule.state_dict()
    schedule = make(length, order, batch_size, last)
    run = schedule.begin()
    give(run, count or None)  # the end itself is not asked for
    assert run.state_dict() == after_end
    assert schedule.state_dict() == after_end
    assert after_end["epoch"] == 1


@given(lengths, orders, batch_sizes, last_batches, st.data())
def test_batches_given_out_of_order_are_exactly_those_left_out_by_a_resume(
    length: int, order: str, batch_size: int, last: str, data: st.DataObject
) -> None:
    schedule = make(length, order, batch_size, last)
    run = schedule.begin()
    left = dict(plain(batch) for batch in run)
    for _ in range(3):
        state = through_json(run.state_dict())
        if state["epoch"] == 1:
            assert not left
            return
        for number in data.draw(st.lists(st.sampled_from(sorted(left)), unique=True)):
            run.given(number)
            del left[number]
        state = through_json(run.state_dict())
        schedule = make(length, order, batch_size, last)
        schedule.load_state_dict(state)
        assert schedule.state_dict() == state
        run = schedule.begin()
        assert dict(plain(batch) for batch in run) == left or (not left and run.epoch == 1)
        if not left:
            return


@given(
    lengths,
    orders.filter(lambda order: order != "batch_sampler"),
    st.integers(1, 7),
    st.lists(st.tuples(st.integers(1, 7), st.integers(0, 5)), min_size=2, max_size=4),
    st.sampled_from(["keep", "rollover"]),
)
def test_with_another_world_size_each_remaining_sample_comes_exactly_once(
    length: int, order: str, batch_size: int, stages: list[tuple[int, int]], last: str
) -> None:
    state: dict[str, object] | None = None
    times: Counter[int] = Counter()
    for number, (world_size, steps) in enumerate(stages):
        schedules = [
            make(length, order, batch_size, last, rank=rank, world_size=world_size) for rank in range(world_size)
        ]
        if state is not None:
            for schedule in schedules:
                schedule.load_state_dict(state)
        runs = [schedule.begin() for schedule in schedules]
        is_last_stage = number == len(stages) - 1
        for _ in range(10**6 if is_last_stage else steps):
            batches = [next(run, None) for run in runs]
            assert len({batch is None for batch in batches}) == 1
            for run, batch in zip(runs, batches, strict=True):
                if batch is not None:
                    run.given(batch.number)
                    times.update(plain(batch)[1])
            if batches[0] is None:
                break
        state = through_json(runs[0].state_dict())
        assert all(run.state_dict() == state for run in runs)
        if state["epoch"] == 1:
            break
    assert state is not None
    assert state["epoch"] == 1
    times.update(state["rollover"])  # comes in the next epoch
    padded = runs[0].padded
    assert sum(times.values()) == length + padded
    assert padded < world_size
    assert len(times) == length
    # The epochs after it are whole.
    schedules = [make(length, order, batch_size, last, rank=rank, world_size=2) for rank in range(2)]
    for schedule in schedules:
        schedule.load_state_dict(state)
    following = Counter(position for schedule in schedules for _, batch in give(schedule.begin()) for position in batch)
    following.update(schedules[0].state_dict()["rollover"])
    assert following >= Counter(range(length)) + Counter(state["rollover"])


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 5), st.integers(0, 12))
def test_batch_samplers_resume_with_another_world_size(
    length: int, first_world: int, second_world: int, steps: int
) -> None:
    whole = [batch for _, batch in give(make(length, "batch_sampler", 1, "keep").begin())]
    runs = [
        make(length, "batch_sampler", 1, "keep", rank=rank, world_size=first_world).begin()
        for rank in range(first_world)
    ]
    for run in runs:
        give(run, steps) if steps else None
    state = runs[-1].state_dict()
    if state["epoch"] == 1:
        return
    others = [
        make(length, "batch_sampler", 1, "keep", rank=rank, world_size=second_world) for rank in range(second_world)
    ]
    for other in others:
        other.load_state_dict(state)
    by_rank = [[batch for _, batch in give(other.begin())] for other in others]
    in_turn = [batch for step in zip(*by_rank, strict=True) for batch in step]
    rest = whole[steps * first_world :]
    assert in_turn[: len(rest)] == rest


@given(st.integers(1, 60), st.integers(1, 7), st.integers(2, 5), st.data())
def test_out_of_order_batches_of_one_rank_are_known_to_any_number_of_ranks(
    length: int, batch_size: int, world_size: int, data: st.DataObject
) -> None:
    run = make(length, "shuffle", batch_size, "keep").begin()
    planned = dict(plain(batch) for batch in run)
    for number in data.draw(st.lists(st.sampled_from(sorted(planned)), unique=True, max_size=len(planned) - 1)):
        run.given(number)
        del planned[number]
    others = [
        make(length, "shuffle", batch_size, "keep", rank=rank, world_size=world_size) for rank in range(world_size)
    ]
    for other in others:
        other.load_state_dict(run.state_dict())
    passes = [other.begin() for other in others]
    times = Counter(position for part in passes for _, batch in give(part) for position in batch)
    rest = {position for batch in planned.values() for position in batch}
    assert rest <= set(times)
    assert sum(times.values()) == len(rest) + passes[0].padded


def test_out_of_order_batches_of_one_rank_among_several_cannot_be_cut_anew() -> None:
    run = Schedule(100, world_size=4).begin()
    next(run), next(run)
    run.given(1)
    with pytest.raises(StateError, match="world_size=4, not 2"):
        Schedule(100, world_size=2).load_state_dict(run.state_dict())


@given(lengths, batch_sizes, st.integers(1, 9), st.integers(0, 8), short_ranks, last_batches)
def test_states_do_not_depend_on_the_rank_that_saves_them(
    length: int, batch_size: int, world_size: int, steps: int, short: str, last: str
) -> None:
    states = []
    for rank in range(world_size):
        run = make(length, "shuffle", batch_size, last, rank=rank, world_size=world_size, short_ranks=short).begin()
        give(run, steps) if steps else None
        states.append(run.state_dict())
    assert all(state == states[0] for state in states)


def test_a_pass_that_was_left_leaves_the_state_where_it_was() -> None:
    schedule = Schedule(10, batch_size=3)
    give(schedule.begin(), 2)
    assert schedule.state_dict()["batches"] == 2
    assert [number for number, _ in give(schedule.begin())] == [0, 1, 2, 3], "another pass begins at the start"
    assert schedule.epoch == 1


def test_a_pass_that_was_left_gives_back_what_had_rolled_over() -> None:
    schedule = Schedule(10, batch_size=4, last_batch="rollover")
    give(schedule.begin())
    assert give(schedule.begin(), 1) == [(0, [8, 9, 0, 1])]
    assert len(schedule) == 3
    assert give(schedule.begin(), 1) == [(0, [8, 9, 0, 1])]
    schedule.set_epoch(4)
    assert give(schedule.begin(), 1) == [(0, [8, 9, 0, 1])]


def test_set_epoch_keeps_a_loaded_place_within_that_epoch_only() -> None:
    saved = Schedule(10, batch_size=3)
    give(saved.begin())
    give(saved.begin(), 2)
    state = saved.state_dict()
    for epoch, numbers in ((1, [2, 3]), (5, [0, 1, 2, 3])):
        schedule = Schedule(10, batch_size=3)
        schedule.load_state_dict(state)
        schedule.set_epoch(epoch)
        run = schedule.begin()
        assert run.epoch == epoch
        assert [number for number, _ in give(run)] == numbers


def test_the_length_after_a_resume_is_what_is_left() -> None:
    run = Schedule(100, batch_size=7).begin()
    give(run, 4)
    schedule = Schedule(100, batch_size=7)
    schedule.load_state_dict(run.state_dict())
    assert len(schedule) == 11
    assert len(give(schedule.begin())) == 11
    assert len(schedule) == 15


def test_passes_side_by_side_do_not_move_the_epoch_twice() -> None:
    schedule = Schedule(10, last_batch="rollover", batch_size=4, shuffle=True)
    first, second = schedule.begin(), schedule.begin()
    assert give(first) == give(second)
    assert schedule.epoch == 1
    assert len(schedule.state_dict()["rollover"]) == 2
    assert len(schedule) == 3


def test_a_late_pass_moves_nothing_back() -> None:
    schedule = Schedule(10)
    late = schedule.begin()
    schedule.set_epoch(7)
    give(late)
    assert schedule.epoch == 7


def test_a_batch_that_was_not_planned_cannot_be_given() -> None:
    run = Schedule(10).begin()
    next(run)
    for number in (1, -1):
        with pytest.raises(ValueError, match="was not planned"):
            run.given(number)


def test_a_state_can_be_asked_for_while_another_thread_is_given_batches() -> None:
    run = Schedule(20_000, shuffle=True).begin()
    wrong: list[dict[str, object]] = []
    done = threading.Event()

    def ask() -> None:
        before = 0
        while not done.is_set():
            state = run.state_dict()
            if not (before <= state["batches"] <= 20_000 and not state["later_batches"]):  # type: ignore[operator]
                wrong.append(state)
            before = state["batches"]  # type: ignore[assignment]

    asker = threading.Thread(target=ask)
    asker.start()
    give(run, 19_999)
    done.set()
    asker.join()
    assert not wrong
    assert run.state_dict()["batches"] == 19_999
