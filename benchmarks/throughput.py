"""The loader beside the machine's limit and beside other loaders, in one run.

    python benchmarks/throughput.py                       # the limit, threads, processes; torch where it is installed
    python benchmarks/throughput.py --mxnet-python PY     # mxnet's own loader too, run by an interpreter that has it

The limit is a bare loop: as many threads, each calling ``os.pread`` for the same records in the same order and the same
codec, dropping the result, with no loader. All contenders of a row take turns in rounds, and the median over the rounds
of each one's ratio to the limit in the same round is printed, so that what else the machine does falls on all alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import limit
import numpy as np
import sets
from numpy.typing import NDArray

import asyncloader as al

WORKERS = 2


def crop_224(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Cut the middle 224 x 224 out."""
    top, left = (image.shape[0] - 224) // 2, (image.shape[1] - 224) // 2
    return image[top : top + 224, left : left + 224]


@dataclass
class Row:
    """One line of the table: a kind of work, and who does it."""

    name: str
    target: float
    count: int
    limit: Callable[[int], float]
    contenders: dict[str, Callable[[int], float]]


class Loading:
    """Seconds that passes of one loader take; it stays open, as in training."""

    def __init__(self, dataset: Any, batch_size: int, *, shuffle: bool, workers: str) -> None:
        self.loader = al.AsyncDataLoader(
            dataset,
            batch_size,
            shuffle=shuffle,
            workers=workers,
            num_workers=WORKERS,  # type: ignore[arg-type]
        )
        self.runner = asyncio.Runner()
        self.runner.run(self.loader.__aenter__())

    def __call__(self, epoch: int) -> float:
        return self.runner.run(self._pass(epoch))

    async def _pass(self, epoch: int) -> float:
        self.loader.set_epoch(epoch)
        start = time.perf_counter()
        async for _ in self.loader:
            pass
        return time.perf_counter() - start

    def close(self) -> None:
        self.runner.run(self.loader.aclose())
        self.runner.close()


def order_of(count: int, epoch: int) -> NDArray[np.int64]:
    """The order that the bare loop takes: random, as the loader's is."""
    return np.random.default_rng(epoch).permutation(count)


@contextmanager
def image_row(name: str, path: Path, transform: Any, arguments: argparse.Namespace) -> Iterator[Row]:
    bare = limit.BareLoop(path, limit.decode_record)
    with ExitStack() as stack:
        contenders: dict[str, Callable[[int], float]] = {
            "decode only": lambda epoch: bare.decoding_seconds(order_of(bare.count, epoch), WORKERS)
        }
        for workers in ("threads", "processes"):
            loading = Loading(al.ImageRecordDataset(path, transform=transform), 128, shuffle=True, workers=workers)
            stack.callback(loading.close)
            contenders[workers] = loading
        if torch_loading := torch_loader(path, transform):
            contenders["torch"] = torch_loading
        if arguments.mxnet_python and transform is None:
            contenders["mxnet"] = lambda epoch: mxnet_seconds(arguments.mxnet_python, path)
        yield Row(name, 0.93, bare.count, lambda epoch: bare.seconds(order_of(bare.count, epoch), WORKERS), contenders)


@contextmanager
def raw_row(name: str, path: Path, *, shuffle: bool, target: float) -> Iterator[Row]:
    bare = limit.BareLoop(path, None)
    loading = Loading(al.RecordDataset(path), 1024, shuffle=shuffle, workers="threads")
    try:
        # In both rows the bare loop goes in random order: the second says what reading in file order gains.
        yield Row(
            name,
            target,
            bare.count,
            lambda epoch: bare.seconds(order_of(bare.count, epoch), WORKERS),
            {"threads": loading},
        )
    finally:
        loading.close()


def torch_loader(path: Path, transform: Any) -> Callable[[int], float] | None:
    """PyTorch's own loader on the same dataset: forked, persistent workers."""
    try:
        import torch.utils.data
    except ImportError:
        return None
    dataset = al.ImageRecordDataset(path, transform=transform)
    loader = torch.utils.data.DataLoader(
        dataset,
        128,
        shuffle=True,
        num_workers=WORKERS,
        persistent_workers=True,
        multiprocessing_context="fork",
    )

    def seconds(epoch: int) -> float:
        start = time.perf_counter()
        for _ in loader:
            pass
        return time.perf_counter() - start

    return seconds


def mxnet_seconds(python: str, path: Path) -> float:
    """Time mxnet's own loader and dataset, in a process of its own that has mxnet."""
    script = f"""
import time
from mxnet.gluon.data import DataLoader
from mxnet.gluon.data.vision import ImageRecordDataset
loader = DataLoader(ImageRecordDataset({str(path)!r}), 128, shuffle=True, num_workers={WORKERS})
iter(loader)
start = time.perf_counter()
for images, labels in loader:
    images.wait_to_read()
print(time.perf_counter() - start)
"""
    run = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])


def measure(row: Row, rounds: int) -> dict[str, Any]:
    ratios: dict[str, list[float]] = {name: [] for name in row.contenders}
    rates: dict[str, list[float]] = {name: [] for name in ("limit", *row.contenders)}
    for round_ in range(-1, rounds):  # the first warms up caches, workers and buffers, and does not count
        bound = row.limit(round_ + 1)
        seconds = {name: contender(round_ + 1) for name, contender in row.contenders.items()}
        if round_ >= 0:
            rates["limit"].append(row.count / bound)
            for name, value in seconds.items():
                ratios[name].append(bound / value)
                rates[name].append(row.count / value)
    return {
        "work": row.name,
        "target": row.target,
        "ratio": {name: round(statistics.median(values), 3) for name, values in ratios.items()},
        "per second": {name: round(statistics.median(values)) for name, values in rates.items()},
    }


def report(result: dict[str, Any]) -> None:
    print(f"\n{result['work']}")
    print(f"  {'limit (pread + codec)':24}{result['per second']['limit']:>10,} /s")
    for name, ratio in result["ratio"].items():
        goal = f"   (at least {result['target']})" if name in ("threads", "processes") else ""
        print(f"  {name:24}{result['per second'][name]:>10,} /s {ratio:>8.2f} of the limit{goal}")
    for peer in ("torch", "mxnet"):
        if peer in result["ratio"]:
            for name in ("threads", "processes"):
                print(f"  {name} / {peer}: {result['ratio'][name] / result['ratio'][peer]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", help="only the rows whose name contains this")
    parser.add_argument("--mxnet-python", help="an interpreter that has mxnet 1.9.1 and asyncloader")
    parser.add_argument("--json", type=Path, help="write the results here as well")
    arguments = parser.parse_args()
    rows = {
        "faces: 112x112 JPEG of about 6 KB, batch 128, shuffled": lambda name: image_row(
            name, sets.faces(), None, arguments
        ),
        "photos: JPEG of about 30 KB, short side 256, crop to 224, batch 128, shuffled": lambda name: image_row(
            name, sets.photos(), crop_224, arguments
        ),
        "raw records of 64 to 512 bytes, batch 1024, random order": lambda name: raw_row(
            name, sets.raw(), shuffle=True, target=0.5
        ),
        "the same, in file order": lambda name: raw_row(name, sets.raw(), shuffle=False, target=1.5),
    }
    results = []
    for name, make in rows.items():
        if arguments.only and arguments.only not in name:
            continue
        with make(name) as row:
            results.append(measure(row, arguments.rounds))
        report(results[-1])
        sys.stdout.flush()
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
