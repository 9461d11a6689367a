"""asyncloader.gluon.DataLoader gives what mxnet 1.9.1's own loader gives."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet")

from asyncloader import gluon  # noqa: E402
from asyncloader.errors import LoaderTimeoutError  # noqa: E402
from tests.conftest import ImageRecords, LeakCheck  # noqa: E402
from tests.mxnet.gluon_helpers import WAYS, same  # noqa: E402

pytestmark = pytest.mark.mxnet

data = mx.gluon.data
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
quick_ways = pytest.mark.parametrize("way", [WAYS["inline"], WAYS["threads"]], ids=["inline", "threads"])


def check(dataset: Any, way: dict[str, Any], passes: int = 1, **arguments: Any) -> None:
    """Compare all batches of several passes with those of MXNet's loader, made inline."""
    theirs = data.DataLoader(dataset, **arguments)
    np.random.seed(3)
    expected = [(len(theirs), list(theirs)) for _ in range(passes)]
    ours = gluon.DataLoader(dataset, **arguments, **way)
    np.random.seed(3)
    try:
        for length, batches in expected:
            assert len(ours) == length
            given = list(ours)
            assert len(given) == len(batches)
            assert all(map(same, given, batches))
    finally:
        ours.close()


def numbers(count: int) -> Any:
    return data.ArrayDataset(np.arange(count, dtype=np.float32).reshape(count, 1), list(range(count)))


def nested(image: Any, label: Any) -> Any:
    return (image, (label, mx.nd.array([label, 2 * label]))), [label]


# ---------------------------------------------------------------------------------------------------------------------
# Results
# ---------------------------------------------------------------------------------------------------------------------


@ways
def test_batches_of_mxnets_own_image_records_are_mxnets(image_records: ImageRecords, way: dict[str, Any]) -> None:
    dataset = data.vision.ImageRecordDataset(str(image_records.path)).transform(nested)
    check(dataset, way, batch_size=16)


@ways
def test_batches_of_our_image_records_are_mxnets(image_records: ImageRecords, way: dict[str, Any]) -> None:
    theirs = list(data.DataLoader(data.vision.ImageRecordDataset(str(image_records.path), 0), batch_size=16))
    with_ours = gluon.DataLoader(gluon.vision.ImageRecordDataset(image_records.path, 0), batch_size=16, **way)
    assert all(map(same, list(with_ours), theirs))
    with_ours.close()


@quick_ways
@pytest.mark.parametrize("last_batch", ["keep", "discard", "rollover", None])
@pytest.mark.parametrize("count", [0, 1, 7, 12])
def test_incomplete_batches_go_as_mxnet_has_it_over_several_passes(
    way: dict[str, Any], last_batch: str | None, count: int
) -> None:
    check(numbers(count), way, passes=4, batch_size=4, last_batch=last_batch)


@ways
def test_the_random_order_is_the_one_that_numpys_seed_gives_mxnet(way: dict[str, Any]) -> None:
    check(numbers(50), way, passes=3, batch_size=8, shuffle=True, last_batch="rollover")


@quick_ways
def test_samplers_and_batch_samplers_are_followed(way: dict[str, Any]) -> None:
    check(numbers(12), way, batch_size=5, sampler=data.SequentialSampler(6, 3))
    check(numbers(12), way, passes=2, batch_sampler=[[3, 1], [0], [11, -1]])
    check(numbers(12), way, batch_size=5, sampler=gluon.IntervalSampler(12, 5), last_batch="discard")


@quick_ways
def test_samples_of_every_kind_are_batched_as_mxnet_does(way: dict[str, Any]) -> None:
    def sample(number: int) -> Any:
        return number, float(number), np.float16(number), np.full((2, 3), number), mx.nd.ones((2,)) * number

    check(data.SimpleDataset(list(range(9))).transform(sample), way, batch_size=4)


@ways
def test_a_batchify_function_may_give_anything(way: dict[str, Any]) -> None:
    def batchify(samples: list[Any]) -> Any:
        ids = np.array([int(label) for _, label in samples])
        return {"x": mx.nd.array(ids), "ids": ids, "text": "t", "pair": (mx.nd.array([1]), None)}

    loader = gluon.DataLoader(numbers(4), 2, batchify_fn=batchify, **way)
    first = next(iter(loader))
    loader.close()
    assert same(first["x"], mx.nd.array([0, 1]))
    assert type(first["ids"]) is np.ndarray
    assert first["ids"].tolist() == [0, 1]
    assert first["text"] == "t"
    assert same(first["pair"], (mx.nd.array([1]), None))


@pytest.fixture
def numpy_semantics() -> Iterator[None]:
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


@ways
@pytest.mark.usefixtures("numpy_semantics")
def test_numpy_semantics_hold_in_the_workers(way: dict[str, Any]) -> None:
    dataset = data.SimpleDataset(list(range(6))).transform(lambda number: (mx.np.array(number), number))
    check(dataset, way, batch_size=4)


@quick_ways
def test_pinned_batches_are_in_pinned_memory(way: dict[str, Any]) -> None:
    arguments = {"batch_size": 3, "pin_memory": True, "pin_device_id": 0}
    check(numbers(5), way, **arguments)
    features, _ = next(iter(gluon.DataLoader(numbers(5), **arguments, **way)))
    assert features.context == mx.cpu_pinned(0)


# ---------------------------------------------------------------------------------------------------------------------
# Arguments
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"batch_size": 2, "shuffle": True, "sampler": [0, 1]},
        {"batch_sampler": [[0]], "batch_size": 2},
        {"batch_sampler": [[0]], "shuffle": True},
        {"batch_sampler": [[0]], "sampler": [0]},
        {"batch_sampler": [[0]], "last_batch": "keep"},
        {"batch_size": 2, "timeout": 0},
        {"batch_size": 2, "timeout": -1},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # MXNet's half-made loader ends badly
