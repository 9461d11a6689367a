"""Batches are cut as MXNet Gluon's own samplers cut them."""

from __future__ import annotations

import pytest

mx_data = pytest.importorskip("mxnet.gluon.data")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from asyncloader.samplers import Schedule  # noqa: E402

pytestmark = pytest.mark.mxnet


def give(schedule: Schedule) -> list[list[int]]:
    run = schedule.begin()
    batches = [[int(position) for position in batch.positions] for batch in run]
    run.finished()
    return batches


@given(
    st.integers(0, 60), st.integers(1, 70), st.sampled_from(["keep", "discard", "rollover"]), st.sampled_from([0, 1, 2])
)
@settings(deadline=None)
def test_batches_and_their_number_are_gluons_over_several_epochs(length: int, size: int, last: str, kind: int) -> None:
    theirs = mx_data.BatchSampler(mx_data.SequentialSampler(length), size, last)
    arguments = [
        {"batch_size": size, "last_batch": last},
        {"sampler": mx_data.SequentialSampler(length), "batch_size": size, "last_batch": last},
        {"batch_sampler": mx_data.BatchSampler(mx_data.SequentialSampler(length), size, last)},
    ][kind]
    ours = Schedule(length, **arguments)  # type: ignore[arg-type]
    for _ in range(4):
        assert len(ours) == len(theirs)
        assert give(ours) == list(theirs)


@given(st.integers(1, 60), st.integers(1, 70))
@settings(deadline=None)
def test_gluons_random_sampler_is_taken_as_it_is(length: int, size: int) -> None:
    batches = give(Schedule(length, sampler=mx_data.RandomSampler(length), batch_size=size))
    assert sorted(position for batch in batches for position in batch) == list(range(length))
    assert [len(batch) for batch in batches] == [
        len(batch) for batch in mx_data.BatchSampler(mx_data.SequentialSampler(length), size, "keep")
    ]


@given(st.integers(1, 60), st.integers(1, 9), st.sampled_from(["keep", "discard", "rollover"]), st.data())
@settings(deadline=None)
def test_a_gluon_loop_is_resumed_where_it_was_stopped(length: int, size: int, last: str, data: st.DataObject) -> None:
    theirs = mx_data.BatchSampler(mx_data.SequentialSampler(length), size, last)
    expected = [list(theirs) for _ in range(3)]
    stopped_in = data.draw(st.integers(0, 2))
    stopped_at = data.draw(st.integers(0, len(expected[stopped_in])))
    schedule = Schedule(length, batch_size=size, last_batch=last)  # type: ignore[arg-type]
    got = [give(schedule) for _ in range(stopped_in)]
    run = schedule.begin()
    begun = []
    for _ in range(stopped_at):
        batch = next(run)
        run.given(batch.number)
        begun.append(batch.positions.tolist())
    resumed = Schedule(length, batch_size=size, last_batch=last)  # type: ignore[arg-type]
    resumed.load_state_dict(run.state_dict())
    if resumed.epoch == stopped_in:
        begun += give(resumed)
    got.append(begun)
    got += [give(resumed) for _ in range(2 - stopped_in)]
    assert got == expected
