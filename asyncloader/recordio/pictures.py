"""Pictures in image records as mxnet's ``pack_img`` and ``unpack_img`` have them: OpenCV's conventions, without OpenCV.

Channels are in the order blue, green, red; grey pictures have two dimensions; JPEGs are written with OpenCV's settings
(the accurate transform, chroma halved both ways), and read with the accurate transform and smooth upsampling.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asyncloader.errors import DecodeError
from asyncloader.recordio.header import HeaderLike, IRHeader, pack, unpack

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Pixels", "pack_img", "unpack_img"]

Pixels = NDArray[np.uint8] | NDArray[np.uint16]

UNCHANGED, GRAY, COLOR = -1, 0, 1
#: Added to a flag: the orientation that a camera noted is not applied.
IGNORE_ORIENTATION = 128

_JPEG_MAGIC = b"\xff\xd8\xff"
_JPEG_QUALITY = 95
_HALVED = 2  # Pillow's name for chroma halved both ways, 4:2:0
_PNG_LEVEL = 9
#: Bits a sample, as a PNG's header has them at byte 24; the kind of its pixels follows.
_DEEP = 16
#: The shares of red, green and blue in grey, in 1/32768, and what is added before the division: OpenCV's own numbers,
#: and those that libpng, to which OpenCV leaves it, makes of the same fractions.
_SHARES, _HALF = (9798, 19234, 3736), 16384
_PNG_SHARES = (9797, 19234, 3737)


def pack_img(header: HeaderLike, img: NDArray[np.generic], quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Encode a picture, and put a header before it.

    Parameters
    ----------
    header : IRHeader
        As :func:`pack` takes it.
    img : ndarray
        Shape (height, width) for grey, or (height, width, 3 or 4) with the channels blue, green, red and opacity. What
        the format has no room for is rounded and clipped to uint8.
    quality : int
        Of a JPEG, 0 to 100; of a PNG, the effort to compress it, 0 to 9. Larger numbers mean the largest.
    img_fmt : str
        The format by its file name extension: ``.jpg``, ``.png``, or another that Pillow writes (``.bmp``, or
        ``.webp`` without loss).

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        The array's shape is not a picture's, or the format cannot be written.

    Notes
    -----
    JPEGs come out byte for byte as OpenCV's; other formats hold the same pixels in other bytes.
    """
    return pack(header, _encode(np.asarray(img), quality, img_fmt.lower()))


def unpack_img(s: bytes, iscolor: int = UNCHANGED) -> tuple[IRHeader, Pixels]:
    """Take the header off a record, and decode the picture behind it.

    Parameters
    ----------
    s : bytes-like
        The record.
    iscolor : {-1, 0, 1}
        -1 keeps the channels and depth that the file has, 0 gives grey, 1 colour; 128 may be added to 0 and 1, and the
        orientation that a camera noted is not applied then.

    Returns
    -------
    header : IRHeader
        As :func:`unpack` gives it.
    img : ndarray of uint8, or of uint16 for 16-bit files that are kept as they are
        Shape (height, width), or (height, width, 3 or 4) with the channels blue, green, red and opacity.

    Raises
    ------
    DecodeError
        The bytes are no picture, or a damaged one. (OpenCV gives None, or fills what is missing with grey.)
    ValueError
        ``iscolor`` is none of the above; or as from :func:`unpack`.
    """
    oriented = iscolor != UNCHANGED and not iscolor & IGNORE_ORIENTATION
    mode = iscolor if iscolor == UNCHANGED else iscolor & ~IGNORE_ORIENTATION
    if mode not in (UNCHANGED, GRAY, COLOR):
        raise ValueError(f"iscolor must be -1 (as it is), 0 (grey) or 1 (colour), with or without 128, not {iscolor}")
    header, data = unpack(s)
    if len(data) == 0:
        raise DecodeError("the picture is empty (0 bytes)")
    return header, _decode(data, mode, oriented)


def _encode(img: NDArray[np.generic], quality: int, img_fmt: str) -> bytes:
    if img.ndim == 3 and img.shape[2] == 1:
        img = img[:, :, 0]
    if not (img.ndim == 2 or (img.ndim == 3 and img.shape[2] in (3, 4))) or img.size == 0:
        raise ValueError(f"a picture has the shape (height, width) or (height, width, 3 or 4), not {img.shape}")
    if img_fmt == ".png" and img.dtype == np.uint16 and img.ndim == 2:
        return _save(img, "I;16", img_fmt, compress_level=min(max(quality, 0), _PNG_LEVEL))
    pixels = _as_bytes(img)
    options: dict[str, int] = {}
    if img_fmt in (".jpg", ".jpeg", ".jpe"):
        pixels = pixels[:, :, :3] if pixels.ndim == 3 else pixels
        options["quality"] = min(max(quality, 0), 100) if img_fmt != ".jpe" else _JPEG_QUALITY
        if pixels.ndim == 3:
            options["subsampling"] = _HALVED
    elif img_fmt == ".png":
        options["compress_level"] = min(max(quality, 0), _PNG_LEVEL)
    elif img_fmt == ".webp":
        options["lossless"] = True
    if pixels.ndim == 2:
        return _save(pixels, "L", img_fmt, **options)
    channels = pixels.shape[2]
    return _save(pixels[:, :, [2, 1, 0, 3][:channels]], "RGB" if channels == 3 else "RGBA", img_fmt, **options)


