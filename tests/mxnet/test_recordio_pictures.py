"""pack_img and unpack_img beside mxnet's, which have OpenCV do it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from asyncloader import recordio
from asyncloader.errors import DecodeError

mxnet = pytest.importorskip("mxnet")
cv2 = pytest.importorskip("cv2")
theirs = mxnet.recordio

pytestmark = pytest.mark.mxnet

HEADER = recordio.IRHeader(0, 3.0, 7, 0)
FLAGS = [-1, 0, 1, 128, 129]


def _picture(height: int, width: int, channels: int, seed: int = 0) -> np.ndarray:
    """A gradient with noise: height x width x channels, or height x width for no channels."""
    rows, columns = np.mgrid[0:height, 0:width]
    planes = [rows * 3 + columns * (1 + channel) for channel in range(max(channels, 1))]
    noise = np.random.default_rng(seed).integers(0, 40, (height, width, len(planes)))
    picture = (np.stack(planes, axis=2) + noise).astype(np.uint8)
    return picture if channels else picture[:, :, 0]


def _saved(image: Image.Image, name: str, **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, name, **options)
    return target.getvalue()


def _assert_equal(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([0, 1, 3, 4]),
    st.integers(0, 100),
    st.sampled_from([".jpg", ".JPEG", ".jpe"]),
)
def test_jpegs_are_packed_to_the_same_bytes(height, width, channels, quality, img_fmt):
    picture = _picture(height, width, channels)
    assert recordio.pack_img(HEADER, picture, quality, img_fmt) == theirs.pack_img(HEADER, picture, quality, img_fmt)


def test_the_defaults_are_the_same():
    picture = _picture(30, 20, 3)
    assert recordio.pack_img(HEADER, picture) == theirs.pack_img(HEADER, picture)
    _, got = recordio.unpack_img(recordio.pack_img(HEADER, picture))
    _assert_equal(got, theirs.unpack_img(theirs.pack_img(HEADER, picture))[1])


@pytest.mark.parametrize(
    ("img_fmt", "channels"),
    # OpenCV multiplies a TIFF's colours by its opacity when it reads one, but not its own.
    [
        (name, count)
        for name in (".png", ".bmp", ".webp", ".tiff")
        for count in (0, 1, 3, 4)
        if (name, count) != (".tiff", 4)
    ],
)
@pytest.mark.parametrize("quality", [0, 9, 95])
def test_other_formats_are_packed_to_the_same_pixels(img_fmt, channels, quality):
    picture = _picture(21, 17, channels)
    ours = recordio.pack_img(HEADER, picture, quality, img_fmt)
    _assert_equal(theirs.unpack_img(ours)[1], theirs.unpack_img(theirs.pack_img(HEADER, picture, quality, img_fmt))[1])


def test_16_bit_grey_is_packed_to_the_same_pixels():
    picture = np.random.default_rng(0).integers(0, 65536, (9, 11), dtype=np.uint16)
    packed = recordio.pack_img(HEADER, picture, 3, ".png")
    _assert_equal(theirs.unpack_img(packed)[1], picture)
    _assert_equal(recordio.unpack_img(packed)[1], picture)


def test_arrays_that_are_not_bytes_or_not_contiguous_are_packed_the_same():
    picture = _picture(30, 40, 3)
    for other in (
        picture[::2, ::-1],
        picture[:, :, ::-1],
        picture.astype(np.float32) * 1.3 - 20,
        picture.astype(np.int16) * 2,
    ):
        assert recordio.pack_img(HEADER, other) == theirs.pack_img(HEADER, np.ascontiguousarray(other))


RGB = Image.fromarray(_picture(20, 30, 3))
ROTATED = Image.Exif()
ROTATED[0x0112] = 6
FILES = {
    "jpeg": _saved(RGB, "JPEG"),
    "jpeg 4:4:4 progressive": _saved(RGB, "JPEG", subsampling=0, progressive=True),
    "jpeg 4:2:2": _saved(RGB, "JPEG", subsampling=1),
    "jpeg grey": _saved(RGB.convert("L"), "JPEG"),
    "jpeg cmyk": _saved(RGB.convert("CMYK"), "JPEG"),
    "jpeg turned": _saved(RGB, "JPEG", exif=ROTATED),
    "png": _saved(RGB, "PNG"),
    "png turned": _saved(RGB, "PNG", exif=ROTATED),
    "png palette": _saved(RGB.convert("P"), "PNG"),
    "png palette transparent": _saved(RGB.convert("P"), "PNG", transparency=3),
    "png 1 bit": _saved(RGB.convert("1"), "PNG"),
    "png grey": _saved(RGB.convert("L"), "PNG"),
    "png grey transparent": _saved(RGB.convert("LA"), "PNG"),
    "png transparent": _saved(Image.fromarray(_picture(20, 30, 4)), "PNG"),
    "png 16 bit": _saved(Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30) * 109), "PNG"),
    "bmp": _saved(RGB, "BMP"),
    "webp": _saved(RGB, "WEBP"),
    "tiff": _saved(RGB, "TIFF"),
}


@pytest.mark.parametrize("iscolor", FLAGS)
@pytest.mark.parametrize("name", FILES)
def test_pictures_are_unpacked_to_the_same_pixels(name, iscolor):
    record = recordio.pack(HEADER, FILES[name])
    header, got = recordio.unpack_img(record, iscolor)
    _assert_equal(got, theirs.unpack_img(record, iscolor)[1])
    assert header == HEADER


@pytest.mark.parametrize("data", [b"", b"no picture", FILES["jpeg"][:100], FILES["png"][:60]])
def test_where_opencv_gives_nothing_there_is_an_error(data):
    with pytest.raises(DecodeError):
        recordio.unpack_img(recordio.pack(HEADER, data))


def test_16_bits_of_colour_are_refused_rather_than_halved():
    picture = np.random.default_rng(0).integers(0, 65536, (9, 11, 3), dtype=np.uint16)
    record = theirs.pack_img(HEADER, picture, 3, ".png")
    with pytest.raises(DecodeError, match="16 bits"):
        recordio.unpack_img(record)
    _assert_equal(recordio.unpack_img(record, 1)[1], theirs.unpack_img(record, 1)[1])


def test_what_is_no_picture_is_refused():
    for shape in [(5,), (5, 5, 2), (0, 5, 3), (5, 5, 5)]:
        with pytest.raises(ValueError, match="has the shape"):
            recordio.pack_img(HEADER, np.zeros(shape, np.uint8))
    with pytest.raises(ValueError, match="xyz"):
        recordio.pack_img(HEADER, _picture(5, 5, 3), 95, ".xyz")
    with pytest.raises(ValueError, match="iscolor"):
        recordio.unpack_img(recordio.pack(HEADER, FILES["png"]), 2)
