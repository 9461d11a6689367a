"""Identities that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg

import asyncloader as al
from asyncloader import recordio
from asyncloader.errors import DecodeError, LoaderWarning

COUNT, BAD = 64, 21


def write(folder: Path, identity: float) -> Path:
    """A set without a header record: so many people, and one record whose identity is spoiled."""
    pixels = np.zeros((112, 112, 3), np.uint8)
    with recordio.RecordWriter(folder / "train.rec", folder / "train.idx") as writer:
        for number in range(COUNT):
            label = identity if number == BAD else float(number)
            header = recordio.IRHeader(0, label, number, 0)
            writer.write(recordio.pack(header, simplejpeg.encode_jpeg(pixels + np.uint8(number))))
    return folder


@pytest.mark.parametrize("identity", [float("nan"), float("inf"), -float("inf"), 1.5, 1e30])
@pytest.mark.parametrize(
    "workers", [{"num_workers": 0}, {"num_workers": 2}, {"workers": "processes", "num_workers": 1}]
)
def test_an_identity_that_is_no_whole_number_costs_its_record_alone(
    identity: float, workers: dict[str, Any], tmp_path: Path
) -> None:
    faces = al.FaceRecordDataset(write(tmp_path, identity))
    with pytest.raises(DecodeError, match=f"position {BAD}, key {BAD}, byte offset .* identity is ") as caught:
        list(al.DataLoader(faces, 16, **workers))
    assert caught.value.position == BAD
    loader = al.DataLoader(faces, 16, on_error="skip", **workers)
    with loader, pytest.warns(LoaderWarning, match=f"position {BAD}"):
        batches = list(loader)
    identities = np.concatenate([labels for _, labels in batches])
    assert identities.tolist() == [number for number in range(COUNT) if number != BAD]
    assert identities.dtype == np.int64
    with pytest.raises(DecodeError, match=f"position {BAD}, .* whole number was expected"):
        assert faces.num_classes


def test_identities_below_zero_and_of_many_digits_are_kept(tmp_path: Path) -> None:
    for identity in (-1.0, 2.0**40):
        faces = al.FaceRecordDataset(write(tmp_path, identity))
        batches = list(al.DataLoader(faces, 16))
        assert np.concatenate([labels for _, labels in batches])[BAD] == int(identity)
        faces.close()
