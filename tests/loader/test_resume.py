"""Going on where a consumer was, with any workers, after any end."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncloader as al
from asyncloader.errors import StateError
from tests.loader.conftest import KINDS, FailingAt, Squares


def stop_and_state(loader: al.DataLoader, batches: int) -> tuple[list[list[int]], dict[str, Any]]:
    """Take some batches, ask for the state while more are under way, and go away."""
    got = []
    for _, numbers in loader:
        got.append(numbers.tolist())
        if len(got) == batches:
            break
    return got, json.loads(json.dumps(loader.state_dict()))


def rest(loader: al.DataLoader) -> list[list[int]]:
    return [numbers.tolist() for _, numbers in loader]


def test_the_next_batch_is_the_one_that_would_have_come_with_any_workers() -> None:
    with al.DataLoader(Squares(97, (4,)), 6, shuffle=True, seed=5, num_workers=2) as loader:
        expected = [rest(loader) for _ in range(3)]
    for before in KINDS.values():
        with al.DataLoader(Squares(97, (4,)), 6, shuffle=True, seed=5, prefetch=5, **before) as loader:
            loader.set_epoch(1)
            got, state = stop_and_state(loader, 7)
        assert got == expected[1][:7]
        with al.DataLoader(Squares(97, (4,)), 6, shuffle=True, seed=5, num_workers=3) as loader:
            loader.load_state_dict(state)
            assert loader.state_dict() == state
            assert rest(loader) == expected[1][7:]
            assert rest(loader) == expected[2]


@settings(max_examples=60)
@given(
    length=st.integers(0, 40),
    batch_size=st.integers(1, 12),
    last_batch=st.sampled_from(["keep", "discard", "rollover"]),
    shuffle=st.sampled_from([False, True, "blocks"]),
    stops=st.lists(st.integers(1, 8), max_size=4),
    bad=st.sets(st.integers(0, 39), max_size=4),
)
@pytest.mark.filterwarnings("ignore::asyncloader.errors.LoaderWarning")
def test_any_number_of_resumes_gives_what_no_resume_gives(
    length: int, batch_size: int, last_batch: Any, shuffle: Any, stops: list[int], bad: set[int]
) -> None:
    def fresh() -> al.DataLoader:
        return al.DataLoader(
            FailingAt(length, bad),
            batch_size,
            shuffle=shuffle,
            seed=11,
            last_batch=last_batch,
            on_error="skip",
            num_workers=0,
        )

    def passes(loader: al.DataLoader, upto: int) -> list[tuple[int, list[int]]]:
        """The batches of the passes before epoch ``upto``, each with its epoch."""
        got = []
        while (epoch := loader.state_dict()["epoch"]) < upto:
            got += [(epoch, numbers.tolist()) for _, numbers in loader]
        return got

    expected = passes(fresh(), 3)
    loader, got = fresh(), []
    for stop in stops:
        for _, numbers in loader:
            got.append(numbers.tolist())
            stop -= 1
            if stop == 0:
                break
        state = json.loads(json.dumps(loader.state_dict()))
        loader = fresh()
        loader.load_state_dict(state)
        assert loader.state_dict() == state
    got += [numbers for _, numbers in passes(loader, 3)]
    assert got[: len(expected)] == [numbers for _, numbers in expected]


def test_out_of_order_batches_are_neither_repeated_nor_lost() -> None:
    import threading

    gate = threading.Event()

    class Slow(Squares):
        def __getitem__(self, position: int) -> Any:
            if position == 0:
                assert gate.wait(20)
            return super().__getitem__(position)

    with al.DataLoader(Slow(24), 2, num_workers=2, in_order=False, prefetch=3) as loader:
        got, state = stop_and_state(loader, 5)
        gate.set()
    assert [0, 1] not in got
    with al.DataLoader(Squares(24), 2, num_workers=2, in_order=False) as loader:
        loader.load_state_dict(state)
        after = rest(loader)
    assert Counter(n for numbers in got + after for n in numbers) == Counter(i * i for i in range(24))


@pytest.mark.parametrize("worlds", [(4, 2), (4, 6), (2, 3), (1, 4), (3, 1)])
def test_another_world_size_gives_each_remaining_sample_once(worlds: tuple[int, int]) -> None:
    before, after = worlds
    length, batch_size = 240, 5

    def loaders(world_size: int) -> list[al.DataLoader]:
        return [
            al.DataLoader(
                Squares(length, (1,)), batch_size, shuffle=True, rank=rank, world_size=world_size, num_workers=0
            )
            for rank in range(world_size)
        ]

    seen: Counter[int] = Counter()
    states = []
    for loader in loaders(before):
        got, state = stop_and_state(loader, 3)
        seen.update(n for numbers in got for n in numbers)
        states.append(state)
    assert all(state == states[0] for state in states)
    for loader in loaders(after):
        loader.load_state_dict(states[0])
        seen.update(n for numbers in rest(loader) for n in numbers)
    assert set(seen) == {i * i for i in range(length)}
    padding = sum(count - 1 for count in seen.values())
    assert padding == -(length - before * batch_size * 3) % after


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"length": 98}, "length"),
        ({"batch_size": 7}, "batch_size"),
        ({"seed": 6}, "seed"),
        ({"shuffle": False}, "shuffle"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_names_the_field(change: dict[str, Any], field: str) -> None:
    arguments: dict[str, Any] = {"length": 97, "batch_size": 6, "seed": 5, "shuffle": True}

    def make(length: int, **rest: Any) -> al.DataLoader:
        return al.DataLoader(Squares(length), num_workers=0, **rest)

    _, state = stop_and_state(make(**arguments), 3)
    with pytest.raises(StateError, match=field):
        make(**{**arguments, **change}).load_state_dict(state)


@pytest.mark.posix
def test_training_that_is_killed_again_and_again_sees_each_sample_once_an_epoch(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent("""
import asyncio, json, os, sys
import asyncloader as al

