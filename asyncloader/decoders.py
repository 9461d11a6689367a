"""Encoded pictures to arrays: JPEG by libjpeg-turbo, which releases the GIL, everything else by Pillow."""

from __future__ import annotations

import io
from typing import Any, Literal, TypeAlias

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from asyncloader.errors import DecodeError
from asyncloader.memory import BatchMemory

__all__ = ["MAX_PIXELS", "Color", "ImageDecoder", "decode_image", "is_image"]

Color: TypeAlias = Literal["rgb", "gray", "unchanged"]
Buffer: TypeAlias = bytes | bytearray | memoryview

#: A picture that claims more pixels than this is refused unless the caller says otherwise: 512 MiB as RGB.
MAX_PIXELS = 2**29 // 3

_JPEG_MAGIC = b"\xff\xd8\xff"
#: How other pictures begin: PNG, GIF, BMP, TIFF, WebP (RIFF).
_OTHER_MAGIC = (b"\x89PNG", b"GIF8", b"BM", b"II*\x00", b"MM\x00*", b"RIFF")
#: Damage that libjpeg reports but that costs no pixel: bytes between segments, which some cameras write.
_HARMLESS = "extraneous bytes before marker"


def is_image(data: Buffer) -> bool:
    """Whether bytes begin as a picture does."""
    head = bytes(data[:4])
    return head.startswith(_JPEG_MAGIC) or head.startswith(_OTHER_MAGIC)


def decode_image(data: Buffer, color: Color = "rgb", *, max_pixels: int = MAX_PIXELS) -> NDArray[Any]:
    """Decode one picture.

    Parameters
    ----------
    data : bytes-like
        A JPEG, or any other format that Pillow reads.
    color : {"rgb", "gray", "unchanged"}
        "unchanged" keeps the channels the file has: 1, 3, or 4 with transparency.
    max_pixels : int
        A picture of more pixels is refused before they are allocated.

    Returns
    -------
    ndarray
        Shape (height, width, channels), dtype uint8; 16-bit files are uint16 where ``color`` is "unchanged".

    Raises
    ------
    DecodeError
        The bytes are no picture, are cut short or damaged, or claim too many pixels.
    """
    return ImageDecoder(color, max_pixels)(data)


