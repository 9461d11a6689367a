"""Fixtures and guards that every test shares."""

from __future__ import annotations

import gc
import os
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pytest
import simplejpeg
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray

# An example may take as long as a busy machine needs; pytest's own limit still ends a hang.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("default"), max_examples=20_000)  # --hypothesis-profile=long
settings.load_profile("default")

# ---------------------------------------------------------------------------------------------------------------------
# No test forks, unless it says so
# ---------------------------------------------------------------------------------------------------------------------


class ForkGuard:
    """An audit hook that refuses to fork, and remembers each attempt in case the refusal was swallowed."""

    def __init__(self) -> None:
        self.armed = False
        self.attempts: list[str] = []

    def __call__(self, event: str, _arguments: tuple[object, ...]) -> None:
        if event in ("os.fork", "os.forkpty") and self.armed:
            self.attempts.append(event)
            raise AssertionError(f"{event}: no test forks unless it is marked allow_fork")


_fork_guard = ForkGuard()
sys.addaudithook(_fork_guard)


@pytest.fixture(autouse=True)
def _never_forks(request: pytest.FixtureRequest) -> Iterator[None]:
    _fork_guard.attempts.clear()
    _fork_guard.armed = request.node.get_closest_marker("allow_fork") is None
    yield
    _fork_guard.armed = False
    if _fork_guard.attempts:
        pytest.fail(f"the test forked: {', '.join(_fork_guard.attempts)}")


# ---------------------------------------------------------------------------------------------------------------------
# What cannot run here
# ---------------------------------------------------------------------------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if sys.platform == "win32":
        for item in items:
            if item.get_closest_marker("posix") is not None:
                item.add_marker(pytest.mark.skip("needs POSIX signals or processes"))


# ---------------------------------------------------------------------------------------------------------------------
# What a test must leave as it was
# ---------------------------------------------------------------------------------------------------------------------

_DESCRIPTORS = Path("/proc/self/fd")
_SHARED_MEMORY = Path("/dev/shm")
_GRACE_SECONDS = 2.0


class Resources(NamedTuple):
    """What this process holds: by what each thing is, since a descriptor's number says nothing."""

    threads: Counter[str]
    descriptors: Counter[str]
    children: Counter[str]
    segments: Counter[str]

    @classmethod
    def held(cls) -> Resources:
        return cls(_threads(), _descriptors(), _children(), _segments())

    def missing_from(self, earlier: Resources) -> dict[str, list[str]]:
        """What is held now and was not held `earlier`."""
        grown = {name: now - before for name, now, before in zip(self._fields, self, earlier, strict=True)}
        return {name: sorted(things.elements()) for name, things in grown.items() if things}


def _threads() -> Counter[str]:
    return Counter(f"{t.name} ({t.ident})" for t in threading.enumerate())


def _descriptors() -> Counter[str]:
    held: Counter[str] = Counter()
    if sys.platform == "linux":
        for number in os.listdir(_DESCRIPTORS):
            try:
                held[os.readlink(_DESCRIPTORS / number)] += 1
            except FileNotFoundError:  # the descriptor of this very listing
                continue
    return held


def _children() -> Counter[str]:
    held: Counter[str] = Counter()
    for child in psutil.Process().children(recursive=True):
        try:
            held[f"{child.pid}: {' '.join(child.cmdline())}"] += 1
        except (psutil.NoSuchProcess, OSError):  # the second where Windows has it end at that moment
            continue
    return held


def _segments() -> Counter[str]:
    return Counter(os.listdir(_SHARED_MEMORY) if sys.platform == "linux" else ())


def _in_use_elsewhere(segment: str) -> bool:
    """Whether a process that is not ours has this segment mapped: another test run's, say."""
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    target = str(_SHARED_MEMORY / segment)
    for process in psutil.process_iter():
        if process.pid in ours:
            continue
        try:
            if any(mapped.path == target for mapped in process.memory_maps()):
                return True
        except psutil.Error:
            continue
    return False


