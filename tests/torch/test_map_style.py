"""Map-style datasets: the batches of PyTorch's own loader, whoever makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.utils.data as data  # noqa: E402

import asyncloader as al  # noqa: E402
from asyncloader.torch import DataLoader  # noqa: E402
from tests.conftest import ImageRecords  # noqa: E402
from tests.torch.helpers import KINDS, Nested, Numbers, assert_same  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    return KINDS[request.param]


def assert_equal_passes(kind: dict[str, Any], make: Callable[[], dict[str, Any]], passes: int = 1) -> None:
    """Loaders of the same arguments, made with the same seed, give the same and leave the generator where it was."""
    outcomes = []
    for loader_class, workers in ((data.DataLoader, {}), (DataLoader, kind)):
        torch.manual_seed(7)
        loader = loader_class(**make(), **workers)
        given = [list(loader) for _ in range(passes)]
        outcomes.append((given, len(loader), torch.rand(3)))
    (theirs, their_length, their_draw), (ours, our_length, our_draw) = outcomes
    assert_same(ours, theirs)
    assert our_length == their_length
    assert_same(our_draw, their_draw)


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "one by one": lambda: {"dataset": Nested(5)},
    "shuffled": lambda: {"dataset": Nested(), "batch_size": 4, "shuffle": True},
    "drop_last": lambda: {"dataset": Nested(), "batch_size": 4, "drop_last": True},
    "generator": lambda: {
        "dataset": Nested(),
        "batch_size": 5,
        "shuffle": True,
        "generator": torch.Generator().manual_seed(3),
    },
    "replacement": lambda: {
        "dataset": Nested(),
        "batch_size": 5,
        "sampler": data.RandomSampler(range(21), replacement=True, num_samples=70),
    },
    "weighted": lambda: {
        "dataset": Nested(),
        "batch_size": 3,
        "sampler": data.WeightedRandomSampler([1.0, 2.0, 3.0], 11),
    },
    "batch_sampler": lambda: {"dataset": Nested(), "batch_sampler": [[1, 2, 3], [0], [20, 4, 20]]},
    "no batches": lambda: {"dataset": Nested(9), "batch_size": None},
    "no batches, own collation": lambda: {"dataset": Nested(3), "batch_size": None, "collate_fn": sorted},
    "own collation": lambda: {"dataset": Numbers(9), "batch_size": 4, "collate_fn": lambda batch: sum(batch) * 2},
    "own collation around the default": lambda: {
        "dataset": Nested(9),
        "batch_size": 4,
        "collate_fn": lambda batch: data.default_collate(batch[::-1]),
    },
    "empty": lambda: {"dataset": Numbers(0), "batch_size": 4},
}


@pytest.mark.parametrize("case", CASES)
def test_batches_equal_those_of_torch(kind: dict[str, Any], case: str) -> None:
    assert_equal_passes(kind, CASES[case])


def test_each_pass_has_the_order_that_torch_gives_it() -> None:
    assert_equal_passes(
        {"num_workers": 2, "workers": "threads"},
        lambda: {"dataset": Numbers(30), "batch_size": 4, "shuffle": True},
        passes=3,
    )


def test_indexes_may_be_whatever_the_dataset_takes(kind: dict[str, Any]) -> None:
    words = {"a": 1, "b": 2, ("c", 3): 3}
    assert_equal_passes(kind, lambda: {"dataset": words, "sampler": ["b", ("c", 3)], "batch_size": 2})
    numbers = Numbers(5)
    tensors = [torch.tensor(3), torch.tensor(1)]
    assert_equal_passes(kind, lambda: {"dataset": numbers, "sampler": tensors, "batch_size": 2})


class WholeBatches(Numbers):
    """Gives whole batches, in a form of its own."""

    def __getitems__(self, index: Any) -> Any:
        return {"index": type(index).__name__, "squares": torch.as_tensor(index) ** 2}


@pytest.mark.parametrize("sampler", [[[1, 2], [3]], [np.array([4, 5, 6]), np.array([0])]], ids=["lists", "arrays"])
def test_getitems_gives_what_is_collated(kind: dict[str, Any], sampler: Any) -> None:
    assert_equal_passes(
        kind, lambda: {"dataset": WholeBatches(7), "batch_sampler": sampler, "collate_fn": lambda batch: batch}
    )


def test_subsets_and_concatenations_of_datasets_work(kind: dict[str, Any]) -> None:
    whole = data.ConcatDataset([Nested(9), data.Subset(Nested(12), [3, 2, 11])])
    assert_equal_passes(kind, lambda: {"dataset": data.Subset(whole, range(0, 12, 2)), "batch_size": 4})


def test_tensor_datasets_work(kind: dict[str, Any]) -> None:
    tensors = torch.arange(60.0).reshape(20, 3).T.contiguous().T, torch.arange(20), torch.arange(20).to(torch.complex64)
    assert_equal_passes(kind, lambda: {"dataset": data.TensorDataset(*tensors), "batch_size": 6, "shuffle": True})


def test_our_own_datasets_give_what_they_give_torchs_loader(kind: dict[str, Any], image_records: ImageRecords) -> None:
    dataset = al.ImageRecordDataset(image_records.path)
    assert_equal_passes(kind, lambda: {"dataset": dataset, "batch_size": 16, "shuffle": True})


class Eager(data.Sampler):
    """Draws its order when it is asked for an iterator, as many samplers do."""

    def __init__(self, length: int, generator: Any = None) -> None:
        self.length = length
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(self.length, generator=self.generator).tolist())

    def __len__(self) -> int:
        return self.length


@pytest.mark.allow_fork
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("sampler", ["eager", "replacement"])
def test_samplers_are_asked_when_torch_asks_them(sampler: str, persistent: bool) -> None:
    """The consumer and the sampler draw from one generator, so each draw tells where the others were."""
    outcomes = []
    for loader_class, workers in ((data.DataLoader, {}), (DataLoader, {"workers": "threads"})):
        generator = torch.Generator().manual_seed(5)
        order = (
            Eager(150, generator)
            if sampler == "eager"
            else data.RandomSampler(range(150), replacement=True, generator=generator)
        )
        loader = loader_class(
            Numbers(150),
            sampler=order,
            batch_size=None if sampler == "eager" else 13,
            num_workers=2,
            prefetch_factor=3,
            persistent_workers=persistent,
            generator=generator,
            **workers,
        )
        given: list[Any] = []
        for _ in range(2):
            batches = iter(loader)
            given.append(torch.rand(2, generator=generator))
            for batch in batches:
                given += [batch, torch.rand(2, generator=generator)]
        outcomes.append(given)
    theirs, ours = outcomes
    assert_same(ours, theirs)


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"persistent_workers": True},
        {"shuffle": True, "sampler": [1]},
        {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_size": None, "drop_last": True},
        {"batch_size": 0},
        {"multiprocessing_context": "spawn"},
        {"multiprocessing_context": "spoon", "num_workers": 1},
        {"multiprocessing_context": 3, "num_workers": 1},
    ],
)
def test_wrong_arguments_raise_what_they_raise_in_torch(arguments: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)) as theirs:
        data.DataLoader(Numbers(9), **arguments)
    with pytest.raises(type(theirs.value)) as ours:
        DataLoader(Numbers(9), **arguments)
    assert str(ours.value) == str(theirs.value)


def test_it_is_a_loader_of_torchs(kind: dict[str, Any]) -> None:
    loader = DataLoader(Numbers(9), 2, **kind)
    assert isinstance(loader, data.DataLoader)
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 3


def test_pinning_without_an_accelerator_warns_as_torch_does(kind: dict[str, Any]) -> None:
    if torch.accelerator.is_available():
        pytest.skip("there is an accelerator here")
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert_same(list(DataLoader(Numbers(4), 2, pin_memory=True, **kind)), list(data.DataLoader(Numbers(4), 2)))
