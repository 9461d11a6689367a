"""Pictures decode to the very pixels that mxnet 1.9.1 decodes them to."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

mx = pytest.importorskip("mxnet")
cv2 = pytest.importorskip("cv2")

import asyncloader.mx as ours  # noqa: E402
from asyncloader import gluon  # noqa: E402
from asyncloader.errors import DecodeError  # noqa: E402
from asyncloader.recordio import IRHeader, MXIndexedRecordIO, pack  # noqa: E402

pytestmark = pytest.mark.mxnet


def noise(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    """Waves with noise: every coefficient of a JPEG is in use, and every value of a pixel."""
    rows, columns = np.mgrid[0:height, 0:width]
    waves = np.stack([np.sin(rows / 7 + columns / 13), np.cos(columns / 5 - rows / 9), np.sin(rows * columns / 200)], 2)
    return np.clip(127 + 110 * waves + np.random.default_rng(seed).normal(0, 25, waves.shape), 0, 255).astype(np.uint8)


def saved(picture: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    picture.save(target, kind, **options)
    return target.getvalue()


def oriented(picture: Image.Image, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x112] = orientation
    return saved(picture, "JPEG", exif=exif)


def pictures() -> dict[str, bytes]:
    pixels = noise(61, 47)
    color = Image.fromarray(pixels)
    grey, indexed = color.convert("L"), color.convert("P")
    transparent = color.copy()
    transparent.putalpha(grey)
    deep = pixels[:, :, 0].astype(np.uint16) * 257 - np.minimum(pixels[:, :, 0], 3)
    return {
        "progressive jpeg": saved(color, "JPEG", progressive=True, quality=60),
        "grey jpeg": saved(grey, "JPEG"),
        "cmyk jpeg": saved(color.convert("CMYK"), "JPEG"),
        "turned jpeg": oriented(color, 6),
        "mirrored jpeg": oriented(color, 2),
        "png": saved(color, "PNG"),
        "grey png": saved(grey, "PNG"),
        "indexed png": saved(indexed, "PNG"),
        "indexed png with a transparent colour": saved(indexed, "PNG", transparency=3),
        "black and white png": saved(color.convert("1"), "PNG"),
        "transparent png": saved(transparent, "PNG"),
        "grey transparent png": saved(transparent.convert("LA"), "PNG"),
        "16-bit grey png": saved(Image.fromarray(deep), "PNG"),
        "bmp": saved(color, "BMP"),
        "grey bmp": saved(grey, "BMP"),
        "indexed bmp": saved(indexed, "BMP"),
        "tiff": saved(color, "TIFF"),
    }


PICTURES = pictures()
flags = pytest.mark.parametrize("flag", [0, 1])


def difference(data: bytes, **arguments: Any) -> int:
    theirs = mx.image.imdecode(data, **arguments).asnumpy()
    found = ours.image.imdecode(data, **arguments).asnumpy()
    assert (found.shape, found.dtype) == (theirs.shape, theirs.dtype)
    return int(np.abs(found.astype(int) - theirs.astype(int)).max())


@flags
@pytest.mark.parametrize("name", PICTURES)
def test_every_kind_of_picture_has_mxnets_pixels(name: str, flag: int) -> None:
    assert difference(PICTURES[name], flag=flag) == 0


@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from(["444", "422", "420", "411"]),
    st.integers(20, 100),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=60)
def test_jpegs_of_any_size_sampling_and_quality_have_mxnets_pixels(
    height: int, width: int, sampling: str, quality: int, color: bool, to_rgb: bool
) -> None:
    data = simplejpeg.encode_jpeg(
        noise(height, width, quality), quality=quality, colorspace="RGB", colorsubsampling=sampling
    )
    assert difference(data, flag=int(color), to_rgb=int(to_rgb)) == 0


@flags
def test_where_pixels_differ_it_is_by_no_more_than_the_documentation_says(flag: int) -> None:
    vertical = simplejpeg.encode_jpeg(noise(61, 47), colorspace="RGB", colorsubsampling="440")
    assert difference(vertical, flag=flag) <= (2 if flag else 0)
    deep = noise(61, 47).astype(np.uint16) * 256 + noise(61, 47, 1)
    assert difference(bytes(cv2.imencode(".png", deep)[1]), flag=flag) <= (0 if flag else 1)


def test_bytearrays_and_arrays_are_taken_and_other_things_refused_as_mxnet_does() -> None:
    data = PICTURES["png"]
    expected = mx.image.imdecode(data).asnumpy()
    for buffer in (bytearray(data), np.frombuffer(data, np.uint8)):
        np.testing.assert_array_equal(ours.image.imdecode(buffer).asnumpy(), expected)
    for decode in (mx.image.imdecode, ours.image.imdecode):
        with pytest.raises(ValueError, match="buf must"):
            decode("text")


@pytest.mark.parametrize("data", [b"", b"no picture", PICTURES["png"][:900], PICTURES["turned jpeg"][:40]])
def test_what_mxnet_refuses_is_refused(data: bytes) -> None:
    with pytest.raises(mx.MXNetError):
        mx.image.imdecode(data).asnumpy()
    with pytest.raises(DecodeError):
        ours.image.imdecode(data)


def test_a_jpeg_cut_short_is_refused_where_mxnet_makes_up_the_rest() -> None:
    data = PICTURES["grey jpeg"][:-200]
    assert mx.image.imdecode(data).asnumpy().shape == (61, 47, 3)
    with pytest.raises(DecodeError):
        ours.image.imdecode(data)


@flags
def test_the_dataset_of_image_records_gives_mxnets_samples(flag: int, tmp_path: Any) -> None:
    path = tmp_path / "all.rec"
    labels = [3.5, [1.0, 2.0, 0.1]]
    with MXIndexedRecordIO(path.with_suffix(".idx"), path, "w") as writer:
        for number, picture in enumerate(PICTURES.values()):
            writer.write_idx(number, pack(IRHeader(0, labels[number % 2], number, 0), picture))
    theirs = mx.gluon.data.vision.ImageRecordDataset(str(path), flag)
    dataset = gluon.vision.ImageRecordDataset(path, flag)
    assert len(dataset) == len(theirs) == len(PICTURES)
    for position in [*range(len(PICTURES)), -1]:
        (image, label), (expected, expected_label) = dataset[position], theirs[position]
        np.testing.assert_array_equal(image.asnumpy(), expected.asnumpy())
        assert type(image) is type(expected)
        assert type(label) is type(expected_label)
        np.testing.assert_array_equal(label, expected_label)
    both = [
        kind(str(path), flag, lambda image, label: (label, image.shape))[1]
        for kind in (gluon.vision.ImageRecordDataset, mx.gluon.data.vision.ImageRecordDataset)
    ]
    assert both[0][1] == both[1][1]
