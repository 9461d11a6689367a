from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from asyncloader.samplers.ranges import RangeSet

pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)))


def members(ranges: list[tuple[int, int]]) -> set[int]:
    return {value for start, stop in ranges for value in range(start, stop)}


@given(pairs)
def test_a_range_set_holds_what_a_set_would(ranges: list[tuple[int, int]]) -> None:
    made, expected = RangeSet(ranges), members(ranges)
    assert {value for value in range(40) if value in made} == expected
    assert made.size == len(expected)
    assert made.stop == max(expected, default=-1) + 1
    assert members(list(made)) == expected


@given(pairs)
def test_ranges_are_kept_sorted_and_apart(ranges: list[tuple[int, int]]) -> None:
    kept = list(RangeSet(ranges))
    assert all(start < stop for start, stop in kept)
    assert all(before[1] < after[0] for before, after in pairwise(kept))


@given(pairs, st.integers(0, 40))
def test_what_is_missing_is_found(ranges: list[tuple[int, int]], stop: int) -> None:
    made, expected = RangeSet(ranges), members(ranges)
    assert members(list(made.missing(stop))) == set(range(stop)) - expected
    assert made.first_missing(stop) == next(value for value in range(stop, 99) if value not in expected)


@given(pairs, st.integers(0, 40), st.integers(0, 40))
def test_members_are_selected_by_their_rank(ranges: list[tuple[int, int]], start: int, stop: int) -> None:
    assert members(list(RangeSet(ranges).select(start, stop))) == set(sorted(members(ranges))[start:stop])


@given(pairs, pairs)
def test_a_copy_goes_its_own_way(ranges: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    made = RangeSet(ranges)
    copy = made.copy()
    assert copy == made
    for start, stop in more:
        copy.add(start, stop)
    assert made == RangeSet(ranges)
    assert copy == RangeSet([*ranges, *more])
