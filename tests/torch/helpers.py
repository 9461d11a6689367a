"""Datasets, and a comparison of batches, that the tests against PyTorch share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.utils.data

KINDS: dict[str, dict[str, Any]] = {
    "inline": {},
    "threads": {"num_workers": 2, "workers": "threads"},
    "processes": {"num_workers": 2},
}


def assert_same(ours: Any, theirs: Any) -> None:
    """Both are of the same types, dtypes, shapes and values, all the way down."""
    assert type(ours) is type(theirs)
    if isinstance(ours, torch.Tensor):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)
    elif isinstance(ours, Mapping):
        assert list(ours) == list(theirs)
        for name in ours:
            assert_same(ours[name], theirs[name])
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    else:
        assert ours == theirs


class Point(NamedTuple):
    x: torch.Tensor
    name: str


class Nested(torch.utils.data.Dataset):
    """Samples of every kind that the default collation knows, one inside the other."""

    def __init__(self, length: int = 21) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.length:
            raise IndexError(index)
        return {
            "picture": torch.full((3, 8, 8), index, dtype=torch.uint8),
            "point": Point(torch.tensor([index, -index], dtype=torch.float32), f"point {index}"),
            "pair": (np.full((2, 2), index, np.int16), np.float32(index / 3)),
            "list": [index, index / 7, bytes([index])],
            "half": torch.tensor([index], dtype=torch.bfloat16),
            "truth": index % 2 == 0,
            "empty": torch.empty(0, 4),
        }


class Numbers(torch.utils.data.Dataset):
    """Sample ``i`` is the tensor ``i``."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.as_tensor(index)


class Shards(torch.utils.data.IterableDataset):
    """The numbers to ``stop``, cut up among the workers; ``extra`` more for the first of them."""

    def __init__(self, stop: int, extra: int = 0) -> None:
        self.stop = stop
        self.extra = extra

    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info is not None else (0, 1)
        yield from range(first, self.stop, step)
        if first == 0:
            yield from range(1000, 1000 + self.extra)


class Draws(torch.utils.data.IterableDataset):
    """What each of the global generators gives, which depends on the worker."""

    def __iter__(self) -> Iterator[tuple[float, float, float]]:
        import random

        for _ in range(5):
            yield random.random(), float(np.random.rand()), float(torch.rand(()))
