"""Contact sheets: many pictures in one PNG."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from asyncloader.storage.atomic import AtomicFile

__all__ = ["MOST", "write_sheet"]

#: Pictures on a sheet.
MOST = 64

_COLUMNS = 8
_TILE = 112
_CAPTION = 14
_GAP = 6
_BACKGROUND, _INK = (24, 24, 28), (225, 225, 225)


def write_sheet(path: str | os.PathLike[str], pictures: Sequence[NDArray[Any]], captions: Sequence[str]) -> str:
    """Write a contact sheet.

    Parameters
    ----------
    path : path
        The PNG; it appears only when it is whole.
    pictures : sequence of ndarray
        Each of shape (height, width, 3), uint8, of any size; the first :data:`MOST` are shown.
    captions : sequence of str
        What is written below each.

    Returns
    -------
    str
        The absolute path.
    """
    shown = list(zip(pictures, captions, strict=True))[:MOST]
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    sheet = Image.new("RGB", (columns * (_TILE + _GAP) + _GAP, rows * (_TILE + _CAPTION + _GAP) + _GAP), _BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default()
    for number, (picture, caption) in enumerate(shown):
        left = _GAP + number % columns * (_TILE + _GAP)
        top = _GAP + number // columns * (_TILE + _CAPTION + _GAP)
        thumbnail = _fitted(picture)
        sheet.paste(thumbnail, (left + (_TILE - thumbnail.width) // 2, top + (_TILE - thumbnail.height) // 2))
        text = _shortened(caption, font)
        draw.text((left + (_TILE - font.getlength(text)) / 2, top + _TILE + 1), text, _INK, font)
    data = io.BytesIO()
    sheet.save(data, "PNG")
    with AtomicFile(path) as file:
        file.write(data.getbuffer())
        return file.path


def _fitted(picture: NDArray[Any]) -> Image.Image:
    """Bring a picture to the size of a tile, its proportions kept."""
    image = Image.fromarray(np.ascontiguousarray(picture))
    scale = _TILE / max(image.size)
    target = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(target, Image.Resampling.BICUBIC, reducing_gap=2.0)


def _shortened(text: str, font: Any) -> str:
    text = text.encode("ascii", "replace").decode()
    while text and font.getlength(text) > _TILE:
        text = text[:-3] + ".." if len(text) > 3 else ""
    return text
