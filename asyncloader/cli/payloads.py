"""What the payload of a record is, as far as its bytes tell."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from asyncloader.datasets.images import split_image_record
from asyncloader.errors import DecodeError
from asyncloader.recordio.header import HEADER

if TYPE_CHECKING:
    from asyncloader.decoders import Buffer

__all__ = ["SUFFIXES", "Content", "Kind", "inspect", "picture_shape"]

Kind: TypeAlias = Literal["jpeg", "png", "gif", "bmp", "tiff", "webp", "header only", "protobuf", "empty", "bytes"]

#: What a file with such content is called.
SUFFIXES: dict[Kind, str] = {
    "jpeg": ".jpg",
    "png": ".png",
    "gif": ".gif",
    "bmp": ".bmp",
    "tiff": ".tif",
    "webp": ".webp",
    "header only": ".bin",
    "protobuf": ".pb",
    "empty": ".bin",
    "bytes": ".bin",
}

#: The tags of a SageMaker Record's fields: two maps, and three strings.
_RECORD_TAGS = (0x0A, 0x12, 0x1A, 0x22, 0x2A)


@dataclass(frozen=True, slots=True)
class Content:
    """A payload, taken apart.

    Attributes
    ----------
    kind : str
        "header only" is an image record without a picture, "bytes" whatever is not known.
    labels : ndarray of float32, or None
        The image header's; of no dimension where it is one number, None where there is no such header.
    data : bytes-like
        What follows the header, or the whole payload.
    """

    kind: Kind
    labels: NDArray[np.float32] | None
    data: Buffer

    @property
    def is_picture(self) -> bool:
        """Whether it is a picture, of whatever format."""
        return self.kind in ("jpeg", "png", "gif", "bmp", "tiff", "webp")


def inspect(payload: Buffer) -> Content:
    """Find out what a payload is."""
    if len(payload) == 0:
        return Content("empty", None, payload)
    kind = _picture_kind(payload)
    if kind is not None:
        return Content(kind, None, payload)
    try:
        label, data = split_image_record(payload)
    except DecodeError:
        return Content("protobuf" if _is_protobuf_record(payload) else "bytes", None, payload)
    labels = np.asarray(label, np.float32)
    kind = _picture_kind(data)
    if kind is not None:
        return Content(kind, labels, data)
    if len(data) == 0 and _is_plausible(payload, labels):
        return Content("header only", labels, data)
    return Content("protobuf" if _is_protobuf_record(payload) else "bytes", None, payload)


def picture_shape(data: Buffer) -> tuple[int, int]:
    """Give a picture's height and width, from its header alone.

    Raises
    ------
    DecodeError
        The header cannot be read.
    """
    if data[:3] == b"\xff\xd8\xff":
        try:
            height, width, _, _ = simplejpeg.decode_jpeg_header(data)
        except ValueError as error:
            raise DecodeError(f"the JPEG's header cannot be read ({error})") from error
        return height, width
    from PIL import Image  # slow to import, and most sets have JPEGs alone

    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.height, image.width
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DecodeError(f"the picture's header cannot be read ({error})") from error


def _picture_kind(data: Buffer) -> Kind | None:
    head = bytes(data[:12])
    if head.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if head.startswith((b"II*\x00", b"MM\x00*")):
        return "tiff"
    if head.startswith(b"RIFF") and head[8:] == b"WEBP":
        return "webp"
    # Two letters say little; the size that follows them says enough.
    if head.startswith(b"BM") and len(head) >= 6 and struct.unpack_from("<I", head, 2)[0] == len(data):
        return "bmp"
    return None


def _is_plausible(payload: Buffer, labels: NDArray[np.float32]) -> bool:
    """Whether bytes that are as long as an image header with its labels are one."""
    flag, label, _, _ = HEADER.unpack_from(payload)
    return bool(np.isfinite(labels).all()) and (flag == 0 or label == 0)


def _is_protobuf_record(payload: Buffer) -> bool:
    """Whether a payload is fields of a Record message from its first byte to its last."""
    data = bytes(payload)
    if data[0] not in (0x0A, 0x12):
        return False
    place = 0
    while place < len(data):
        if data[place] not in _RECORD_TAGS:
            return False
        place += 1
        length = shift = 0
        while True:
            if place >= len(data) or shift > 28:
                return False
            byte = data[place]
            place += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        place += length
    return place == len(data)
