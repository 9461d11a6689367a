"""Encoded pictures to samples: what the record and the folder datasets of images share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from asyncloader.datasets.base import Failure, LoadContext, Location, Transform, located, sample_error
from asyncloader.decoders import Buffer, ImageDecoder
from asyncloader.errors import DecodeError

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
        payloads: Sequence[Buffer | Exception],
        positions: Sequence[int],
        split: Callable[[Buffer, int], tuple[Buffer, Any]],
        locate: Callable[[int], Location],
        context: LoadContext,
    ) -> list[Any]:
        """Make the samples of one batch.

        Parameters
        ----------
        payloads : sequence
            What was read at each position, an exception where reading failed.
        positions : sequence of int
            Where the payloads come from.
        split : callable
            ``split(payload, position)`` gives the picture's bytes and the label.
        locate : callable
            ``locate(position)`` says where a sample comes from; called for failures only.
        context : LoadContext
            Where the arrays go.
        """
        decoder, transform, before = self.decoder, self.transform, context.before_sample
        # With a transform what is decoded is not what enters the batch, so it has no row there.
        memory = context.memory if transform is None else None
        samples: list[Any] = []
        slot = context.first_slot
        for payload, position in zip(payloads, positions, strict=True):
            step = "decoding"
            try:
                if isinstance(payload, Exception):
                    raise payload
                if before is not None:
                    before(position)
                picture, label = split(payload, position)
                image = decoder(picture, memory, slot)
                if transform is None:
                    samples.append((image, label))
                else:
                    step = str(transform)
                    samples.append(transform.on_pair(image, label, position, context))
            except DecodeError as error:
                samples.append(Failure(located(error, locate(position), position)))
            except Exception as error:
                samples.append(Failure(sample_error(error, locate(position), position, step)))
            slot += 1
        return samples
