"""Samples to batches."""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncloader as al
from asyncloader.collate import Columns

Point = namedtuple("Point", "image label")


def test_the_structure_of_a_sample_is_that_of_the_batch() -> None:
    samples = [Point({"a": np.full((2, 3), k), "b": [k, "text"]}, (k, float(k))) for k in range(4)]
    batch = al.stack(samples)
    assert type(batch) is Point
    assert (batch.image["a"] == np.stack([sample.image["a"] for sample in samples])).all()
    assert batch.image["b"][0].tolist() == [0, 1, 2, 3]
    assert batch.image["b"][1] == ["text"] * 4
    assert batch.label[0].dtype == np.int64
    assert batch.label[1].dtype == np.float64


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        ([True, False], np.bool_),
        ([1, 2], np.int64),
        ([1, 2.5], np.float64),
        ([np.float32(1), np.float32(2)], np.float32),
        ([np.uint8(1), np.uint8(2)], np.uint8),
        ([1j, 2], np.complex128),
    ],
)
def test_numbers_become_vectors_of_their_own_type(column: list[Any], dtype: Any) -> None:
    batch = al.stack(column)
    assert batch.dtype == dtype
    assert batch.tolist() == column


@pytest.mark.parametrize("column", [["a", "b"], [b"a", b"bc"], [None, 1], [2**70, 1], [object, int], [{1}, {2}]])
def test_everything_else_stays_a_list(column: list[Any]) -> None:
    assert al.stack(column) == column


def test_ragged_arrays_stay_a_list_or_are_padded() -> None:
    arrays = [np.ones((k, 4 - k), np.int16) for k in range(1, 4)]
    ragged = al.stack(arrays)
    assert isinstance(ragged, list)
    padded = functools.partial(al.pad, value=-1)(arrays)
    assert padded.shape == (3, 3, 3)
    assert padded.dtype == np.int16
    for row, array in zip(padded, arrays, strict=True):
        assert (row[: array.shape[0], : array.shape[1]] == 1).all()
        assert (row == -1).sum() == row.size - array.size


@given(st.lists(st.lists(st.integers(-9, 9), max_size=6), min_size=1, max_size=8))
def test_padding_loses_nothing(rows: list[list[int]]) -> None:
    padded = al.pad([np.array(row, np.int32) for row in rows])
    assert padded.shape == (len(rows), max(map(len, rows)))
    for got, row in zip(padded, rows, strict=True):
        assert got[: len(row)].tolist() == row
        assert (got[len(row) :] == 0).all()


def test_group_leaves_every_column_a_list() -> None:
    assert al.group([(1, "a"), (2, "b")]) == ([1, 2], ["a", "b"])


def test_arrays_of_several_types_get_one_that_holds_them_all() -> None:
    assert al.stack([np.ones(2, np.uint8), np.ones(2, np.float32)]).dtype == np.float32


def test_batches_do_not_share_memory_with_the_samples() -> None:
    samples = [np.zeros(3), np.zeros(3)]
    batch = al.stack(samples)
    batch += 1
    assert samples[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("collate", [al.stack, al.pad, al.group])
def test_samples_kept_as_columns_give_the_batch_that_the_samples_give(collate: Any) -> None:
    images, labels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.array([3, 1], np.int64)
    columns = Columns((list(images), labels))
    assert len(columns) == 2
    assert all(map(np.array_equal, columns[1], (images[1], labels[1])))
    given, expected = collate(columns), collate(list(zip(images, labels, strict=True)))
    assert type(given) is type(expected) is tuple
    for column, other in zip(given, expected, strict=True):
        assert type(column) is type(other)
        assert getattr(column, "dtype", None) == getattr(other, "dtype", None)
        np.testing.assert_array_equal(column, other)
