"""What the machine can do: threads that read records and decode them, dropping the result, with no loader."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from asyncloader import recordio

PICTURE = 8 + 24  # framing and header of an image record come before its picture


class BareLoop:
    """``os.pread`` and the codec in a plain loop, in some threads.

    Parameters
    ----------
    path : path
        The record file.
    decode : callable or None
        What is done with each record's bytes.
    """

    def __init__(self, path: Path, decode: Callable[[bytes], object] | None) -> None:
        reader = recordio.RecordReader(path)
        self.count = len(reader)
        offsets = np.asarray(reader.index.offsets, np.int64)
        order = np.argsort(offsets)
        ends = np.empty_like(offsets)
        ends[order] = np.append(offsets[order][1:], os.path.getsize(path))
        reader.close()
        self.spans = [(int(end - start), int(start)) for start, end in zip(offsets, ends, strict=True)]
        self.descriptor = os.open(path, os.O_RDONLY)
        self.decode = decode

    def seconds(self, order: NDArray[np.int64], threads: int) -> float:
        """Go through the records in ``order``, divided among threads."""
        parts = [order[thread::threads].tolist() for thread in range(threads)]
        return timed([lambda part=part: self._run(part) for part in parts])  # type: ignore[misc]

    def _run(self, positions: list[int]) -> None:
        pread, descriptor, spans, decode = os.pread, self.descriptor, self.spans, self.decode
        if decode is None:
            for position in positions:
                pread(descriptor, *spans[position])
        else:
            for position in positions:
                decode(pread(descriptor, *spans[position]))

    def decoding_seconds(self, order: NDArray[np.int64], threads: int) -> float:
        """The same without reading: from memory."""
        assert self.decode is not None
        decode = self.decode
        records = [os.pread(self.descriptor, *self.spans[position]) for position in order.tolist()]

        def run(part: list[bytes]) -> None:
            for record in part:
                decode(record)

        return timed([lambda part=records[thread::threads]: run(part) for thread in range(threads)])  # type: ignore[misc]


def timed(tasks: list[Callable[[], None]]) -> float:
    """Run tasks in a thread each, and give the seconds until all are done."""
    threads = [threading.Thread(target=task) for task in tasks]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def decode_record(record: bytes) -> NDArray[np.uint8]:
    """Decode the picture of an image record with a scalar label."""
    return simplejpeg.decode_jpeg(memoryview(record)[PICTURE:], "RGB")  # type: ignore[no-any-return]