def test_wrong_combinations_are_the_errors_that_mxnet_raises(arguments: dict[str, Any]) -> None:
    def refusal(loader: Any) -> type[Exception] | None:
        try:
            loader(numbers(4), **arguments)
        except Exception as error:
            return type(error)
        return None

    expected = refusal(data.DataLoader)
    gc.collect()
    assert expected is not None
    assert refusal(gluon.DataLoader) is expected


def test_an_unknown_last_batch_is_an_error_where_mxnet_raises_it() -> None:
    loader = gluon.DataLoader(numbers(5), 2, last_batch="drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="drop"):
        len(loader)
    with pytest.raises(ValueError, match="drop"):
        list(loader)


def test_arguments_may_be_given_by_place_as_in_mxnet() -> None:
    loader = gluon.DataLoader(numbers(4), 2, False, None, "keep", None, None, 2, False, 0, 3, True, 60, False, True)
    assert [labels.asnumpy().tolist() for _, labels in loader] == [[0, 1], [2, 3]]


def test_less_than_no_workers_are_none() -> None:
    check(numbers(4), {"num_workers": -3}, batch_size=2)


def test_it_is_one_of_mxnets_loaders() -> None:
    assert isinstance(gluon.DataLoader(numbers(4), 2), data.DataLoader)


# ---------------------------------------------------------------------------------------------------------------------
# Work ahead
# ---------------------------------------------------------------------------------------------------------------------


class Watched:
    """A dataset that notes what it is asked for."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.asked: list[int] = []
        self.event = threading.Event()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: int) -> int:
        self.asked.append(position)
        self.event.set()
        return position


def test_auto_reload_begins_a_pass_before_it_is_asked_for() -> None:
    watched = Watched(4)
    loader = gluon.DataLoader(watched, 2, auto_reload=True, **WAYS["threads"])
    assert watched.event.wait(10)
    for _ in range(3):
        watched.event.clear()
        assert [batch.asnumpy().tolist() for batch in loader] == [[0, 1], [2, 3]]
        assert watched.event.wait(10)
    loader.close()


def test_without_it_nothing_is_made_until_a_batch_is_asked_for() -> None:
    watched = Watched(4)
    loader = gluon.DataLoader(watched, 2, **WAYS["threads"])
    batches = iter(loader)
    time.sleep(0.05)
    assert watched.asked == []
    next(batches)
    assert watched.asked
    loader.close()


def test_refresh_begins_a_pass_and_clean_drops_it() -> None:
    watched = Watched(4)
    loader = gluon.DataLoader(watched, 2, **WAYS["threads"])
    loader.refresh()
    assert watched.event.wait(10)
    loader.clean()
    assert [batch.asnumpy().tolist() for batch in loader] == [[0, 1], [2, 3]]
    loader.close()


def test_no_more_than_prefetch_batches_are_made_ahead() -> None:
    watched = Watched(40)
    loader = gluon.DataLoader(watched, 2, prefetch=3, **WAYS["threads"])
    batches = iter(loader)
    next(batches)
    time.sleep(0.2)
    assert max(watched.asked) < (1 + 3) * 2
    loader.close()


def test_passes_run_side_by_side() -> None:
    loader = gluon.DataLoader(numbers(6), 2, **WAYS["threads"])
    for (_, left), (_, right) in zip(loader, loader, strict=True):
        assert same(left, right)
    loader.close()


# ---------------------------------------------------------------------------------------------------------------------
# Errors and ends
# ---------------------------------------------------------------------------------------------------------------------


class OddError(Exception):
    """An error of a user's own."""


def fails_at_five(number: int) -> int:
    if number == 5:
        raise OddError("five")
    return number


@ways
def test_an_error_is_raised_as_it_is_and_names_the_sample(way: dict[str, Any]) -> None:
    loader = gluon.DataLoader(data.SimpleDataset(list(range(8))).transform(fails_at_five), 2, **way)
    batches = iter(loader)
    assert [next(batches).asnumpy().tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(OddError, match="five") as caught:
        next(batches)
    assert "position 5" in "\n".join(caught.value.__notes__)
    assert next(iter(loader)).asnumpy().tolist() == [0, 1]
    loader.close()


def test_a_sample_that_hangs_is_a_timeout() -> None:
    release = threading.Event()

    def hang(number: int) -> int:
        release.wait(30)
        return number

    loader = gluon.DataLoader(data.SimpleDataset([1, 2]).transform(hang), 2, timeout=0.2, **WAYS["threads"])
    with pytest.raises(LoaderTimeoutError, match="batch 0"):
        next(iter(loader))
    release.set()
    loader.close()


@ways
def test_a_loader_that_is_dropped_leaves_nothing(no_leaks: LeakCheck, way: dict[str, Any]) -> None:
    loader = gluon.DataLoader(numbers(40), 2, **way)
    for _ in loader:
        break
    del loader


# ---------------------------------------------------------------------------------------------------------------------
# Chance
# ---------------------------------------------------------------------------------------------------------------------


def draw(number: int) -> Any:
    return mx.nd.random.uniform(shape=(1,)), np.random.random()


def test_processes_draw_numbers_of_their_own_for_each_sample_that_a_seed_repeats() -> None:
    def drawn() -> list[Any]:
        np.random.seed(11)
        loader = gluon.DataLoader(data.SimpleDataset(list(range(12))).transform(draw), 3, **WAYS["processes"])
        batches = list(loader)
        loader.close()
        return batches

    first, second = drawn(), drawn()
    assert all(map(same, first, second))
    for column in range(2):
        assert len(set(np.concatenate([batch[column].asnumpy().ravel() for batch in first]).tolist())) == 12
