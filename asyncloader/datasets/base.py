"""What a dataset is to the loader, and what loading a batch hands to it.

Anything with ``__len__`` and ``__getitem__`` is a dataset. One that has ``read_many(positions)`` too is asked for whole
batches. The package's own derive from :class:`Dataset`, which adds what lets the loader do better: failures that cost
one sample instead of the batch, samples decoded straight into the batch's memory, and errors that say where.
"""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from asyncloader.errors import AsyncLoaderError, SampleError
from asyncloader.memory import BatchMemory
from asyncloader.samplers import sample_rng

__all__ = ["Dataset", "Failure", "FetchesPayloads", "LoadContext", "Location", "MapDataset", "Transform", "located"]

T_co = TypeVar("T_co", covariant=True)
ErrorT = TypeVar("ErrorT", bound=AsyncLoaderError)


class MapDataset(Protocol[T_co]):
    """The least a dataset is: samples at the positions ``0 .. len - 1``."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int, /) -> T_co: ...


@runtime_checkable
class FetchesPayloads(Protocol):
    """A dataset whose bytes come by coroutines: read on the event loop ahead of the workers that decode them."""

    async def fetch_payloads(self, positions: Sequence[int]) -> Sequence[object]:
        """Read the bytes of the samples at ``positions``; an exception stands where that failed."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a sample comes from, for messages."""

    path: str | None = None
    key: int | str | None = None
    offset: int | None = None

    def describe(self, position: int) -> str:
        """Word it: file, position, key and offset, as far as they are known."""
        facts = [f"position {position}"]
        if self.key is not None:
            facts.append(f"key {self.key}")
        if self.offset is not None:
            facts.append(f"byte offset {self.offset}")
        where = ", ".join(facts)
        return f"{self.path}: sample at {where}" if self.path else f"sample at {where}"


@dataclass(frozen=True, slots=True)
class Failure:
    """Stands in a list of samples for one that could not be made."""

    error: Exception


@dataclass(slots=True)
class LoadContext:
    """What the loading of one batch, or of a slice of one, may use.

    Attributes
    ----------
    memory : BatchMemory
        Where the batch's arrays go.
    first_slot : int
        The slot in the batch of the first position asked for.
    seed, epoch : int
        Randomness comes from these and the position alone.
    reading, decoding : float
        Seconds spent, counted here by the dataset.
    before_sample : callable
        Called with each position before a user's code makes its sample; it may raise to end the work.
    """

    memory: BatchMemory
    first_slot: int = 0
    seed: int = 0
    epoch: int = 0
    reading: float = 0.0
    decoding: float = 0.0
    before_sample: Callable[[int], None] = field(default=lambda position: None, repr=False)

    def rng(self, position: int) -> np.random.Generator:
        """Give the generator of one sample: the same for any worker, at any time."""
        return sample_rng(self.seed, self.epoch, position)

    def add_reading(self, seconds: float) -> None:
        """Count time as reading that is being counted as decoding too."""
        self.reading += seconds
        self.decoding -= seconds

    @contextmanager
    def time_reading(self) -> Iterator[None]:
        """Count the body's time as reading."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.reading += time.perf_counter() - start

    @contextmanager
    def time_decoding(self) -> Iterator[None]:
        """Count the body's time as decoding."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.decoding += time.perf_counter() - start


class Transform:
    """A user's function on samples, called as its signature wants.

    Parameters
    ----------
    function : callable
        On pairs, ``f(image)`` gives the image's successor and leaves the label, ``f(image, label)`` gives the whole
        sample. One that has a parameter ``rng`` gets the sample's own :class:`numpy.random.Generator` in it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"transform must be callable, not {type(function).__name__}")
        self.function = function
        required, self.takes_rng = _parameters(function)
        self.takes_label = required == 2

    def __str__(self) -> str:
        return f"transform {getattr(self.function, '__qualname__', None) or repr(self.function)}"

    def on_value(self, value: Any, position: int, context: LoadContext) -> Any:
        """Apply it to a sample that is one value."""
        if self.takes_rng:
            return self.function(value, rng=context.rng(position))
        return self.function(value)

    def on_pair(self, image: Any, label: Any, position: int, context: LoadContext) -> Any:
        """Apply it to a sample that is an image and its label."""
        if not self.takes_label:
            return self.on_value(image, position, context), label
        if self.takes_rng:
            return self.function(image, label, rng=context.rng(position))
        return self.function(image, label)


def _parameters(function: Callable[..., Any]) -> tuple[int, bool]:
    """How many positional arguments a function must have, and whether it takes ``rng``."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built in C, with no signature to see
        return 1, False
    required = sum(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.name != "rng"
        for parameter in parameters
    )
    takes_rng = any(parameter.name == "rng" and parameter.kind != parameter.VAR_POSITIONAL for parameter in parameters)
    return required, takes_rng


class Dataset(ABC):
    """The package's own datasets."""

    @abstractmethod
    def __len__(self) -> int:
        """Give the number of samples."""

    @abstractmethod
    def load_many(self, positions: Sequence[int], context: LoadContext) -> Sequence[Any]:
        """Make the samples at ``positions``; a :class:`Failure` stands where one could not be made."""

    def locate(self, position: int) -> Location:
        """Say where a sample comes from."""
        return Location()

    def advise(self, positions: Sequence[int]) -> None:  # noqa: B027 - most datasets have nobody to tell
        """Tell the kernel that the samples at ``positions`` will be read soon, where it can be told."""

    def close(self) -> None:  # noqa: B027 - most datasets hold nothing
        """Give up what the dataset holds open."""

    def __getitem__(self, position: int) -> Any:
        """Make one sample; a negative position counts from the end."""
        length = len(self)
        if not -length <= position < length:
            raise IndexError(f"position {position} is not in a dataset of {length} samples")
        [sample] = self.load_many([int(position) % length], LoadContext(BatchMemory(1)))
        if isinstance(sample, Failure):
            raise sample.error
        return sample

    def __iter__(self) -> Iterator[Any]:
        """Go through the samples in order."""
        return (self[position] for position in range(len(self)))


def located(error: ErrorT, location: Location, position: int) -> ErrorT:
    """Give an error of the package its place: the same kind and cause, the message with the sample's identity.

    One that a reader has placed by the record's position in its file is placed by the sample's position in the dataset.
    """
    if error.position == position:
        return error
    placed = type(error)(
        f"{location.describe(position)}: {error}",
        path=location.path,
        position=position,
        key=location.key,
        offset=location.offset,
    )
    placed.__cause__ = error.__cause__
    return placed


def sample_error(error: Exception, location: Location, position: int, step: str) -> AsyncLoaderError:
    """Name the sample that failed, and the step; an error that already names it stays as it is."""
    if isinstance(error, AsyncLoaderError) and error.position is not None:
        return error
    wrapped = SampleError(
        f"{location.describe(position)}: {step} raised {type(error).__name__}: {error}",
        path=location.path,
        position=position,
        key=location.key,
        offset=location.offset,
    )
    wrapped.__cause__ = error
    return wrapped


def unread(error: Exception, location: Location, position: int) -> Failure:
    """Give what stands for a sample whose bytes could not be had."""
    if isinstance(error, AsyncLoaderError):
        return Failure(located(error, location, position))
    return Failure(sample_error(error, location, position, "reading"))


def as_indexes(positions: Sequence[int]) -> NDArray[np.int64]:
    """Give positions as the array that readers take."""
    return np.asarray(positions, dtype=np.int64)
