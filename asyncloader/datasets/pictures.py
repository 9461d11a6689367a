"""Encoded pictures to samples: what the record and the folder datasets of images share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from asyncloader.datasets.base import Failure, LoadContext, Location, Transform, located, sample_error, unread
from asyncloader.decoders import Buffer, ImageDecoder
from asyncloader.errors import DecodeError
from asyncloader.memory import BatchMemory

__all__ = ["PictureSamples"]


class PictureSamples:
    """Makes (image, label) samples of payloads, each failure its own.

    Parameters
    ----------
    decoder : ImageDecoder
        Gives the array of a picture.
    transform : callable, optional
        As :class:`~asyncloader.datasets.base.Transform` takes it.
    """

    def __init__(self, decoder: ImageDecoder, transform: Callable[..., Any] | None) -> None:
        self.decoder = decoder
        self.transform = Transform(transform) if transform is not None else None

    def make(
        self,
        parts: Iterable[tuple[int, Buffer | Exception, Any]],
        positions: Sequence[int],
        locate: Callable[[int], Location],
        context: LoadContext,
        slots: Sequence[int] | None = None,
    ) -> list[Any]:
        """Make the samples of one batch, or of a part of one.

        Parameters
        ----------
        parts : iterable of (int, bytes-like or Exception, object)
            In any order, each sample's place in ``positions``; its encoded picture, or the exception that stands for
            it; and its label. Taken one by one between the decoding of pictures: a thread that did this for all at once
            would keep the GIL from others for long.
        positions : sequence of int
            Where the samples come from.
        locate : callable
            ``locate(position)`` says where a sample comes from; called for failures only.
        context : LoadContext
            Where the arrays go.
        slots : sequence of int, optional
            The samples' rows; without it they follow each other from the context's first slot on.
        """
        if slots is None:
            slots = range(context.first_slot, context.first_slot + len(positions))
        decoder, transform, memory = self.decoder, self.transform, context.memory
        samples: list[Any] = [None] * len(positions)
        for place, picture, label in parts:
            position, slot, step = positions[place], slots[place], "decoding"
            if isinstance(picture, Exception):
                samples[place] = unread(picture, locate(position), position)
                continue
            try:
                if transform is None:
                    samples[place] = decoder(picture, memory, slot), label
                else:
                    context.before_sample(position)
                    image = decoder(picture)  # what is decoded does not enter the batch, so it has no row there
                    step = str(transform)
                    samples[place] = _into_row(transform.on_pair(image, label, position, context), memory, slot)
            except Exception as error:
                samples[place] = self.failure(error, position, locate, step)
        return samples

    @staticmethod
    def failure(error: Exception, position: int, locate: Callable[[int], Location], step: str) -> Failure:
        """Give what stands for a sample that failed, its error with its place."""
        if isinstance(error, DecodeError):
            return Failure(located(error, locate(position), position))
        return Failure(sample_error(error, locate(position), position, step))


def _into_row(sample: Any, memory: BatchMemory, slot: int) -> Any:
    """Copy what a transform made of a picture to its row of the batch, where it has the rows' shape.

    Then the picture's own memory is free for the next one, which finds it in the cache. Collected for a whole batch the
    pictures would be tens of megabytes, mapped anew each time.
    """
    if not (memory.use_rows and type(sample) is tuple and len(sample) == 2 and isinstance(sample[0], np.ndarray)):
        return sample
    image, label = sample
    row = memory.rows[slot] if memory.rows else memory.allocate_rows(image.shape, image.dtype, slot)
    if row is None or row.shape != image.shape or row.dtype != image.dtype or image.dtype.hasobject:
        return sample
    row[...] = image
    return row, label