class Data:
    def __len__(self): return 211
    def __getitem__(self, position): return position

async def main(state_file, log, workers, count):
    loader = al.AsyncDataLoader(Data(), 8, shuffle=True, seed=9, workers=workers, num_workers=count)
    if os.path.exists(state_file):
        with open(state_file) as file:
            saved = json.load(file)
        loader.load_state_dict(saved["loader"])
        os.truncate(log, saved["bytes"])  # a line whose state was not saved is of a step that did not happen
    elif os.path.exists(log):
        os.truncate(log, 0)
    async with loader:
        while (epoch := loader.state_dict()["epoch"]) < 3:
            async for batch in loader:
                with open(log, "a") as file:
                    file.write(json.dumps([epoch, batch.tolist()]) + chr(10))
                # The replacing is what makes the step happen, with the log up to here.
                with open(state_file + ".new", "w") as file:
                    json.dump({"loader": loader.state_dict(), "bytes": os.path.getsize(log)}, file)
                os.replace(state_file + ".new", state_file)
                print("step", flush=True)

asyncio.run(main(*sys.argv[1:4], int(sys.argv[4])))
""")
    )
    state, log = tmp_path / "state.json", tmp_path / "log"
    chance = random.Random(4)
    kinds = [("threads", 2), ("threads", 0), ("processes", 2), ("threads", 3)]
    for kills in range(4):
        workers, count = kinds[kills]
        process = subprocess.Popen(
            [sys.executable, str(script), str(state), str(log), workers, str(count)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(chance.randint(1, 25)):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
    subprocess.run(
        [sys.executable, str(script), str(state), str(log), "threads", "2"], check=True, stdout=subprocess.DEVNULL
    )
    seen: dict[int, Counter[int]] = {}
    for line in log.read_text().splitlines():
        epoch, positions = json.loads(line)
        seen.setdefault(epoch, Counter()).update(positions)
    assert set(seen) == {0, 1, 2}
    for counts in seen.values():
        assert counts == Counter(range(211))


def test_shard_auto_takes_the_rank_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    auto = al.DataLoader(Squares(30), 2, shard="auto", num_workers=0)
    plain = al.DataLoader(Squares(30), 2, rank=1, world_size=3, num_workers=0)
    assert rest(auto) == rest(plain)


def test_short_ranks_are_counted() -> None:
    async def main(rank: int, short: Any) -> tuple[int, Any]:
        async with al.AsyncDataLoader(
            Squares(10), 2, rank=rank, world_size=4, short_ranks=short, num_workers=1
        ) as loader:
            return len([batch async for batch in loader]), loader.stats()

    for short, key in (("pad", "padded"), ("drop", "dropped")):
        results = [asyncio.run(main(rank, short)) for rank in range(4)]
        assert len({count for count, _ in results}) == 1
        assert all(stats[key] == 2 for _, stats in results)  # type: ignore[literal-required]
