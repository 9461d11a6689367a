"""The demo's training loop: batches by ``async for``, and a check that each sample came exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from asyncloader.cli.classifier import Classifier
from asyncloader.cli.shapes import SIDE
from asyncloader.datasets.base import Dataset, Failure, LoadContext, Location
from asyncloader.datasets.images import ImageRecordDataset
from asyncloader.loader import AsyncDataLoader

__all__ = ["Batch", "EpochReport", "Numbered", "run_epoch", "to_square"]

#: Pictures, labels and positions, as the loader collates them.
Batch = tuple[NDArray[np.uint8], NDArray[Any] | list[Any], NDArray[np.int64]]


def to_square(picture: NDArray[Any]) -> NDArray[np.uint8]:
    """Cut the largest square out of a picture's middle, and bring it to the demo's size."""
    height, width = picture.shape[:2]
    side = min(height, width)
    left, top = (width - side) // 2, (height - side) // 2
    square = Image.fromarray(picture[top : top + side, left : left + side])
    return np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=2.0))


class Numbered(Dataset):
    """Some samples of a set of pictures, each with its number: (picture, label, number).

    Parameters
    ----------
    dataset : ImageRecordDataset
        The whole set.
    positions : ndarray of int64
        Which samples of it; their numbers are their places here.
    """

    def __init__(self, dataset: ImageRecordDataset, positions: NDArray[np.int64]) -> None:
        self.dataset = dataset
        self.positions = positions

    def __len__(self) -> int:
        return len(self.positions)

    def load_many(self, positions: Sequence[int], context: LoadContext) -> list[Any]:
        """Load the samples, and put their numbers to them."""
        samples = self.dataset.load_many(self._of(positions), context)
        numbered = zip(samples, positions, strict=True)
        return [sample if isinstance(sample, Failure) else (*sample, number) for sample, number in numbered]

    def locate(self, position: int) -> Location:
        """Say where a sample comes from."""
        return self.dataset.locate(int(self.positions[position]))

    def advise(self, positions: Sequence[int]) -> None:
        """Announce the samples' records to the kernel."""
        self.dataset.advise(self._of(positions))

    def close(self) -> None:
        """Close the file."""
        self.dataset.close()

    def _of(self, positions: Sequence[int]) -> list[int]:
        chosen: list[int] = self.positions[np.asarray(positions, np.int64)].tolist()
        return chosen


@dataclass(frozen=True, slots=True)
class EpochReport:
    """What came of one epoch.

    Attributes
    ----------
    loss, accuracy : float, or None
        Over the epoch, each batch judged before it was learned from; None where nothing is learned.
    samples : int
        How many came.
    seconds, waiting : float
        How long it took, and how much of that was waiting for a batch.
    skipped : int
        Samples that could not be loaded.
    times : ndarray of int64
        How often each sample came.
    """

    loss: float | None
    accuracy: float | None
    samples: int
    seconds: float
    waiting: float
    skipped: int
    times: NDArray[np.int64]

    @property
    def exact(self) -> bool:
        """Whether each sample came exactly once, but for those that were skipped and did not come at all."""
        return bool((self.times <= 1).all()) and int((self.times == 0).sum()) == self.skipped


async def run_epoch(
    loader: AsyncDataLoader,
    classifier: Classifier | None,
    targets: Callable[[Any], NDArray[np.int64]],
    on_batch: Callable[[Batch], None],
) -> EpochReport:
    """Train for one epoch, or just load where there is no classifier.

    Parameters
    ----------
    loader : AsyncDataLoader
        Over a :class:`Numbered` set.
    classifier : Classifier, optional
        What learns.
    targets : callable
        From a batch's labels to the classifier's classes.
    on_batch : callable
        Given each batch.
    """
    before, start = loader.stats(), time.perf_counter()
    loss, hits, samples = 0.0, 0, 0
    times = np.zeros(len(loader.dataset), np.int64)
    async for batch in loader:
        pictures, labels, numbers = batch
        if classifier is not None:
            batch_loss, batch_hits = classifier.learn(pictures, targets(labels))
            loss += batch_loss * len(numbers)
            hits += batch_hits
        np.add.at(times, numbers, 1)
        samples += len(numbers)
        on_batch(batch)
    after = loader.stats()
    learned = classifier is not None and samples > 0
    return EpochReport(
        loss=loss / samples if learned else None,
        accuracy=hits / samples if learned else None,
        samples=samples,
        seconds=time.perf_counter() - start,
        waiting=after["waiting"] - before["waiting"],
        skipped=after["skipped"] - before["skipped"],
        times=times,
    )
