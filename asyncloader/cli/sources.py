"""What ``pack`` takes pictures from: lists as im2rec has them, and folders of class folders."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from asyncloader.cli.payloads import picture_shape
from asyncloader.decoders import MAX_PIXELS
from asyncloader.errors import AsyncLoaderError, DecodeError, MissingFileError, ReadError

__all__ = ["Entry", "entries_of_folder", "entries_of_list", "read_picture"]

_QUALITY = 95


class Entry(NamedTuple):
    """A picture to pack.

    Attributes
    ----------
    key : int
        Its key in the index.
    labels : list of float
        At least one.
    path : str
        The file's absolute path.
    """

    key: int
    labels: list[float]
    path: str


def entries_of_folder(root: Path) -> tuple[list[Entry], list[str]]:
    """Give the pictures in a folder of class folders, and the classes' names, by label.

    Raises
    ------
    MissingFileError
        There are no such folders, or no pictures in them.
    """
    from asyncloader.datasets.folder import ImageFolderDataset

    folder = ImageFolderDataset(root)
    entries = [
        Entry(number, [float(label)], path)
        for number, (path, label) in enumerate(zip(folder.paths, folder.labels.tolist(), strict=True))
    ]
    return entries, folder.classes


def entries_of_list(path: Path, root: Path) -> list[Entry]:
    """Read a list: index, tab, labels with tabs between them, tab, and a path from the root.

    Raises
    ------
    AsyncLoaderError
        A line is not such, an index occurs twice, or a path leads out of the root; the message has the line's number.
    """
    where = os.path.abspath(path)
    real_root = os.path.realpath(root)
    entries: list[Entry] = []
    lines_of: dict[int, int] = {}
    for number, line in _lines(where):
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) < 3:
            raise _bad_line(
                where,
                number,
                f"an index, at least one label and a path were expected, with tabs between them, not {line[:80]!r}",
            )
        key = _integer(fields[0], where, number)
        if key in lines_of:
            raise _bad_line(where, number, f"the index {key} is that of line {lines_of[key]} already")
        lines_of[key] = number
        try:
            labels = [float(field) for field in fields[1:-1]]
        except ValueError:
            raise _bad_line(where, number, f"the labels must be numbers, not {fields[1:-1]!r}") from None
        entries.append(Entry(key, labels, _inside(real_root, fields[-1], where, number)))
    if not entries:
        raise AsyncLoaderError(f"{where} has no lines, so there is nothing to pack", path=where)
    return entries


def _lines(path: str) -> Iterator[tuple[int, str]]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.rstrip("\n")
    except UnicodeDecodeError as error:
        raise AsyncLoaderError(f"{path} is not a list: it is not UTF-8 text ({error})", path=path) from error


def _integer(text: str, path: str, number: int) -> int:
    # What a header's id and an index's key can hold.
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise _bad_line(path, number, f"the index must be a whole number from 0 on, not {text!r}")


def _inside(root: str, relative: str, path: str, number: int) -> str:
    """Give the real path of a file under the root; links and dots are followed before it is judged."""
    try:
        full = os.path.realpath(os.path.join(root, relative))
        inside = not os.path.isabs(relative) and os.path.commonpath([root, full]) == root
        inside &= "\0" not in full  # which only some systems find out here
    except ValueError:  # another drive, or a character that no path has
        inside = False
    if not inside or full == root:
        raise _bad_line(
            path, number, f"the path {relative!r} does not lead to a file inside {root}; name its folder with --root"
        )
    return full


def _bad_line(path: str, number: int, fault: str) -> AsyncLoaderError:
    return AsyncLoaderError(f"{path}, line {number}: {fault}", path=path)


def read_picture(path: str, resize: int | None, quality: int | None) -> bytes:
    """Read a picture's file; as it is, or as a JPEG anew where a size or a quality is asked for.

    Parameters
    ----------
    path : str
        The file.
    resize : int, optional
        Pixels of the short side.
    quality : int, optional
        Of the JPEG, 1 to 100.

    Raises
    ------
    MissingFileError, ReadError
        The file cannot be read.
    DecodeError
        It is not a picture.
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise MissingFileError(f"{path} is not there", path=path) from error
    except OSError as error:
        raise ReadError(f"{path} cannot be read: {error.strerror}", path=path) from error
    try:
        height, width = picture_shape(data)
        if resize is None and quality is None:
            return data
        if height * width > MAX_PIXELS:
            raise DecodeError(f"the picture claims {width} x {height} pixels, more than {MAX_PIXELS}")
        return _encoded(data, resize, quality or _QUALITY)
    except DecodeError as error:
        raise DecodeError(f"{path}: {error}", path=path) from error


def _encoded(data: bytes, resize: int | None, quality: int) -> bytes:
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data)) as opened:
            # The turn that a camera notes down is lost with the rest of the notes, so it is made now.
            image = ImageOps.exif_transpose(opened)
            if image.mode not in ("L", "RGB"):
                image = image.convert("RGB")
            if resize is not None:
                scale = resize / min(image.size)
                size = (max(resize, round(image.width * scale)), max(resize, round(image.height * scale)))
                image = image.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DecodeError(f"the picture is damaged ({error})") from error
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()
