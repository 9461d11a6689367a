"""asyncloader.mx: what face-recognition code takes from MXNet, without MXNet."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import asyncloader.mx as mx
from asyncloader import recordio
from asyncloader.errors import DecodeError
from tests.conftest import ImageRecords


def test_recordio_is_the_packages_own() -> None:
    assert mx.recordio is recordio


def test_importing_it_imports_no_framework() -> None:
    code = "import sys, asyncloader.mx; sys.exit(any(m in sys.modules for m in ('mxnet', 'torch', 'jax', 'cv2')))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def test_a_picture_is_an_array_that_has_asnumpy(image_records: ImageRecords) -> None:
    image = mx.image.imdecode(image_records.jpegs[3])
    plain = image.asnumpy()
    assert type(plain) is np.ndarray
    np.testing.assert_array_equal(plain, image_records.pixels(3))
    assert (image.shape, image.dtype) == ((40, 48, 3), np.uint8)
    plain[:] = 0  # MXNet's can be written to, and pictures are augmented in place
    assert type(image[2:5].asnumpy()) is np.ndarray


def test_channels_come_in_either_order_or_as_grey(image_records: ImageRecords) -> None:
    jpeg = image_records.jpegs[3]
    np.testing.assert_array_equal(mx.image.imdecode(jpeg, to_rgb=0), image_records.pixels(3)[:, :, ::-1])
    assert mx.image.imdecode(jpeg, to_rgb=False).flags.c_contiguous
    assert mx.image.imdecode(jpeg, flag=0).shape == (40, 48, 1)
    assert mx.image.imdecode(jpeg, 0, 0).shape == (40, 48, 1)


def test_any_buffer_of_bytes_is_taken(image_records: ImageRecords) -> None:
    jpeg = image_records.jpegs[0]
    buffers: list[Any] = [bytearray(jpeg), memoryview(jpeg), np.frombuffer(jpeg, np.uint8)]
    for buffer in buffers:
        np.testing.assert_array_equal(mx.image.imdecode(buffer), image_records.pixels(0))


@pytest.mark.parametrize("wrong", ["text", None, np.zeros(4)])
def test_what_is_no_buffer_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="buf must"):
        mx.image.imdecode(wrong)


@pytest.mark.parametrize("flag", [-1, 2, None])
def test_an_unknown_flag_is_refused(flag: Any, image_records: ImageRecords) -> None:
    with pytest.raises(ValueError, match="flag must"):
        mx.image.imdecode(image_records.jpegs[0], flag)


@pytest.mark.parametrize("data", [b"", b"no picture", b"\xff\xd8\xff\xe0 broken"])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        mx.image.imdecode(data)
