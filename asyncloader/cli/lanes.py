"""What ``bench`` runs side by side: a bare loop of reads and decoding, and the loader."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asyncloader.cli.pictures import choose, open_pictures
from asyncloader.cli.records import spread
from asyncloader.datasets.images import ImageRecordDataset, split_image_record
from asyncloader.datasets.records import RecordDataset
from asyncloader.decoders import ImageDecoder
from asyncloader.errors import DecodeError
from asyncloader.recordio.frames import HEAD, MAX_PART
from asyncloader.storage import LocalFile
from asyncloader.sync import DataLoader

__all__ = ["Measurement", "Result"]

_MOST, _MOST_BYTES = 4096, 48 << 20
#: Records that are not decoded take so little time that more of them are needed.
_MOST_RAW = 100_000
#: A small file is gone through again and again, until a turn takes about so many seconds.
_TURN = 0.6
_MOST_TIMES = 500


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one lane.

    Attributes
    ----------
    name : str
        What was measured.
    rate : float
        Records a second.
    first : float, or None
        Seconds from the loader's start to its first batch.
    """

    name: str
    rate: float
    first: float | None


class Measurement:
    """The lanes over one file.

    Parameters
    ----------
    path : path
        The record file.
    workers : int
        Threads, or processes.
    batch_size : int
        Samples in a batch.
    """

    rounds = 3

    def __init__(self, path: Path, workers: int, batch_size: int) -> None:
        self.workers = workers
        self._batch_size = batch_size
        self._dataset, positions = _open(path)
        self.path = self._dataset.files.readers[0].path
        self.unit = "images" if isinstance(self._dataset, ImageRecordDataset) else "records"
        self.count, self.total = len(positions), len(self._dataset)
        self._order: list[int] = np.random.default_rng(0).permutation(positions).tolist()
        #: How often progress is told.
        self.steps = 3 * (self.rounds + 1)

    def run(self, progress: Callable[[int], None]) -> list[Result]:
        """Measure all lanes, in turns."""
        names = ("bare loop", "loader, threads", "loader, processes")
        times: dict[str, list[float]] = {name: [] for name in names}
        firsts: dict[str, float | None] = dict.fromkeys(names)
        done = 0
        with ExitStack() as stack:
            stack.callback(self._dataset.close)
            bare = stack.enter_context(_BareLoop(self._dataset, self._order, self.workers))
            lanes: list[Callable[[], None]] = [bare.run]
            bare.run()  # the first turn of each fills the caches, and is not counted
            times_over = min(_MOST_TIMES, math.ceil(_TURN / _seconds(bare.run)))
            bare.repeat(times_over)
            progress(done := done + 1)
            for name, kind in ((names[1], "threads"), (names[2], "processes")):
                loader, firsts[name] = self._start(stack, kind, self._order * times_over)
                lanes.append(partial(_drain, loader))
                progress(done := done + 1)
            for _ in range(self.rounds):
                for name, lane in zip(names, lanes, strict=True):
                    times[name].append(_seconds(lane))
                    progress(done := done + 1)
        records = self.count * times_over
        return [Result(name, records / statistics.median(times[name]), firsts[name]) for name in names]

    def _start(self, stack: ExitStack, kind: str, order: list[int]) -> tuple[DataLoader, float]:
        start = time.perf_counter()
        loader = stack.enter_context(
            DataLoader(self._dataset, self._batch_size, sampler=order, workers=kind, num_workers=self.workers)
        )
        batches = iter(loader)
        next(batches)
        first = time.perf_counter() - start
        for _ in batches:
            pass
        return loader, first


def _open(path: Path) -> tuple[ImageRecordDataset | RecordDataset, NDArray[np.int64]]:
    try:
        pictures = open_pictures(path)
    except DecodeError:
        records = RecordDataset(path)
        sizes = records.files.readers[0].index.spans.astype(np.int64)
        return records, spread(sizes, _MOST_RAW, _MOST_BYTES)
    return pictures, choose(pictures, _MOST, _MOST_BYTES)


def _seconds(lane: Callable[[], None]) -> float:
    start = time.perf_counter()
    lane()
    return time.perf_counter() - start


def _drain(loader: DataLoader) -> None:
    for _ in loader:
        pass


class _BareLoop(ExitStack):
    """As many threads, each reading its share of the records at their offsets, decoding, and dropping the result."""

    def __init__(self, dataset: ImageRecordDataset | RecordDataset, order: list[int], threads: int) -> None:
        super().__init__()
        index = dataset.files.readers[0].index
        self._file = self.enter_context(LocalFile(dataset.files.readers[0].path))
        self._decoder = ImageDecoder() if isinstance(dataset, ImageRecordDataset) else None
        offsets = [dataset.locate(position).offset for position in order]
        spans = dict(zip(index.offsets.tolist(), index.spans.tolist(), strict=True))
        ranges = [(offset, spans[offset]) for offset in offsets if offset is not None]
        self._shares = [ranges[thread::threads] for thread in range(threads)]
        self._threads = self.enter_context(ThreadPoolExecutor(threads, thread_name_prefix="asyncloader-bench"))

    def repeat(self, times: int) -> None:
        """Have each turn go through all records so many times."""
        self._shares = [share * times for share in self._shares]

    def run(self) -> None:
        """Do one turn."""
        for share in [self._threads.submit(self._work, share) for share in self._shares]:
            share.result()

    def _work(self, ranges: list[tuple[int, int]]) -> None:
        read, decoder = self._file.read, self._decoder
        for offset, span in ranges:
            data = read(offset, span)
            length = HEAD.unpack_from(data)[1] & MAX_PART
            payload = data[HEAD.size : HEAD.size + length]
            if decoder is not None:
                decoder(split_image_record(payload)[1])
