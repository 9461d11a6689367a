"""The datasets, samplers and batchify functions of asyncloader.gluon."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet")

from asyncloader import gluon  # noqa: E402
from asyncloader.errors import DecodeError, MissingFileError  # noqa: E402
from asyncloader.recordio import MXIndexedRecordIO  # noqa: E402
from tests.conftest import ImageRecords  # noqa: E402
from tests.mxnet.gluon_helpers import same  # noqa: E402

pytestmark = pytest.mark.mxnet

data = mx.gluon.data

# ---------------------------------------------------------------------------------------------------------------------
# Datasets
# ---------------------------------------------------------------------------------------------------------------------


def test_every_public_name_of_mxnets_module_is_there() -> None:
    assert set(data.dataset.__all__ + data.sampler.__all__ + data.dataloader.__all__) <= set(gluon.__all__)
    theirs = [name for name in dir(data.vision) if name[0].isupper()]
    assert set(theirs) <= set(gluon.vision.__all__)
    assert gluon.vision.transforms is data.vision.transforms


def test_records_are_mxnets_in_the_order_of_the_index(image_records: ImageRecords) -> None:
    theirs = data.RecordFileDataset(str(image_records.path))
    dataset = gluon.RecordFileDataset(image_records.path)
    assert len(dataset) == len(theirs)
    assert [dataset[position] for position in range(len(dataset))] == list(theirs)
    assert dataset[-1] == theirs[-1]
    assert (dataset.filename, dataset.idx_file) == (theirs.filename, theirs.idx_file)
    for position in (70, -71):
        with pytest.raises(IndexError, match="70 records"):
            dataset[position]


def test_without_an_index_records_come_in_file_order(image_records: ImageRecords, tmp_path: Path) -> None:
    path = shutil.copy(image_records.path, tmp_path / "alone.rec")
    dataset = gluon.RecordFileDataset(path)
    assert sorted(dataset[position] for position in range(70)) == sorted(image_records.payloads)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"absent\.rec"):
        gluon.RecordFileDataset(tmp_path / "absent.rec")


def test_a_record_that_is_no_image_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.rec"
    with MXIndexedRecordIO(path.with_suffix(".idx"), path, "w") as writer:
        writer.write_idx(5, b"short")
        writer.write_idx(6, bytes(24) + b"no picture")
    dataset = gluon.vision.ImageRecordDataset(path)
    for position, key in ((0, 5), (1, 6)):
        with pytest.raises(DecodeError, match=rf"bad\.rec.*position {position}, key {key}") as caught:
            dataset[position]
        assert (caught.value.path, caught.value.position, caught.value.key) == (str(path), position, key)


def test_views_of_our_datasets_are_lazy_and_mxnets(image_records: ImageRecords) -> None:
    def view(dataset: Any, seen: list[int]) -> Any:
        def note(record: bytes) -> int:
            seen.append(len(record))
            return len(record)

        lazy = dataset.transform(note)
        assert seen == []
        assert len(lazy.transform_first(str, lazy=False)) == 70
        taken = lazy.shard(3, 1).take(20).sample(gluon.IntervalSampler(20, 7))
        return list(taken), list(lazy.filter(lambda size: size % 2 == 0)), len(seen)

    ours = view(gluon.RecordFileDataset(image_records.path), [])
    assert ours == view(data.RecordFileDataset(str(image_records.path)), [])


def test_a_folder_of_images_loads(tmp_path: Path, image_records: ImageRecords) -> None:
    for number in range(6):
        folder = tmp_path / f"class {number % 2}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(image_records.jpegs[number])
    dataset = gluon.vision.ImageFolderDataset(str(tmp_path))
    loader = gluon.DataLoader(dataset, 6, num_workers=3, thread_pool=True)
    [(images, labels)] = loader
    loader.close()
    order = [0, 2, 4, 1, 3, 5]
    np.testing.assert_array_equal(images.asnumpy(), np.stack([image_records.pixels(number) for number in order]))
    assert labels.asnumpy().tolist() == [0, 0, 0, 1, 1, 1]


# ---------------------------------------------------------------------------------------------------------------------
# Samplers
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 5, 13])
@pytest.mark.parametrize("rollover", [True, False])
def test_interval_samplers_give_mxnets_positions_and_know_how_many(length: int, rollover: bool) -> None:
    for interval in range(1, length + 1):
        theirs = mx.gluon.contrib.data.IntervalSampler(length, interval, rollover)
        sampler = gluon.IntervalSampler(length, interval, rollover)
        assert list(sampler) == list(theirs)
        assert len(sampler) == len(list(sampler))
    for kind in (mx.gluon.contrib.data.IntervalSampler, gluon.IntervalSampler):
        with pytest.raises(AssertionError):
            kind(length, length + 1)


# ---------------------------------------------------------------------------------------------------------------------
# Batchify functions; 1.9.1 has none, so they are compared with what numpy makes
# ---------------------------------------------------------------------------------------------------------------------


def array(value: Any, dtype: Any = None) -> Any:
    values = np.array(value, dtype)
    return mx.nd.array(values, dtype=values.dtype)


@pytest.mark.parametrize(
    "samples",
    [
        [1, 2, 3],
        [np.float32(1), np.float32(2)],
        [mx.nd.ones((2, 3)), mx.nd.zeros((2, 3))],
        [(1, mx.nd.ones(2)), (2, mx.nd.zeros(2))],
        [(1, (2.5, mx.nd.ones(2))), (2, (3.5, mx.nd.zeros(2)))],
        [np.ones((2, 2), np.int32), np.zeros((2, 2), np.int32)],
    ],
    ids=str,
)
def test_stack_gives_what_mxnets_default_function_gives(samples: list[Any]) -> None:
    assert same(gluon.batchify.Stack()(samples), data.dataloader.default_batchify_fn(samples))


def test_stack_takes_lists_apart_as_well() -> None:
    first, second = gluon.batchify.Stack(use_shared_mem=True)([[1, 2.5], [3, 4.5]])
    assert same(first, array([1, 3]))
    assert same(second, array([2.5, 4.5]))


@pytest.mark.parametrize("kind", [list, np.array, mx.nd.array])
def test_pad_fills_up_to_the_longest(kind: Any) -> None:
    samples = [kind([1.0, 2.0, 3.0]), kind([4.0]), kind([5.0, 6.0])]
    dtype = np.float32 if kind is mx.nd.array else np.float64
    expected = array([[1, 2, 3], [4, -1, -1], [5, 6, -1]], dtype)
    assert same(gluon.batchify.Pad(val=-1)(samples), expected)
    rounded = gluon.batchify.Pad(round_to=4, dtype="int32")(samples)
    assert same(rounded, array([[1, 2, 3, 0], [4, 0, 0, 0], [5, 6, 0, 0]], np.int32))


def test_pad_pads_every_axis_and_refuses_tuples() -> None:
    batch = gluon.batchify.Pad()([np.ones((1, 3)), np.ones((2, 1))])
    assert batch.asnumpy().tolist() == [[[1, 1, 1], [0, 0, 0]], [[1, 0, 0], [1, 0, 0]]]
    with pytest.raises(NotImplementedError, match="Group"):
        gluon.batchify.Pad()([(1, 2)])


def test_group_applies_a_function_to_each_place() -> None:
    samples = [([1, 2, 3], "one", 7), ([4], "two", 8)]
    functions = [gluon.batchify.Pad(), gluon.batchify.AsList(), gluon.batchify.Stack()]
    for group in (gluon.batchify.Group(*functions), gluon.batchify.Group(functions)):
        padded, texts, labels = group(samples)
        assert same(padded, array([[1, 2, 3], [4, 0, 0]]))
        assert texts == ["one", "two"]
        assert same(labels, array([7, 8]))


def test_group_refuses_what_does_not_fit() -> None:
    stack = gluon.batchify.Stack()
    for wrong in (lambda: gluon.batchify.Group([stack], stack), lambda: gluon.batchify.Group(stack, 3)):
        with pytest.raises(AssertionError):
            wrong()
    with pytest.raises(AssertionError, match="3 places"):
        gluon.batchify.Group(stack, stack)([(1, 2, 3)])


def test_append_leaves_samples_apart() -> None:
    first, second = gluon.batchify.Append()([[1, 2], mx.nd.ones((3,))])
    assert same(first, array([[1, 2]], np.float32))
    assert same(second, array([[1, 1, 1]], np.float32))
    assert gluon.batchify.Append(expand=False)([[1, 2]])[0].shape == (2,)


def test_batchify_functions_work_in_processes() -> None:
    dataset = data.SimpleDataset([(list(range(1, n + 2)), f"text {n}") for n in range(4)])
    batchify = gluon.batchify.Group(gluon.batchify.Pad(), gluon.batchify.AsList())
    loader = gluon.DataLoader(dataset, 2, batchify_fn=batchify, num_workers=1)
    batches = list(loader)
    loader.close()
    assert same(batches[1], (array([[1, 2, 3, 0], [1, 2, 3, 4]]), ["text 2", "text 3"]))


# ---------------------------------------------------------------------------------------------------------------------
# Without MXNet
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stand_in", "says"),
    [("raise ImportError('none')", "not installed"), ("import numpy; numpy.no_such_name", "numpy 1.23.5")],
)
def test_without_mxnet_the_error_says_what_to_install(stand_in: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "mxnet.py").write_text(stand_in)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import asyncloader.gluon"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError")
    assert says in last
    assert "pip install 'asyncloader[mxnet]'" in last