class LeakCheck:
    """Compares what the process holds with what it held when this object was made."""

    def __init__(self) -> None:
        if sys.platform != "win32":
            resource_tracker.ensure_running()  # Python's own helper process, which stays once something needs it
        gc.collect()
        self._before = Resources.held()

    def leaked(self, grace: float = _GRACE_SECONDS) -> dict[str, list[str]]:
        """What was not let go within `grace` seconds, by kind: empty if nothing."""
        deadline = time.monotonic() + grace
        while True:
            gc.collect()
            leaked = Resources.held().missing_from(self._before)
            if "segments" in leaked:
                leaked["segments"] = [name for name in leaked["segments"] if not _in_use_elsewhere(name)]
            leaked = {kind: things for kind, things in leaked.items() if things}
            if not leaked or time.monotonic() > deadline:
                return leaked
            time.sleep(0.02)

    def check(self, grace: float = _GRACE_SECONDS) -> None:
        """Fail the test, naming what leaked."""
        leaked = self.leaked(grace)
        if leaked:
            pytest.fail("leaked " + "; ".join(f"{kind}: {', '.join(things)}" for kind, things in leaked.items()))


_leak_check = pytest.StashKey[LeakCheck]()


@pytest.fixture
def no_leaks(request: pytest.FixtureRequest) -> LeakCheck:
    """Threads, descriptors, child processes and shared memory must be gone 2 s after the test's end.

    The check runs by itself when the test's fixtures, its event loop among them, are finished; `no_leaks.check()` runs
    it earlier.
    """
    check = LeakCheck()
    request.node.stash[_leak_check] = check
    return check


@pytest.hookimpl(wrapper=True, trylast=True)  # inside pytest's own capture, whose descriptors come and go
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    check = item.stash.get(_leak_check, None)
    if check is not None:
        check.check()


# ---------------------------------------------------------------------------------------------------------------------
# A small set of pictures
# ---------------------------------------------------------------------------------------------------------------------


class ImageRecords(NamedTuple):
    """An image record set on disk, and what went into it, by position."""

    path: Path
    index_path: Path
    keys: list[int]
    labels: list[float]
    jpegs: list[bytes]
    payloads: list[bytes]

    def pixels(self, position: int) -> NDArray[np.uint8]:
        """The picture at `position` as its codec decodes it: height x width x RGB."""
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(self.jpegs[position], colorspace="RGB")
        return pixels


def _picture(number: int) -> NDArray[np.uint8]:
    """A smooth gradient with one bright square, so that JPEG keeps it recognisable: 40 x 48 x RGB."""
    rows, columns = np.mgrid[0:40, 0:48]
    pixels = np.stack([rows * 3, columns * 3, np.full_like(rows, number * 2)], axis=2).astype(np.uint8)
    top, left = 4 + number % 5 * 6, 4 + number % 7 * 5
    pixels[top : top + 8, left : left + 8] = 255
    return pixels


@pytest.fixture(scope="session")
def image_records(tmp_path_factory: pytest.TempPathFactory) -> ImageRecords:
    """70 JPEGs with scalar labels, keys that are not positions, and index lines that are not in file order.

    The files are put together here from the format's description, so that a fault of the package's own writer cannot
    hide one of its reader.
    """
    folder = tmp_path_factory.mktemp("image records")
    path, index_path = folder / "train.rec", folder / "train.idx"
    count = 70
    keys = [3 * position + 1 for position in range(count)]
    labels = [float(position % 10) for position in range(count)]
    jpegs = [simplejpeg.encode_jpeg(_picture(position), quality=90, colorspace="RGB") for position in range(count)]
    payloads = [
        struct.pack("<IfQQ", 0, label, key, 0) + jpeg for key, label, jpeg in zip(keys, labels, jpegs, strict=True)
    ]
    offsets = dict.fromkeys(range(count), 0)
    with path.open("wb") as records:
        for position in np.random.default_rng(0).permutation(count).tolist():
            offsets[position] = records.tell()
            payload = payloads[position]
            records.write(struct.pack("<II", 0xCED7230A, len(payload)) + payload + bytes(-len(payload) % 4))
    index_path.write_text(
        "".join(f"{key}\t{offsets[p]}\n" for p, key in enumerate(keys)), encoding="ascii", newline="\n"
    )
    return ImageRecords(path, index_path, keys, labels, jpegs, payloads)
