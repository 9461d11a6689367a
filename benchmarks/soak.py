"""Loaders under random breaks, kills and epochs for minutes or hours: whether batches stay right and nothing grows.

    python benchmarks/soak.py                  # four minutes, half of them with threads and half with processes
    python benchmarks/soak.py --minutes 600

Ends with a table, and with exit status 1 if a batch was wrong or something grew. Needs psutil beside the package.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import math
import os
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import simplejpeg
from numpy.typing import NDArray

import asyncloader as al
from asyncloader import recordio
from asyncloader.errors import LoaderWarning

SHAPE = (48, 64, 3)
#: What growth over the whole run is no leak: memory in allocators' hands; for counts, less than one thing in all.
FLAT = {"memory": 16.0, "workers' memory": 16.0, "descriptors": 1.0, "threads": 1.0, "segments": 1.0, "processes": 1.0}


class Broken(Exception):
    """What a consumer raises in the body of its loop."""


@dataclass
class Pictures:
    """A record set whose labels tell which picture must come with them."""

    dataset: al.ImageRecordDataset
    pixels: NDArray[np.uint8]

    @classmethod
    def make(cls, folder: Path, count: int) -> Pictures:
        rng = np.random.default_rng(0)
        shades = rng.integers(0, 256, (count, 6, 8, 3), np.uint8)
        path = folder / "soak.rec"
        pixels = np.empty((count, *SHAPE), np.uint8)
        with recordio.RecordWriter(path, path.with_suffix(".idx")) as writer:
            for number, shade in enumerate(shades):
                jpeg = simplejpeg.encode_jpeg(np.ascontiguousarray(shade.repeat(8, 0).repeat(8, 1)), 90)
                pixels[number] = simplejpeg.decode_jpeg(jpeg, "RGB")
                writer.write(recordio.pack(recordio.IRHeader(0, float(number), number, 0), jpeg))
        return cls(al.ImageRecordDataset(path), pixels)


class Usage(NamedTuple):
    """What is held at a moment: megabytes, and numbers of things."""

    seconds: float
    memory: float
    workers_memory: float
    descriptors: int
    threads: int
    segments: int
    processes: int

    @classmethod
    def now(cls, start: float) -> Usage:
        gc.collect()
        this = psutil.Process()
        children = workers()
        return cls(
            time.monotonic() - start,
            resident(this),
            sum(map(resident, children)),
            this.num_fds() if os.name == "posix" else this.num_handles(),
            threading.active_count(),
            segments(),
            len(children),
        )


def resident(process: psutil.Process) -> float:
    """Megabytes that a process has in memory."""
    try:
        return process.memory_info().rss / 1e6  # type: ignore[no-any-return]
    except psutil.Error:  # it ended at this moment
        return 0.0


def workers() -> list[psutil.Process]:
    """The worker processes that live."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if child.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def segments() -> int:
    """Blocks of shared memory that are mapped, and names that are left in the system."""
    if not sys.platform.startswith("linux"):
        return 0
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8").count("memfd:asyncloader")
    return mapped + len(os.listdir("/dev/shm"))