def _as_bytes(img: NDArray[np.generic]) -> NDArray[np.uint8]:
    if img.dtype == np.uint8:
        return np.ascontiguousarray(img, np.uint8)
    return np.clip(np.rint(img.astype(np.float64)), 0, 255).astype(np.uint8)


def _save(pixels: NDArray[np.generic], mode: str, img_fmt: str, **options: int) -> bytes:
    from PIL import Image

    name = Image.registered_extensions().get(img_fmt)
    if name is None or name not in Image.SAVE:
        raise ValueError(f"no picture can be written as {img_fmt!r}: give an extension such as '.jpg' or '.png'")
    target = io.BytesIO()
    raw = np.ascontiguousarray(pixels, "<u2" if mode == "I;16" else np.uint8)
    image = Image.frombytes(mode, (pixels.shape[1], pixels.shape[0]), raw.tobytes())
    image.save(target, format=name, **options)
    return target.getvalue()


def _decode(data: bytes, mode: int, oriented: bool) -> Pixels:
    if bytes(data[:3]) == _JPEG_MAGIC and not (oriented and b"Exif\0\0" in bytes(data)):
        import simplejpeg

        try:
            space = simplejpeg.decode_jpeg_header(data)[2]
            if space in ("YCbCr", "RGB", "Gray"):
                gray = mode == GRAY or (mode == UNCHANGED and space == "Gray")
                pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "GRAY" if gray else "BGR", fastdct=False)
                return pixels[:, :, 0] if gray else pixels
        except ValueError as error:
            raise DecodeError(f"the JPEG is damaged ({error})") from error
    return _decode_other(data, mode, oriented)


def _decode_other(data: bytes, mode: int, oriented: bool) -> Pixels:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as image:
            if mode == UNCHANGED and image.format == "PNG" and data[24] == _DEEP and data[25] != 0:
                raise DecodeError("a PNG of 16 bits and several channels can be read only with iscolor=0 or 1")
            image.load()
            if oriented:
                ImageOps.exif_transpose(image, in_place=True)
            return _converted(image, mode)
    except DecodeError:
        raise
    except UnidentifiedImageError as error:
        raise DecodeError(f"the bytes are not a picture (they begin with {bytes(data[:8])!r})") from error
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, Image.DecompressionBombError) as error:
        raise DecodeError(f"the picture is damaged ({error})") from error


def _converted(image: Image, mode: int) -> Pixels:
    if image.mode in ("I;16", "I;16B", "I"):
        deep: NDArray[np.uint16] = np.asarray(image).astype(np.uint16)
        if mode == UNCHANGED:
            return deep
        shallow = (deep >> 8).astype(np.uint8)
        return shallow if mode == GRAY else np.repeat(shallow[:, :, np.newaxis], 3, axis=2)
    transparent = image.mode in ("LA", "RGBA", "PA") or "transparency" in image.info
    if mode == UNCHANGED and transparent:
        return np.ascontiguousarray(np.asarray(image.convert("RGBA"))[:, :, [2, 1, 0, 3]])
    if image.mode in ("L", "LA", "1") and mode != COLOR:
        return np.array(image.convert("L"), np.uint8)
    rgb = _cmyk_to_rgb(np.asarray(image)) if image.mode == "CMYK" else np.asarray(image.convert("RGB"))
    if mode != GRAY:
        return np.ascontiguousarray(rgb[:, :, ::-1])
    shares, rounding = (_PNG_SHARES, 0) if image.format == "PNG" else (_SHARES, _HALF)
    gray: NDArray[np.uint8] = ((rgb @ np.array(shares, np.uint32) + rounding) >> 15).astype(np.uint8)
    return gray


def _cmyk_to_rgb(cmyk: NDArray[np.uint8]) -> NDArray[np.uint8]:
    black = 255 - cmyk[:, :, 3:].astype(np.uint32)
    return (black - (cmyk[:, :, :3] * black >> 8)).astype(np.uint8)
