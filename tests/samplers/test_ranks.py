"""How an epoch is cut among ranks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncloader.samplers import Pass, Schedule

lengths = st.one_of(st.integers(0, 3), st.integers(0, 60))
batch_sizes = st.integers(1, 70)
world_sizes = st.integers(1, 9)
seeds = st.integers(0, (1 << 64) - 1)
short_ranks = st.sampled_from(["pad", "drop"])
last_batches = st.sampled_from(["keep", "discard", "rollover"])
orders = st.sampled_from(["sequential", "shuffle", "blocks", "list", "generator"])


class Unsized:
    """A sampler without a length."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Any:
        return iter(range(self.length))


def order_arguments(order: str, length: int) -> dict[str, Any]:
    return {
        "sequential": {},
        "shuffle": {"shuffle": True},
        "blocks": {"shuffle": "blocks", "block_size": 3, "buffer_size": 7},
        "list": {"sampler": list(range(length))},
        "generator": {"sampler": Unsized(length)},
    }[order]


def ranks(length: int, world_size: int, order: str = "shuffle", **arguments: Any) -> list[Schedule]:
    arguments = {**order_arguments(order, length), **arguments}
    return [Schedule(length, rank=rank, world_size=world_size, **arguments) for rank in range(world_size)]


def give_all(run: Pass) -> list[list[int]]:
    batches = []
    for batch in run:
        run.given(batch.number)
        batches.append([int(position) for position in batch.positions])
    run.finished()
    return batches


@given(lengths, batch_sizes, world_sizes, seeds, short_ranks, last_batches, orders)
def test_all_is_covered_without_overlap_in_as_many_batches_on_every_rank(
    length: int, batch_size: int, world_size: int, seed: int, short: str, last: str, order: str
) -> None:
    schedules = ranks(length, world_size, order, batch_size=batch_size, seed=seed, short_ranks=short, last_batch=last)
    left: list[int] = []
    for _ in range(3):
        runs = [schedule.begin() for schedule in schedules]
        given_by_rank = [give_all(run) for run in runs]
        assert len({tuple(map(len, batches)) for batches in given_by_rank}) == 1, "ranks differ in their batches' sizes"
        times = Counter(position for batches in given_by_rank for batch in batches for position in batch)
        padded, dropped = runs[0].padded, runs[0].dropped
        assert {(run.padded, run.dropped) for run in runs} == {(padded, dropped)}
        if last == "rollover":
            assert (padded, dropped) == (0, 0)
            available = Counter(left) + Counter(range(length))
            assert times <= available
            left = list((available - times).elements())
            assert sorted(schedules[0].state_dict()["rollover"]) == sorted(left)
            assert len(left) < batch_size * world_size
        else:
            assert sum(times.values()) == length + padded - dropped
            assert len(times) == length - dropped
            assert padded < world_size
            if short == "pad":
                assert max(times.values(), default=1) == 1 or padded
            if last == "keep":
                assert dropped < world_size if short == "drop" else not dropped


@given(lengths, batch_sizes, world_sizes, seeds, orders)
def test_after_k_steps_of_all_ranks_the_first_samples_of_the_one_order_were_given(
    length: int, batch_size: int, world_size: int, seed: int, order: str
) -> None:
    [alone] = ranks(length, 1, order, batch_size=1, seed=seed)
    whole = [batch[0] for batch in give_all(alone.begin())]
    by_rank = [give_all(rank.begin()) for rank in ranks(length, world_size, order, batch_size=batch_size, seed=seed)]
    steps = [[position for part in step for position in part] for step in zip(*by_rank, strict=True)]
    in_turn = [position for step in steps for position in step]
    assert in_turn[:length] == whole
    # Short ranks are filled up with the first samples of the order.
    assert in_turn[length:] == [whole[place % length] for place in range(len(in_turn) - length)]


@given(lengths, world_sizes, short_ranks)
def test_batches_of_a_batch_sampler_go_round_the_ranks(length: int, world_size: int, short: str) -> None:
    batches = [[number, number + 1] for number in range(length)]
    by_rank = [
        give_all(
            Schedule(length + 1, batch_sampler=batches, rank=rank, world_size=world_size, short_ranks=short).begin()
        )
        for rank in range(world_size)
    ]
    in_turn = [batch for step in zip(*by_rank, strict=True) for batch in step]
    if short == "drop":
        assert in_turn == batches[: length - length % world_size]
    else:
        assert in_turn[:length] == batches
        assert in_turn[length:] == [batches[place % length] for place in range(len(in_turn) - length)]


@given(lengths, batch_sizes, world_sizes, short_ranks, last_batches, st.sampled_from(["shuffle", "list"]))
def test_the_length_is_the_number_of_batches_of_the_next_pass(
    length: int, batch_size: int, world_size: int, short: str, last: str, order: str
) -> None:
    schedule = ranks(length, world_size, order, batch_size=batch_size, short_ranks=short, last_batch=last)[-1]
    for _ in range(4):
        expected = len(schedule)
        assert len(give_all(schedule.begin())) == expected


def test_a_rank_beyond_the_world_is_refused() -> None:
    with pytest.raises(ValueError, match="rank is 2; it is from 0 to 1"):
        Schedule(5, rank=2, world_size=2)


def test_a_batch_costs_no_memory_for_the_samples_of_other_batches() -> None:
    batch = next(Schedule(1 << 40, batch_size=8, shuffle=True, rank=3, world_size=1000).begin())
    assert isinstance(batch.positions, np.ndarray)
    assert batch.positions.base is None
    assert batch.positions.nbytes == 64
