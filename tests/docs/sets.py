"""The files that the documentation's samples are about, small: put together from the formats' descriptions."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import ImageRecords


def make_files(folder: Path, images: ImageRecords) -> None:
    """Make all of them in a folder."""
    jpegs = images.jpegs
    shutil.copyfile(images.path, folder / "train.rec")
    shutil.copyfile(images.index_path, folder / "train.idx")
    for part in range(2):
        _write(folder / f"part-{part}.rec", [_image(n % 10, n, jpegs[n]) for n in range(35 * part, 35 * part + 35)])
    _write(folder / "tokens.rec", [struct.pack(f"<{n % 7 + 1}i", *range(n % 7 + 1)) for n in range(50)])
    boxes = [[2.0, 5.0, *([number % 3, 0.1, 0.2, 0.3, 0.4] * (1 + number % 4))] for number in range(40)]
    _write(folder / "detection.rec", [_image(labels, n, jpegs[n]) for n, labels in enumerate(boxes)])
    _make_faces(folder / "faces", jpegs)
    _make_photos(folder / "photos", jpegs)
    _make_damaged(folder / "damaged.rec", jpegs)
    # Without an index, so that there is one to write.
    shutil.copyfile(images.path, folder / "unindexed.rec")


def _make_faces(folder: Path, jpegs: Sequence[bytes]) -> None:
    """60 pictures of 6 people, in the InsightFace layout."""
    folder.mkdir()
    pictures = [_image([float(number // 10), number], number + 1, jpegs[number]) for number in range(60)]
    people = [_image([1.0 + 10 * person, 11 + 10 * person], 61 + person, b"") for person in range(6)]
    _write(folder / "train.rec", [_image([61.0, 67.0], 0, b""), *pictures, *people], index=True)
    (folder / "property").write_text("6,40,48\n", encoding="ascii")


def _make_photos(folder: Path, jpegs: Sequence[bytes]) -> None:
    """One folder a class."""
    for label, name in enumerate(("cat", "dog")):
        (folder / name).mkdir(parents=True)
        for number in range(10):
            (folder / name / f"{number}.jpg").write_bytes(jpegs[10 * label + number])


def _make_damaged(path: Path, jpegs: Sequence[bytes]) -> None:
    """20 pictures, of which the fifth has lost its head."""
    offsets = _write(path, [_image(n, n, jpegs[n]) for n in range(20)], index=True)
    data = bytearray(path.read_bytes())
    data[offsets[4] : offsets[4] + 4] = b"lost"
    path.write_bytes(data)


def _image(labels: float | Sequence[float], key: int, picture: bytes) -> bytes:
    if isinstance(labels, int | float):
        return struct.pack("<IfQQ", 0, labels, key, 0) + picture
    return struct.pack("<IfQQ", len(labels), 0, key, 0) + struct.pack(f"<{len(labels)}f", *labels) + picture


def _write(path: Path, payloads: Sequence[bytes], *, index: bool = False) -> list[int]:
    offsets = []
    with path.open("wb") as file:
        for payload in payloads:
            offsets.append(file.tell())
            file.write(struct.pack("<II", 0xCED7230A, len(payload)) + payload + bytes(-len(payload) % 4))
    if index:
        lines = "".join(f"{key}\t{offset}\n" for key, offset in enumerate(offsets))
        path.with_suffix(".idx").write_text(lines, encoding="ascii", newline="\n")
    return offsets
