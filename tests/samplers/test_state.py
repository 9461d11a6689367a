"""States that do not fit, or are no states at all."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asyncloader.errors import StateError
from asyncloader.samplers import Schedule

ARGUMENTS: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 3, "last_batch": "rollover", "world_size": 2}

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)
integers = st.integers(-2, 30) | st.sampled_from([-1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, 10**30])


def good_state() -> dict[str, Any]:
    schedule = Schedule(45, **ARGUMENTS)
    run = schedule.begin()
    for batch in run:
        run.given(batch.number)
    run.finished()
    run = schedule.begin()
    numbers = [batch.number for batch in run]
    for number in (*numbers[:2], numbers[4]):
        run.given(number)
    return schedule.state_dict()


def test_a_state_is_a_small_plain_dict_that_a_person_can_read() -> None:
    state = good_state()
    rollover = state.pop("rollover")
    assert state == {
        "version": 1,
        "epoch": 1,
        "length": 45,
        "batch_size": 4,
        "seed": 3,
        "shuffle": True,
        "sampler": None,
        "last_batch": "rollover",
        "world_size": 2,
        "batches": 2,
        "later_batches": [[4, 5]],
        "earlier_samples": [],
    }
    assert len(rollover) == 45 % 8
    assert all(type(position) is int for position in rollover)


@pytest.mark.parametrize(
    ("name", "other", "shown"),
    [
        ("length", 46, "46"),
        ("batch_size", 5, "5"),
        ("seed", 4, "4"),
        ("shuffle", False, "False"),
        ("shuffle", "blocks", "'blocks'"),
        ("last_batch", "keep", "'keep'"),
        ("sampler", "RandomSampler", "'RandomSampler'"),
        ("version", 2, "2"),
        ("seed", 3.0, "3.0"),
        ("shuffle", 1, "1"),
    ],
)
def test_a_state_of_another_setting_is_refused_by_its_name_and_both_values(
    name: str, other: object, shown: str
) -> None:
    state = good_state()
    ours = state[name]
    state[name] = other
    with pytest.raises(StateError) as caught:
        Schedule(45, **ARGUMENTS).load_state_dict(state)
    message = str(caught.value)
    assert f"its {name} is {shown}" in message
    assert repr(ours) in message


def test_a_state_of_other_blocks_is_refused() -> None:
    state = Schedule(45, shuffle="blocks", block_size=4).state_dict()
    with pytest.raises(StateError, match="its block_size is 4, the loader's is 8"):
        Schedule(45, shuffle="blocks", block_size=8).load_state_dict(state)


@pytest.mark.parametrize("name", sorted(good_state()))
def test_a_missing_field_is_named(name: str) -> None:
    state = good_state()
    del state[name]
    with pytest.raises(StateError, match=f"no '{name}'"):
        Schedule(45, **ARGUMENTS).load_state_dict(state)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batches", -1),
        ("batches", True),
        ("batches", 10**400),
        ("later_batches", [[3, 4], [3, 4]]),
        ("later_batches", [[2, 3]]),  # would belong to "batches"
        ("later_batches", [[4, 99]]),
        ("later_batches", [[4, 4]]),
        ("later_batches", [4, 5]),
        ("earlier_samples", [[0, 2**62]]),
        ("earlier_samples", {"0": 1}),
        ("rollover", [45]),
        ("rollover", [True]),
        ("rollover", "12"),
        ("epoch", -1),
        ("epoch", "1"),
        ("world_size", 0),
        ("world_size", 10**30),
    ],
)
def test_a_wrong_field_is_named_and_leaves_the_schedule_as_it_was(name: str, value: object) -> None:
    state = good_state()
    state[name] = value
    schedule = Schedule(45, **ARGUMENTS)
    before = schedule.state_dict()
    with pytest.raises(StateError, match=f"'{name}'"):
        schedule.load_state_dict(state)
    assert schedule.state_dict() == before


def test_more_batches_than_the_epoch_has_are_refused() -> None:
    state = Schedule(45, batch_size=4).state_dict()
    schedule = Schedule(45, batch_size=4)
    schedule.load_state_dict({**state, "batches": 12})
    with pytest.raises(StateError, match="go to 13, but epoch 0 has only 12 batches"):
        schedule.load_state_dict({**state, "batches": 13})


@pytest.mark.parametrize("state", [None, [], "state", 3, b"{}"])
def test_what_is_no_dict_is_refused(state: Any) -> None:
    with pytest.raises(StateError, match="a state is a dict"):
        Schedule(45).load_state_dict(state)


def load(schedule: Schedule, state: Any) -> None:
    """Load a state that may be bad; if it is taken, it must be usable and whole."""
    try:
        schedule.load_state_dict(state)
    except StateError:
        return
    again = schedule.state_dict()
    schedule.load_state_dict(json.loads(json.dumps(again)))
    assert schedule.state_dict() == again
    left = len(schedule)
    run = schedule.begin()
    try:
        assert left == sum(1 for _ in run)
    except StateError:
        # Only an iterated sampler shows no sooner than at its end that the state is from further on.
        assert again["sampler"] is not None


@given(st.dictionaries(st.sampled_from(sorted(good_state())), anything), st.booleans())
@settings(max_examples=300)
def test_fuzzed_fields_give_state_errors_only(changes: dict[str, object], iterated: bool) -> None:
    schedule = Schedule(45, **ARGUMENTS)
    state = good_state()
    if iterated:
        schedule = Schedule(45, sampler=list(range(45)))
        state = schedule.state_dict()
    load(schedule, {**state, **changes})


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "epoch": integers,
            "world_size": integers,
            "batches": integers,
            "later_batches": st.lists(st.tuples(integers, integers).map(list), max_size=3),
            "earlier_samples": st.lists(st.tuples(integers, integers).map(list), max_size=3),
            "rollover": st.lists(integers, max_size=9),
        },
    ),
    st.booleans(),
)
@example({"earlier_samples": [[1, 2**31]]}, True)  # beyond the end of the sampler
@settings(max_examples=500)
def test_fuzzed_numbers_give_state_errors_only(changes: dict[str, object], iterated: bool) -> None:
    schedule = Schedule(45, **ARGUMENTS)
    state = good_state()
    if iterated:
        schedule = Schedule(45, sampler=list(range(45)))
        state = schedule.state_dict()
    load(schedule, {**state, **changes})


@given(anything)
def test_fuzzed_states_give_state_errors_only(state: object) -> None:
    load(Schedule(45), state)


def test_nothing_is_allocated_for_what_a_state_claims() -> None:
    states = [
        {**good_state(), "batches": 2**63 - 1},
        {**good_state(), "later_batches": [[5, 2**63 - 1]]},
        {**good_state(), "earlier_samples": [[0, 2**63 - 1]]},
        {**good_state(), "world_size": 2**63 - 1},
        {**good_state(), "epoch": 2**63 - 1},
    ]
    tracemalloc.start()
    try:
        for state in states:
            load(Schedule(45, **ARGUMENTS), state)
            load(Schedule(45, sampler=range(45)), {**Schedule(45, sampler=range(45)).state_dict(), **state})
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_sampler_that_ended_before_the_state_says_is_an_error_not_an_empty_epoch() -> None:
    run = Schedule(20, sampler=list(range(20))).begin()
    for _ in range(9):
        run.given(next(run).number)
    for world_size in (1, 3):
        shorter = Schedule(20, sampler=list(range(5)), world_size=world_size)
        shorter.load_state_dict(run.state_dict())
        with pytest.raises(StateError, match="further on in epoch 0"):
            next(shorter.begin())