@dataclass
class Soak:
    """One kind of workers under load: an open loader that stays, and others that come and go."""

    pictures: Pictures
    kind: Any
    rng: np.random.Generator
    counts: Counter[str] = field(default_factory=Counter)
    usage: list[Usage] = field(default_factory=list)
    kept: list[tuple[Any, Any]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.pictures.pixels)

    def arguments(self) -> dict[str, Any]:
        """What loaders may be asked for, at random."""
        return {
            "batch_size": int(self.rng.integers(1, 65)),
            "shuffle": [False, True, "blocks"][int(self.rng.integers(3))],
            "prefetch": int(self.rng.integers(1, 9)),
            "seed": int(self.rng.integers(1000)),
            "workers": self.kind,
            "num_workers": int(self.rng.integers(1, 4)),
            "threads_per_worker": int(self.rng.integers(1, 3)) if self.kind == "processes" else 1,
        }

    def check(self, batch: Any) -> list[int]:
        """Compare a batch with what was written; the numbers of its samples."""
        images, labels = batch
        numbers = labels.astype(np.int64)
        if not np.array_equal(images, self.pictures.pixels[numbers]):
            raise AssertionError(f"a batch of {self.kind} is wrong: records {numbers.tolist()}")
        self.counts["batches"] += 1
        self.counts["samples checked"] += len(numbers)
        if self.rng.random() < 0.02:  # what is kept for long must stay as it was
            self.kept.append((batch, numbers))
        if len(self.kept) > 8:
            (images, labels), before = self.kept.pop(0)
            if not (np.array_equal(images, self.pictures.pixels[before]) and np.array_equal(labels, before)):
                raise AssertionError(f"a batch of {self.kind} changed while it was kept")
        return numbers.tolist()

    def check_epoch(self, numbers: list[int]) -> None:
        if sorted(numbers) != list(range(self.count)):
            raise AssertionError(
                f"an epoch of {self.kind} had {len(numbers)} samples, {len(set(numbers))} of them once"
            )
        self.counts["epochs"] += 1

    # What happens, at random, each with a loader that is open.

    async def whole(self, loader: al.AsyncDataLoader) -> None:
        self.check_epoch([number async for batch in loader for number in self.check(batch)])

    async def break_off(self, loader: al.AsyncDataLoader) -> None:
        left = int(self.rng.integers(1, 8))
        async for batch in loader:
            self.check(batch)
            left -= 1
            if not left:
                break
        self.counts["passes broken off"] += 1

    async def raise_in_the_body(self, loader: al.AsyncDataLoader) -> None:
        with contextlib.suppress(Broken):
            async for batch in loader:
                self.check(batch)
                raise Broken
        self.counts["passes broken off"] += 1

    async def cancel(self, loader: al.AsyncDataLoader) -> None:
        task = asyncio.create_task(self.whole(loader))
        await asyncio.sleep(float(self.rng.uniform(0, 0.1)))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self.counts["passes broken off"] += 1

    async def two_at_once(self, loader: al.AsyncDataLoader) -> None:
        await asyncio.gather(self.whole(loader), self.whole(loader))

    async def resume(self, _: al.AsyncDataLoader) -> None:
        arguments = self.arguments()
        left = int(self.rng.integers(1, 8))
        numbers: list[int] = []
        async with al.AsyncDataLoader(self.pictures.dataset, **arguments) as first:
            async for batch in first:
                numbers += self.check(batch)
                left -= 1
                if not left:
                    break
            state = first.state_dict()
        async with al.AsyncDataLoader(self.pictures.dataset, **arguments | {"num_workers": 2}) as second:
            second.load_state_dict(state)
            if len(numbers) < self.count:
                numbers += [number async for batch in second for number in self.check(batch)]
        self.check_epoch(numbers)
        self.counts["resumed"] += 1

    async def another_loader(self, _: al.AsyncDataLoader) -> None:
        async with al.AsyncDataLoader(self.pictures.dataset, **self.arguments()) as loader:
            await self.whole(loader)
        self.counts["loaders opened"] += 1

    async def a_plain_loop(self, _: al.AsyncDataLoader) -> None:
        def loop() -> None:
            with al.DataLoader(self.pictures.dataset, **arguments) as loader:
                self.check_epoch([number for batch in loader for number in self.check(batch)])

        arguments = self.arguments()
        await asyncio.to_thread(loop)
        self.counts["loaders opened"] += 1

    async def dropped(self, _: al.AsyncDataLoader) -> None:
        async for batch in al.AsyncDataLoader(self.pictures.dataset, **self.arguments()):
            self.check(batch)
            break
        self.counts["loaders opened"] += 1
        self.counts["passes broken off"] += 1

    async def kill(self) -> None:
        """Kill workers, one now and then, and once in a while all of them."""
        while True:
            await asyncio.sleep(float(self.rng.uniform(0.2, 1.5)))
            living = workers()
            if living:
                victims = living if self.rng.random() < 0.1 else [living[int(self.rng.integers(len(living)))]]
                for victim in victims:
                    with contextlib.suppress(psutil.Error):
                        victim.kill()
                        self.counts["kills survived"] += 1

    @contextlib.asynccontextmanager
    async def killing(self) -> AsyncIterator[None]:
        killer = asyncio.create_task(self.kill()) if self.kind == "processes" else None
        try:
            yield
        finally:
            if killer is not None:
                killer.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await killer

    async def run(self, seconds: float) -> None:
        """Go on for some time, and look at what is held whenever all is quiet."""
        acts: list[Callable[[al.AsyncDataLoader], Awaitable[None]]] = [
            self.whole,
            self.break_off,
            self.raise_in_the_body,
            self.cancel,
            self.two_at_once,
            self.resume,
            self.another_loader,
            self.a_plain_loop,
            self.dropped,
        ]
        start = time.monotonic()
        arguments = self.arguments() | {"batch_size": 32, "num_workers": 2, "threads_per_worker": 1, "prefetch": 4}
        async with al.AsyncDataLoader(self.pictures.dataset, **arguments) as loader:
            await self.two_at_once(loader)  # which takes as many blocks of shared memory as it will ever need
            while time.monotonic() < start + seconds:
                async with self.killing():
                    for _ in range(len(acts) // 2):
                        await acts[int(self.rng.integers(len(acts)))](loader)
                await self.whole(loader)  # after it, all workers of the open loader are there again
                self.kept.clear()
                self.usage.append(await self.quiet(start))
            self.counts["workers replaced"] = loader.stats()["workers_restarted"]
        self.counts["seconds"] = round(time.monotonic() - start)

    async def quiet(self, start: float) -> Usage:
        """What is held once what was dropped or broken off has ended, as it does in the background."""
        expected = 2 if self.kind == "processes" else 0
        for _ in range(200):
            await asyncio.sleep(0.01)
            if len(workers()) == expected and (not self.usage or threading.active_count() == self.usage[0].threads):
                break
        return Usage.now(start)

    def slopes(self) -> dict[str, Slope]:
        """How each thing held changed after the start-up."""
        looks = np.array(self.usage[len(self.usage) // 5 :], float)
        length = max(looks[-1, 0] - looks[0, 0], 1.0)
        return {
            name: Slope.of(looks[:, 0], looks[:, column], FLAT[name] / length) for column, name in enumerate(FLAT, 1)
        }


class Slope(NamedTuple):
    """How something changes: its median, what it gains in an hour, and whether that is a leak."""

    middle: float
    hourly: float
    verdict: str

    @classmethod
    def of(cls, seconds: NDArray[np.float64], values: NDArray[np.float64], most: float) -> Slope:
        """Theil and Sen's slope, the median over all pairs of looks, which single peaks do not move.

        It is a leak if it is more than `most` in a second, and chance alone, by Kendall's test, would make so few of
        the pairs fall in one of a thousand runs at most. Of fewer than seven looks chance makes anything.
        """
        count = len(values)
        earlier, later = np.triu_indices(count, 1)
        slopes = np.sort((values[later] - values[earlier]) / (seconds[later] - seconds[earlier]))
        chance = 3.1 * (count * (count - 1) * (2 * count + 5) / 18) ** 0.5
        lowest = math.floor((len(slopes) - chance) / 2)
        slope = float(np.median(slopes)) if len(slopes) else 0.0
        if slope <= most:
            verdict = "flat"
        elif lowest < 0:
            verdict = "too short a run to tell"
        else:
            verdict = "GROWS" if slopes[lowest] > 0 else "flat"
        return cls(float(np.median(values)), slope * 3600, verdict)


def table(soaks: list[Soak]) -> tuple[list[str], bool]:
    """Give the lines of the table, and whether all is flat."""
    lines = [f"| | {' | '.join(soak.kind for soak in soaks)} |", "| --- |" + " --- |" * len(soaks)]
    names = ["seconds", "epochs", "passes broken off", "resumed", "loaders opened", "batches", "samples checked"]
    for name in [*names, "kills survived"]:
        lines.append(f"| {name} | {' | '.join(f'{soak.counts[name]:,}' for soak in soaks)} |")
    flat = True
    slopes = [soak.slopes() for soak in soaks]
    for name in FLAT:
        unit = " MB" if "memory" in name else ""
        cells = []
        for kind in slopes:
            middle, hourly, verdict = kind[name]
            flat &= verdict != "GROWS"
            cells.append(f"{middle:,.0f}{unit}, {hourly:+.1f}{unit} an hour: {verdict}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines, flat


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4.0, help="in all; 4 unless told")
    parser.add_argument("--records", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", LoaderWarning)  # that workers were replaced, each time
    soaks = []
    with tempfile.TemporaryDirectory() as folder:
        pictures = Pictures.make(Path(folder), arguments.records)
        for kind in ("threads", "processes"):
            soak = Soak(pictures, kind, np.random.default_rng(arguments.seed))
            asyncio.run(soak.run(arguments.minutes * 30))
            soaks.append(soak)
            if left := Usage.now(0).processes:
                raise AssertionError(f"{left} workers are left after the loaders of {kind} were closed")
        del pictures
    lines, flat = table(soaks)
    print("\n".join(lines))
    return 0 if flat else 1


if __name__ == "__main__":
    raise SystemExit(main())