class ImageDecoder:
    """Decodes pictures, straight into their row of a batch where the shape allows.

    Parameters
    ----------
    color : {"rgb", "gray", "unchanged"}
        As in :func:`decode_image`.
    max_pixels : int
        A picture of more pixels is refused before they are allocated.
    """

    def __init__(self, color: Color = "rgb", max_pixels: int = MAX_PIXELS) -> None:
        if color not in ("rgb", "gray", "unchanged"):
            raise ValueError(f"color must be 'rgb', 'gray' or 'unchanged', not {color!r}")
        self.color: Color = color
        self.max_pixels = max_pixels
        #: The colour space that the JPEG codec is asked for; None where it is the file's.
        self.jpeg_space = {"rgb": "RGB", "gray": "GRAY", "unchanged": None}[color]

    def __call__(self, data: Buffer, memory: BatchMemory | None = None, slot: int = 0) -> NDArray[Any]:
        """Decode ``data``; the result is ``memory``'s row for ``slot`` where the picture has the rows' shape."""
        if memory is not None and memory.rows and self.jpeg_space is not None:
            # A buffer of the row's size bounds what is decoded, so there is no need to look at the header first; and
            # the codec refuses what is not a JPEG, so none to look at the first bytes.
            row = memory.rows[slot]
            try:
                if simplejpeg.decode_jpeg(data, self.jpeg_space, buffer=row).shape == row.shape:
                    return row
            except ValueError:
                pass  # larger than the row, or no JPEG, or damaged: the way below tells which
        return self._decode(data, memory, slot)

    def allocate_rows(self, data: Buffer, memory: BatchMemory, slot: int) -> NDArray[Any] | None:
        """Make the rows of ``memory`` as a JPEG wants them; its own, or None where it is no JPEG, or they are others'.

        Raises
        ------
        DecodeError
            The picture's header is damaged, or claims too many pixels.
        """
        shape = self._jpeg_shape(data)
        return memory.allocate_rows(shape, np.uint8, slot) if shape is not None else None

    def _jpeg_shape(self, data: Buffer) -> tuple[int, int, int] | None:
        """The shape of a JPEG's array; None for what the codec does not decode."""
        if len(data) == 0:
            raise DecodeError("the picture is empty (0 bytes)")
        if data[:3] != _JPEG_MAGIC:
            return None
        try:
            height, width, space, _ = simplejpeg.decode_jpeg_header(data)
        except ValueError as error:
            raise DecodeError(f"the JPEG's header cannot be read ({error})") from error
        self._check_size(height, width)
        if space not in ("YCbCr", "RGB", "Gray"):
            return None  # CMYK and YCCK: libjpeg has no RGB for them
        target = self.jpeg_space or ("GRAY" if space == "Gray" else "RGB")
        return height, width, 1 if target == "GRAY" else 3

    def _decode(self, data: Buffer, memory: BatchMemory | None, slot: int) -> NDArray[Any]:
        shape = self._jpeg_shape(data)
        if shape is None:
            return _into_row(self._decode_other(data), memory, slot)
        target = "GRAY" if shape[2] == 1 else "RGB"
        row = memory.allocate_rows(shape, np.uint8, slot) if memory is not None else None
        try:
            image = simplejpeg.decode_jpeg(data, target, buffer=row)
        except ValueError as error:
            if _HARMLESS not in str(error):
                raise DecodeError(f"the JPEG is damaged ({error})") from error
            image = simplejpeg.decode_jpeg(data, target, buffer=row, strict=False)
        return image if row is None else row

    def _decode_other(self, data: Buffer) -> NDArray[Any]:
        from PIL import Image, UnidentifiedImageError  # a fifth of a second to import, and most sets have JPEGs alone

        try:
            with Image.open(io.BytesIO(data)) as image:
                self._check_size(image.height, image.width)
                return _pixels(image, self.color)
        except DecodeError:
            raise
        except Image.DecompressionBombError as error:
            raise DecodeError(
                f"the picture claims more pixels than Pillow allows ({error}); "
                "if it is genuine, raise max_pixels, and PIL.Image.MAX_IMAGE_PIXELS with it"
            ) from error
        except UnidentifiedImageError as error:
            raise DecodeError(f"the bytes are not a picture (they begin with {bytes(data[:8])!r})") from error
        except (OSError, SyntaxError, ValueError, EOFError, IndexError) as error:
            raise DecodeError(f"the picture is damaged ({error})") from error

    def _check_size(self, height: int, width: int) -> None:
        if height * width > self.max_pixels:
            raise DecodeError(
                f"the picture claims {width} x {height} pixels, more than the limit of {self.max_pixels}; "
                "if it is genuine, raise max_pixels"
            )


def _pixels(image: Any, color: Color) -> NDArray[Any]:
    if color == "rgb":
        array = np.asarray(image.convert("RGB"))
    elif color == "gray":
        array = np.asarray(image.convert("L"))
    else:
        if image.mode in ("P", "CMYK", "YCbCr", "LAB", "HSV"):
            image = image.convert("RGBA" if "transparency" in image.info else "RGB")
        elif image.mode == "1":
            image = image.convert("L")
        array = np.asarray(image)
        if array.dtype == np.int32:  # Pillow widens 16-bit grey
            array = array.astype(np.uint16)
    return array[:, :, np.newaxis] if array.ndim == 2 else array


def _into_row(image: NDArray[Any], memory: BatchMemory | None, slot: int) -> NDArray[Any]:
    row = memory.allocate_rows(image.shape, image.dtype, slot) if memory is not None else None
    if row is None:
        return image
    row[...] = image
    return row
