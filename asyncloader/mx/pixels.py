"""Pictures decoded to the very pixels that mxnet 1.9.1 gives, which decodes with OpenCV 3.4.2."""

from __future__ import annotations

from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from asyncloader.decoders import Buffer, ImageDecoder
from asyncloader.errors import DecodeError

__all__ = ["decode_pixels"]

_decoders = {True: ImageDecoder("rgb"), False: ImageDecoder("gray")}
_decode_unchanged = ImageDecoder("unchanged")

_JPEG_MAGIC = b"\xff\xd8\xff"
_PNG_MAGIC = b"\x89PNG"

#: Weights of red, green and blue in grey, as integers, with the bits to shift by and what is added to round: libpng is
#: given 0.299 and 0.587 and cuts off; OpenCV's own conversion rounds.
_PNG_GREY = ((9797, 19234, 3737), 15, 0)
_OPENCV_GREY = ((4899, 9617, 1868), 14, 1 << 13)


def decode_pixels(data: Buffer, *, color: bool, rgb: bool = True) -> NDArray[np.uint8]:
    """Decode a picture as ``mxnet.image.imdecode`` does.

    Parameters
    ----------
    data : bytes-like
        The picture.
    color : bool
        Colour or grey.
    rgb : bool
        RGB or BGR.

    Returns
    -------
    ndarray
        Shape (height, width, 3 or 1). Transparency is dropped, 16-bit samples keep their upper byte, and a JPEG's
        orientation is not applied.

    Raises
    ------
    DecodeError
        The bytes are no picture, or are damaged.

    Notes
    -----
    Where the pixels differ: JPEGs with 4:4:0 sampling (half the rows of colour, all the columns), in every second row
    and by 2 at most, since the libjpeg-turbo 2.0.2 in MXNet rounds the colours between two rows in another way than
    those since 2.1; and 16-bit colour PNGs as grey, by 1 at most, since Pillow reads their upper bytes alone.
    """
    pixels = _decode(data, color)
    return pixels if rgb or not color else np.ascontiguousarray(pixels[:, :, ::-1])


def _decode(data: Buffer, color: bool) -> NDArray[np.uint8]:
    if data[:3] != _JPEG_MAGIC:
        return _converted(_decode_unchanged(data), data, color)
    try:
        space = simplejpeg.decode_jpeg_header(data)[2]
    except ValueError:
        space = ""  # the decoder says what is wrong
    return _inks(data, color) if space in ("CMYK", "YCCK") else _decoders[color](data)


def _converted(image: NDArray[Any], data: Buffer, color: bool) -> NDArray[np.uint8]:
    """Make colour or grey, 8 bits a sample, of an image as its file has it."""
    if image.dtype == np.uint16:
        image = (image >> 8).astype(np.uint8)
    elif image.dtype != np.uint8:
        return _decoders[color](data)
    if image.shape[2] in (2, 4):
        image = image[:, :, :-1]
    if image.shape[2] == 1:
        return np.repeat(image, 3, axis=2) if color else np.ascontiguousarray(image)
    return (
        np.ascontiguousarray(image) if color else _grey(image, *(_PNG_GREY if data[:4] == _PNG_MAGIC else _OPENCV_GREY))
    )


def _grey(image: NDArray[Any], weights: tuple[int, int, int], shift: int, rounding: int) -> NDArray[np.uint8]:
    total = image.astype(np.uint32) @ np.array(weights, np.uint32)
    return ((total + rounding) >> shift).astype(np.uint8)[:, :, np.newaxis]


def _inks(data: Buffer, color: bool) -> NDArray[np.uint8]:
    """Decode a JPEG in cyan, magenta, yellow and black."""
    try:
        inks = simplejpeg.decode_jpeg(data, "CMYK").astype(np.int32)
    except ValueError as error:
        raise DecodeError(f"the JPEG is damaged ({error})") from error
    black = inks[:, :, 3:]
    image = black - ((255 - inks[:, :, :3]) * black >> 8)
    return image.astype(np.uint8) if color else _grey(image, *_OPENCV_GREY)
