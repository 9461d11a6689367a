from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asyncloader.samplers import Schedule
from asyncloader.samplers.blocks import BlockOrder

lengths = st.integers(0, 200)
sizes = st.integers(1, 50)
keys = st.integers(0, (1 << 64) - 1)


def order(length: int, key: int, block_size: int, buffer_size: int) -> list[int]:
    result: list[int] = BlockOrder(length, key, block_size=block_size, buffer_size=buffer_size).read(0, length).tolist()
    return result


@given(lengths, keys, sizes, sizes)
def test_each_position_comes_exactly_once(length: int, key: int, block_size: int, buffer_size: int) -> None:
    assert sorted(order(length, key, block_size, buffer_size)) == list(range(length))


@given(lengths, keys, sizes, sizes, st.integers(0, 200), st.integers(0, 200))
def test_any_part_can_be_computed_by_itself(
    length: int, key: int, block_size: int, buffer_size: int, start: int, stop: int
) -> None:
    start, stop = sorted((min(start, length), min(stop, length)))
    part = BlockOrder(length, key, block_size=block_size, buffer_size=buffer_size).read(start, stop)
    assert part.dtype == np.int64
    assert part.tolist() == order(length, key, block_size, buffer_size)[start:stop]


@given(lengths, keys, sizes, sizes)
def test_a_buffer_holds_whole_blocks_and_no_more_than_fit(
    length: int, key: int, block_size: int, buffer_size: int
) -> None:
    whole = order(length, key, block_size, buffer_size)
    at_once = max(1, buffer_size // block_size)
    seen: set[int] = set()
    while whole:
        blocks: set[int] = set()
        left: set[int] = set()
        count = 0
        for position in whole:  # up to where all blocks begun are used up
            if position // block_size not in blocks:
                first = position // block_size * block_size
                blocks.add(position // block_size)
                left |= set(range(first, min(first + block_size, length)))
            left.remove(position)
            count += 1
            if not left:
                break
        assert len(blocks) <= at_once
        assert not blocks & seen
        seen |= blocks
        whole = whole[count:]


def test_blocks_and_what_is_in_them_are_mixed() -> None:
    whole = np.array(order(100_000, 5, 100, 2000))
    # Within the first buffer: positions of all of its 20 blocks come among its first hundred.
    assert len(set((whole[:100] // 100).tolist())) > 15
    # Over buffers: the blocks of a buffer are from all over the file.
    assert np.ptp(whole[:2000]) > 80_000
    assert order(100_000, 5, 100, 2000) != order(100_000, 6, 100, 2000)


def test_the_incomplete_block_has_no_place_of_its_own() -> None:
    places = [order(10, key, 4, 4).index(8) // 4 for key in range(600)]
    counts = np.bincount(places, minlength=3)
    assert np.all(np.abs(counts - 200) < 5 * np.sqrt(600 * 2 / 9))


def test_a_place_far_into_a_large_set_is_computed_at_once() -> None:
    schedule = Schedule(10**12, batch_size=5, shuffle="blocks")
    state = schedule.state_dict()
    schedule.load_state_dict({**state, "batches": 10**11})
    batch = next(schedule.begin())
    assert batch.number == 10**11
    assert len(set(batch.positions.tolist())) == 5  # type: ignore[union-attr]
