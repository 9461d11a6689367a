"""A set to try things with: small JPEGs of shapes in colours, one class for each pair of them."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from asyncloader.recordio.header import IRHeader, pack
from asyncloader.recordio.writer import RecordWriter

__all__ = ["CLASSES", "SIDE", "write_shapes"]

#: Height and width of the pictures.
SIDE = 64

_SHAPES = ("disc", "square", "triangle", "cross")
_COLORS = {"red": (230, 40, 30), "green": (30, 180, 60), "blue": (50, 80, 240)}

#: The name of each label.
CLASSES = [f"{color} {shape}" for shape in _SHAPES for color in _COLORS]

_ROWS, _COLUMNS = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32) + 0.5


def write_shapes(
    path: str | os.PathLike[str], index_path: str | os.PathLike[str], count: int, progress: Callable[[int], None]
) -> None:
    """Write the set as a record file with its index.

    Parameters
    ----------
    path, index_path : path
        The files.
    count : int
        How many pictures.
    progress : callable
        Told how many are done.
    """
    rng = np.random.default_rng(0)
    with RecordWriter(path, index_path) as writer:
        for number in range(count):
            label = number % len(CLASSES)
            jpeg = simplejpeg.encode_jpeg(draw_shape(label, rng), quality=85)
            writer.write(pack(IRHeader(0, float(label), number, 0), jpeg))
            progress(number + 1)


def draw_shape(label: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw a picture of a class: the shape anywhere near the middle, of any size, before a noisy grey."""
    shape, color = divmod(label, len(_COLORS))
    radius = rng.uniform(16, 25)
    center_x, center_y = rng.uniform(26, 38, 2)
    inside = _inside(_SHAPES[shape], (_COLUMNS - center_x) / radius, (_ROWS - center_y) / radius)
    background = rng.uniform(90, 160) + rng.normal(0, 12, (SIDE, SIDE, 1))
    foreground = np.array(list(_COLORS.values())[color]) + rng.uniform(-25, 25, 3)
    return np.clip(np.where(inside[:, :, None], foreground, background), 0, 255).astype(np.uint8)


def _inside(shape: str, x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Whether points are inside a shape of radius 1 at the origin."""
    if shape == "disc":
        return x * x + y * y < 1
    across, along = np.minimum(np.abs(x), np.abs(y)), np.maximum(np.abs(x), np.abs(y))
    if shape == "square":
        return along < 0.85
    if shape == "cross":
        return (across < 0.3) & (along < 1)
    return (y < 0.8) & (y > 2 * np.abs(x) - 1)
