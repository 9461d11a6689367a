"""Pictures to arrays, beside what Pillow and the JPEG codec give by themselves."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import asyncloader as al
from asyncloader.errors import DecodeError


def noise(*shape: int, dtype: Any = np.uint8) -> NDArray[Any]:
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max, shape, dtype)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def opened(data: bytes, mode: str) -> NDArray[Any]:
    return np.asarray(Image.open(io.BytesIO(data)).convert(mode))


@pytest.mark.parametrize("sampling", ["444", "422", "420", "411", "440"])
@pytest.mark.parametrize("size", [(1, 1), (17, 31), (112, 112)])
def test_a_jpeg_is_what_its_codec_gives(sampling: str, size: tuple[int, int]) -> None:
    data = simplejpeg.encode_jpeg(noise(*size, 3), quality=92, colorsubsampling=sampling)
    assert (al.decode_image(data) == simplejpeg.decode_jpeg(data, "RGB")).all()
    assert (al.decode_image(data, "gray") == simplejpeg.decode_jpeg(data, "GRAY")).all()
    assert al.decode_image(data, "unchanged").shape == (*size, 3)


def test_a_grey_jpeg_has_the_channels_asked_for() -> None:
    data = simplejpeg.encode_jpeg(noise(20, 30, 1), colorspace="GRAY")
    assert [al.decode_image(data, color).shape[2] for color in ("rgb", "gray", "unchanged")] == [3, 1, 1]


def test_a_progressive_and_a_cmyk_jpeg() -> None:
    progressive = saved(Image.fromarray(noise(40, 50, 3)), "JPEG", progressive=True)
    assert (al.decode_image(progressive) == simplejpeg.decode_jpeg(progressive, "RGB")).all()
    cmyk = saved(Image.fromarray(noise(40, 50, 4), "CMYK"), "JPEG")
    assert (al.decode_image(cmyk) == opened(cmyk, "RGB")).all()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP", "GIF"])
def test_other_formats_are_what_pillow_gives(kind: str) -> None:
    data = saved(Image.fromarray(noise(21, 33, 3)), kind)
    assert (al.decode_image(data) == opened(data, "RGB")).all()
    assert (al.decode_image(data, "gray")[..., 0] == opened(data, "L")).all()


def test_unchanged_keeps_transparency_and_depth() -> None:
    rgba = noise(9, 8, 4)
    assert (al.decode_image(saved(Image.fromarray(rgba), "PNG"), "unchanged") == rgba).all()
    deep = noise(9, 8, dtype=np.uint16)
    decoded = al.decode_image(saved(Image.fromarray(deep), "PNG"), "unchanged")
    assert decoded.dtype == np.uint16
    assert (decoded[..., 0] == deep).all()
    bits = Image.fromarray(noise(9, 8) > 100)
    assert set(np.unique(al.decode_image(saved(bits, "PNG"), "unchanged"))) == {0, 255}


@given(st.binary(max_size=200))
def test_what_is_no_picture_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        al.decode_image(b"\xff\xd8\xff" + data)
    with pytest.raises(DecodeError):
        al.decode_image(b"\x89PNG\r\n\x1a\n" + data)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_picture_cut_anywhere_is_a_decode_error(kind: str) -> None:
    data = saved(Image.fromarray(noise(30, 30, 3)), kind)
    for keep in range(0, len(data) - 12, 97):
        with pytest.raises(DecodeError):
            al.decode_image(data[:keep])


def test_an_unknown_color_is_refused() -> None:
    with pytest.raises(ValueError, match="'rgb', 'gray' or 'unchanged'"):
        al.decode_image(b"", "bgr")  # type: ignore[arg-type]
