"""The sets that the benchmarks read: cut from scikit-learn's two photographs, made once and kept in a cache folder."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image

from asyncloader import recordio

CACHE = Path(os.environ.get("ASYNCLOADER_BENCHMARK_CACHE", Path(tempfile.gettempdir()) / "asyncloader-benchmarks"))

#: So many pictures of a set differ; then they come again, each time as a record of its own.
DISTINCT = 3_000


def faces(count: int = 36_000) -> Path:
    """112 x 112 JPEGs of about 6 KB, the size of face crops."""
    return _images("faces", count, height=112, width=112, quality=94)


def photos(count: int = 12_000) -> Path:
    """JPEGs of about 30 KB, 256 pixels on the short side."""
    return _images("photos", count, height=256, width=341, quality=91)


def raw(count: int = 200_000) -> Path:
    """Records of 64 to 512 random bytes."""
    return _make("raw", count, lambda rng, number: rng.bytes(int(rng.integers(64, 513))))


def _images(name: str, count: int, *, height: int, width: int, quality: int) -> Path:
    jpegs: list[bytes] = []

    def payload(rng: np.random.Generator, number: int) -> bytes:
        if number < DISTINCT:
            jpegs.append(jpeg(rng, number))
        return recordio.pack(recordio.IRHeader(0, float(number % 1000), number, 0), jpegs[number % DISTINCT])

    def jpeg(rng: np.random.Generator, number: int) -> bytes:
        pictures = _photographs()
        picture = pictures[number % len(pictures)]
        scale = float(rng.uniform(1.0, 1.6))
        crop_height, crop_width = min(int(height * scale), 420), min(int(width * scale), 630)
        top = int(rng.integers(0, picture.shape[0] - crop_height))
        left = int(rng.integers(0, picture.shape[1] - crop_width))
        crop = Image.fromarray(picture[top : top + crop_height, left : left + crop_width])
        pixels = np.asarray(crop.resize((width, height), Image.Resampling.BICUBIC))
        return simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality, colorsubsampling="420")

    return _make(name, count, payload)


@functools.cache
def _photographs() -> list[NDArray[np.uint8]]:
    from sklearn.datasets import load_sample_images

    return [np.asarray(image) for image in load_sample_images().images]


def _make(name, count, payload) -> Path:  # type: ignore[no-untyped-def]
    path = CACHE / f"{name}-{count}.rec"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        with recordio.RecordWriter(path, path.with_suffix(".idx")) as writer:
            for number in range(count):
                writer.write(payload(rng, number))
    return path
