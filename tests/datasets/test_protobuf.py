"""SageMaker's records: what its schema says is what is read, and nothing that is wrong is read as if it were right."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import asyncloader as al
from asyncloader.errors import AsyncLoaderError, DecodeError

pytest.importorskip("google.protobuf")
sparse = pytest.importorskip("scipy.sparse")

from asyncloader.datasets.protobuf import ProtobufRecordDataset, parse_record, stack_sparse  # noqa: E402
from asyncloader.recordio import RecordWriter  # noqa: E402

# ---------------------------------------------------------------------------------------------------------------------
# The wire format, written out here by its own description, so that no fault of a library can hide
# ---------------------------------------------------------------------------------------------------------------------

KINDS = {np.float32: (2, "f"), np.float64: (3, "d"), np.int32: (7, None)}


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def packed(numbers: Any) -> bytes:
    return b"".join(varint(int(number) % 2**64) for number in numbers)


def tensor(values: Any, dtype: Any = np.float32, keys: Any = (), shape: Any = (), *, unpacked: bool = False) -> bytes:
    number, letter = KINDS[dtype]
    if letter is None:
        content = field(1, packed(values))
    elif unpacked:
        content = b"".join(varint(1 << 3 | 5) + struct.pack("<f", value) for value in values)
    else:
        content = field(1, struct.pack(f"<{len(values)}{letter}", *values))
    if len(keys):
        content += field(2, packed(keys))
    if len(shape):
        content += field(3, packed(shape))
    return field(number, content)


def entries(number: int, values: Mapping[str, bytes]) -> bytes:
    return b"".join(field(number, field(1, name.encode()) + field(2, value)) for name, value in values.items())


def record(features: Mapping[str, bytes], label: Mapping[str, bytes] | None = None) -> bytes:
    return entries(1, features) + entries(2, label or {}) + field(3, b"a uid")


def only(features: bytes) -> Any:
    return parse_record(record({"values": features}))[0]


# ---------------------------------------------------------------------------------------------------------------------
# Tensors
# ---------------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(width=32), max_size=40),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40),
)
def test_dense_tensors_keep_their_values_and_dtype(floats: list[float], integers: list[int]) -> None:
    cases: list[tuple[Any, list[Any]]] = [(np.float32, floats), (np.float64, floats), (np.int32, integers)]
    for dtype, values in cases:
        array = only(tensor(values, dtype))
        assert array.dtype == dtype
        np.testing.assert_array_equal(array, np.array(values, dtype))


def test_values_that_are_not_packed_are_read_too() -> None:
    np.testing.assert_array_equal(only(tensor([1.5, -2.0], unpacked=True)), np.float32([1.5, -2.0]))


def test_a_shape_makes_a_matrix() -> None:
    np.testing.assert_array_equal(only(tensor(range(6), np.int32, shape=[2, 3])), np.arange(6).reshape(2, 3))


@given(
    st.dictionaries(st.integers(0, 29), st.floats(-1e6, 1e6, width=32), max_size=30), st.sampled_from([(30,), (5, 6)])
)
def test_sparse_tensors_are_the_dense_ones(cells: dict[int, float], shape: tuple[int, ...]) -> None:
    found = only(tensor(list(cells.values()), keys=list(cells), shape=shape))
    dense = np.zeros(30, np.float32)
    dense[list(cells)] = list(cells.values())
    assert sparse.issparse(found)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), dense.reshape(shape if len(shape) == 2 else (1, 30)))


def test_names_bytes_and_labels_come_as_they_are() -> None:
    raw = field(9, field(1, b"\xff\xd8picture") + field(2, b"image/jpeg"))
    two = field(9, field(1, b"a") + field(1, b"b"))
    features, labels = parse_record(record({"image": raw, "texts": two}, {"values": tensor([3], np.int32)}))
    assert features == {"image": b"\xff\xd8picture", "texts": [b"a", b"b"]}
    np.testing.assert_array_equal(labels, [3])
    assert parse_record(record({"values": tensor([1])}))[1] is None


# ---------------------------------------------------------------------------------------------------------------------
# Bad input
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (tensor([1, 2, 3], shape=[2, 2]), "do not make up its shape"),
        (tensor([1, 2], keys=[0], shape=[4]), "1 keys for 2 values"),
        (tensor([1], keys=[4], shape=[4]), "past the end"),
        (tensor([1], keys=[2**63], shape=[2**62, 2**62]), "no array can have"),
        (tensor([1, 2], keys=[3, 3], shape=[4]), "more than once"),
        (tensor([1], keys=[3]), "0 dimensions"),
        (tensor([1], keys=[3], shape=[2, 2, 2]), "3 dimensions"),
        (tensor([], shape=[0, 2**63]), "no array can have"),
        (b"", "no value of a kind that is known"),
        (field(4, b""), "no value of a kind that is known"),
    ],
)
def test_tensors_that_cannot_be_are_errors_that_say_why(value: bytes, says: str) -> None:
    with pytest.raises(DecodeError, match=says):
        parse_record(record({"values": value}))


def test_a_matrix_that_claims_many_rows_takes_no_memory_for_them() -> None:
    assert only(tensor([1], keys=[5], shape=[2**40, 4])).shape == (2**40, 4)


@pytest.mark.parametrize(
    "payload", [b"", b"\x00", b"not a message", struct.pack("<IfQQ", 0, 1, 2, 3) + b"\xff\xd8\xff"]
)
def test_other_payloads_are_refused(payload: bytes) -> None:
    with pytest.raises(DecodeError, match="RecordDataset"):
        parse_record(payload)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_record_or_our_error(payload: bytes) -> None:
    for data in (payload, entries(1, {"values": payload}), record({"values": field(2, payload)})):
        try:
            parse_record(data)
        except AsyncLoaderError:
            continue


@given(st.integers(0, 60), st.integers(0, 255))
def test_a_changed_byte_gives_a_record_or_our_error(place: int, value: int) -> None:
    data = bytearray(record({"values": tensor([1, 2], keys=[0, 7], shape=[3, 4])}, {"values": tensor([1])}))
    data[place % len(data)] = value
    try:
        parse_record(bytes(data))
    except AsyncLoaderError:
        return


# ---------------------------------------------------------------------------------------------------------------------
# The dataset
# ---------------------------------------------------------------------------------------------------------------------


def write(path: Path, payloads: list[bytes]) -> Path:
    with RecordWriter(path) as writer:  # SageMaker writes no index
        for payload in payloads:
            writer.write(payload)
    return path


def rows(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(count, 5)).astype(np.float32)


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_batches_are_the_rows_that_were_written(workers: Literal["threads", "processes"], tmp_path: Path) -> None:
    expected = rows(20)
    payloads = [
        record({"values": tensor(row.tolist())}, {"values": tensor([number], np.int32)})
        for number, row in enumerate(expected)
    ]
    dataset = ProtobufRecordDataset(write(tmp_path / "a.rec", payloads))
    with al.DataLoader(dataset, batch_size=8, workers=workers, num_workers=2) as loader:
        batches = list(loader)
    np.testing.assert_array_equal(np.concatenate([features for features, _ in batches]), expected)
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in batches])[:, 0], np.arange(20))


def test_sparse_rows_are_stacked_to_one_sparse_array(tmp_path: Path) -> None:
    dense = np.where(rows(9) > 0, rows(9), 0)
    payloads = [
        record(
            {"values": tensor(row[row != 0].tolist(), keys=np.flatnonzero(row).tolist(), shape=[5])},
            {"values": tensor([1])},
        )
        for row in dense
    ]
    dataset = ProtobufRecordDataset(write(tmp_path / "a.rec", payloads))
    with al.DataLoader(dataset, batch_size=9, collate_fn=stack_sparse, num_workers=0) as loader:
        [(features, labels)] = loader
    assert features.format == "csr"
    np.testing.assert_array_equal(features.toarray(), dense)
    np.testing.assert_array_equal(labels, np.ones((9, 1)))


def test_a_transform_is_given_features_and_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", [record({"values": tensor([1, 2])}, {"values": tensor([7])})])
    features, labels = ProtobufRecordDataset(path, transform=lambda features: features * 2)[0]
    np.testing.assert_array_equal(features, [2, 4])
    np.testing.assert_array_equal(labels, [7])
    assert ProtobufRecordDataset(path, transform=lambda features, labels: labels[0])[0] == 7


def test_an_error_names_the_record_and_costs_no_other(tmp_path: Path) -> None:
    good = record({"values": tensor([1])})
    path = write(tmp_path / "a.rec", [good, b"garbage!", good])
    dataset = ProtobufRecordDataset(path)
    with pytest.raises(DecodeError, match="position 1") as caught:
        dataset[1]
    assert (caught.value.path, caught.value.position, caught.value.offset) == (str(path), 1, dataset.locate(1).offset)
    with al.DataLoader(dataset, batch_size=3, on_error="skip", num_workers=0) as loader:
        with pytest.warns(al.errors.LoaderWarning):
            [(features, _)] = loader
        assert features.shape == (2, 1)


def test_image_records_are_not_taken_for_it_and_it_not_for_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", [record({"values": tensor(range(100))})])
    with pytest.raises(DecodeError, match="ProtobufRecordDataset"):
        al.ImageRecordDataset(path)[0]
