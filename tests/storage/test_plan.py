"""Planning reads: what the ranges must hold, for any requests."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asyncloader.storage import plan_reads

requests = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 100)), max_size=60)
gaps = st.integers(0, 300)
bounds = st.integers(1, 1500)


def _arrays(wanted: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(wanted, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


@given(requests, gaps, bounds)
def test_every_request_is_found_where_the_plan_says(wanted, max_gap, max_read):
    file = np.random.default_rng(0).bytes(2100)
    offsets, sizes = _arrays(wanted)
    plan = plan_reads(offsets, sizes, max_gap, max_read)
    pieces = [file[o : o + s] for o, s in zip(plan.offsets.tolist(), plan.sizes.tolist(), strict=True)]
    for (offset, size), piece, start in zip(wanted, plan.ranges.tolist(), plan.starts.tolist(), strict=True):
        assert pieces[piece][start : start + size] == file[offset : offset + size]
        assert start + size <= len(pieces[piece])


@given(requests, gaps, bounds)
def test_ranges_ascend_and_bound_gap_and_size(wanted, max_gap, max_read):
    offsets, sizes = _arrays(wanted)
    plan = plan_reads(offsets, sizes, max_gap, max_read)
    assert (np.diff(plan.offsets) >= 0).all()
    longest = max((size for _, size in wanted), default=0)
    assert (plan.sizes < max_read + longest + 1).all()
    for number, (offset, size) in enumerate(zip(plan.offsets.tolist(), plan.sizes.tolist(), strict=True)):
        reach = offset
        for begin, length in sorted(wanted[i] for i in np.flatnonzero(plan.ranges == number)):
            assert begin <= reach + max_gap
            reach = max(reach, begin + length)
        assert reach == offset + size


@given(requests, gaps)
def test_without_a_bound_on_size_neighbours_within_the_gap_share_a_range(wanted, max_gap):
    offsets, sizes = _arrays(wanted)
    plan = plan_reads(offsets, sizes, max_gap, 1 << 40)
    ends = plan.offsets + plan.sizes
    assert (plan.offsets[1:] > ends[:-1] + max_gap).all()


def test_repeated_requests_are_read_once():
    plan = plan_reads(np.array([40, 8, 40, 8]), np.array([8, 8, 8, 8]), 0)
    assert plan.offsets.tolist() == [8, 40]
    assert plan.sizes.tolist() == [8, 8]
    assert plan.ranges.tolist() == [1, 0, 1, 0]


def test_records_in_file_order_are_one_read():
    sizes = np.random.default_rng(0).integers(64, 512, 1024) & ~3
    plan = plan_reads(np.cumsum(sizes) - sizes, sizes)
    assert plan.sizes.tolist() == [sizes.sum()]
