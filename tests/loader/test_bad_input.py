"""Bad input: a clear error that says what to do, and nothing else lost."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg

import asyncloader as al
from asyncloader import recordio
from asyncloader.errors import (
    CorruptRecordError,
    DecodeError,
    FileChangedError,
    IndexFileError,
    LoaderWarning,
    MissingFileError,
    ReadError,
)

MAGIC = 0xCED7230A
COUNT = 24


def jpeg(number: int, size: int = 40) -> bytes:
    pixels = np.full((size, size, 3), number * 5, np.uint8)
    encoded: bytes = simplejpeg.encode_jpeg(pixels, quality=90)
    return encoded


def image_record(number: int, picture: bytes | None = None) -> bytes:
    header = recordio.IRHeader(0, float(number), number, 0)
    return recordio.pack(header, jpeg(number) if picture is None else picture)


def write(folder: Path, replaced: dict[int, bytes] | None = None) -> Path:
    """A set of small pictures, some of its records replaced; large enough that records are not read all at once."""
    path = folder / "train.rec"
    with recordio.RecordWriter(path, folder / "train.idx") as writer:
        for number in range(COUNT):
            writer.write((replaced or {}).get(number) or image_record(number))
    return path


def offset_of(path: Path, position: int) -> int:
    return int(path.with_suffix(".idx").read_text().splitlines()[position].split("\t")[1])


def labels(loader: al.DataLoader) -> list[int]:
    return [int(label) for _, batch in loader for label in batch]


def check_one_is_lost(path: Path, position: int, kind: type[Exception], *says: str) -> None:
    """The record at ``position`` fails with its identity in the message; all others come."""
    dataset = al.ImageRecordDataset(path)
    offset = dataset.locate(position).offset
    for workers in ({"num_workers": 0}, {"num_workers": 2}):
        with al.DataLoader(dataset, 8, **workers) as loader, pytest.raises(kind) as caught:
            list(loader)
        message = str(caught.value)
        for part in (str(path), f"position {position}", f"key {position}", f"byte offset {offset}", *says):
            assert part in message
        assert (caught.value.path, caught.value.position, caught.value.offset) == (str(path), position, offset)
        with al.DataLoader(dataset, 8, on_error="skip", **workers) as loader:
            with pytest.warns(LoaderWarning, match=f"position {position}"):
                assert labels(loader) == [number for number in range(COUNT) if number != position]
            assert loader.stats()["skipped"] == 1


def test_a_missing_file_is_named_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingFileError) as caught:
        al.ImageRecordDataset("nowhere.rec")
    assert str(tmp_path / "nowhere.rec") in str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(MissingFileError, match=r"nothing-\*"):
        al.RecordDataset("nothing-*.rec")


def test_a_directory_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="is a directory"):
        al.RecordDataset(tmp_path)


@pytest.mark.parametrize("kind", [al.RecordDataset, al.ImageRecordDataset, al.FaceRecordDataset])
def test_an_empty_file_is_a_set_of_no_records(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "train.rec"
    path.write_bytes(b"")
    dataset = kind(path)
    assert len(dataset) == 0
    with al.DataLoader(dataset, 4) as loader:
        assert len(loader) == 0
        assert list(loader) == []


def test_a_file_that_is_cut_off_gives_the_records_before_the_cut(tmp_path: Path) -> None:
    for number, keep in enumerate((8, 31, 100)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write(folder)
        os.truncate(path, offset_of(path, COUNT - 1) + keep)
        check_one_is_lost(path, COUNT - 1, CorruptRecordError, "ends at", "asyncloader verify")
    path = write(tmp_path)
    last = offset_of(path, COUNT - 1)
    os.truncate(path, last - 4)  # the index names a record that begins behind the end: seen when it is opened
    with pytest.raises(IndexFileError, match="asyncloader index"):
        al.ImageRecordDataset(path)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (struct.pack("<II", MAGIC ^ 1, 100), "magic number"),
        (struct.pack("<II", MAGIC, 0x1FFFFFFF), "claims 536870911 bytes"),
        (struct.pack("<II", MAGIC, 3 << 29 | 40), "of kind 3"),
        (struct.pack("<II", MAGIC, 1 << 29 | 40), "magic number"),
    ],
)
def test_a_damaged_head_costs_its_record_alone(head: bytes, says: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    with path.open("r+b") as file:
        file.seek(offset_of(path, 9))
        file.write(head)
    tracemalloc.start()
    check_one_is_lost(path, 9, CorruptRecordError, says)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20  # nothing of the size that the head claims
    tracemalloc.stop()


def edited_index(path: Path, edit: Callable[[list[str]], list[str]]) -> None:
    index = path.with_suffix(".idx")
    index.write_text("\n".join(edit(index.read_text().splitlines())) + "\n")


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda lines: [*lines, "24\t99999999"], "line 25"),
        (lambda lines: [*lines[:4], "4\t18446744073709551615", *lines[5:]], "line 5"),
        (lambda lines: [*lines[:4], "4\t" + str(int(lines[4].split("\t")[1]) + 2), *lines[5:]], "line 5"),
        (lambda lines: [*lines[:4], "no index at all", *lines[5:]], "line 5"),
        (lambda lines: [*lines[:4], "", *lines[5:]], "line 5"),
    ],
)
def test_an_index_that_cannot_fit_is_refused_with_the_line(edit: Any, says: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    edited_index(path, edit)
    with pytest.raises(IndexFileError, match=says) as caught:
        al.ImageRecordDataset(path)
    assert str(path.with_suffix(".idx")) in str(caught.value)


def test_the_index_of_another_file_is_found_out_at_reading(tmp_path: Path) -> None:
    path = write(tmp_path)
    edited_index(path, lambda lines: [f"{k}\t{int(line.split(chr(9))[1]) // 8 * 4}" for k, line in enumerate(lines)])
    says = r"the index is of another file.*asyncloader index"
    with al.DataLoader(al.ImageRecordDataset(path), 8) as loader, pytest.raises(CorruptRecordError, match=says):
        list(loader)


def sagemaker_record() -> bytes:
    values = struct.pack("<4f", 1, 2, 3, 4)
    tensor = b"\x0a" + bytes([len(values)]) + values
    value = b"\x12" + bytes([len(tensor)]) + tensor
    entry = b"\x0a\x06values" + b"\x12" + bytes([len(value)]) + value
    return b"\x0a" + bytes([len(entry)]) + entry


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (sagemaker_record(), "SageMaker"),
        (recordio.pack(recordio.IRHeader(0, 9.0, 9, 0), b"these bytes are a text"), "not a picture"),
        (recordio.pack(recordio.IRHeader(0, 9.0, 9, 0), b""), "empty"),
        (recordio.pack(recordio.IRHeader(0, 9.0, 9, 0), jpeg(9)[:-40]), "damaged"),
        (struct.pack("<IfQQ", 1000, 0, 9, 0) + b"labels that are not there", "announces 1000 labels"),
        (struct.pack("<IfQQ", 0xFFFFFFFF, 0, 9, 0) + jpeg(9), "announces 4294967295 labels"),
        (b"short", "has a header of 24 bytes"),
    ],
)
def test_a_payload_that_is_no_picture_costs_its_record_alone(payload: bytes, says: str, tmp_path: Path) -> None:
    path = write(tmp_path, {9: payload})
    check_one_is_lost(path, 9, DecodeError, says)


def huge_jpeg() -> bytes:
    """A small JPEG whose frame header claims 65,500 x 65,500 pixels."""
    data = bytearray(jpeg(1))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", 65_500, 65_500)
    return bytes(data)


def huge_png() -> bytes:
    import zlib

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("picture", [huge_jpeg(), huge_png()], ids=["jpeg", "png"])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_picture_that_claims_too_many_pixels_is_refused_before_they_are_allocated(
    picture: bytes, tmp_path: Path
) -> None:
    path = write(tmp_path, {9: recordio.pack(recordio.IRHeader(0, 9.0, 9, 0), picture)})
    tracemalloc.start()
    check_one_is_lost(path, 9, DecodeError, "pixels", "max_pixels")
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_the_limit_on_pixels_can_be_set(tmp_path: Path) -> None:
    path = write(tmp_path)
    with pytest.raises(DecodeError, match="40 x 40 pixels, more than the limit of 1599"):
        al.ImageRecordDataset(path, max_pixels=1599)[0]
    assert al.ImageRecordDataset(path, max_pixels=1600)[0][0].shape == (40, 40, 3)


@pytest.mark.posix
def test_a_file_truncated_while_it_is_being_read_gives_what_is_left_and_an_error(tmp_path: Path) -> None:
    path = write(tmp_path)
    with al.DataLoader(al.ImageRecordDataset(path), 4, num_workers=1, prefetch=1) as loader:
        batches = iter(loader)
        first = next(batches)[1].tolist()
        os.truncate(path, offset_of(path, 14))
        got = list(first)
        with pytest.raises((ReadError, CorruptRecordError), match=str(path)):
            got.extend(number for _, numbers in batches for number in numbers.tolist())
    assert got == list(range(12))


@pytest.mark.posix
@pytest.mark.parametrize("workers", [{"num_workers": 2}, {"workers": "processes", "num_workers": 1}])
def test_a_file_deleted_or_replaced_while_it_is_open_is_read_to_its_end(workers: Any, tmp_path: Path) -> None:
    path = write(tmp_path)
    with al.DataLoader(al.ImageRecordDataset(path), 4, prefetch=1, **workers) as loader:
        batches = iter(loader)
        got = next(batches)[1].tolist()
        path.unlink()
        for _, numbers in batches:
            got += numbers.tolist()
    assert got == list(range(COUNT))


def test_a_worker_that_finds_another_file_says_so(tmp_path: Path) -> None:
    path = write(tmp_path)
    dataset = al.ImageRecordDataset(path)
    dataset.close() if os.name == "nt" else None
    write(tmp_path, {3: image_record(3, jpeg(3, 60))})
    loader = al.DataLoader(dataset, 4, workers="processes", num_workers=1)
    with loader, pytest.raises(FileChangedError, match="has changed since it was opened"):
        list(loader)


def test_faces_whose_header_does_not_fit_are_refused(tmp_path: Path) -> None:
    for first, second in ((1e30, 2e30), (float("nan"), 5.0), (-3.0, 5.0), (500.0, 510.0)):
        path = tmp_path / "train.rec"
        with recordio.RecordWriter(path, tmp_path / "train.idx") as writer:
            writer.write(recordio.pack(recordio.IRHeader(2, [first, second], 0, 0), b""))
            writer.write(image_record(1))
        with pytest.raises(CorruptRecordError, match=r"header record.*asyncloader index"):
            al.FaceRecordDataset(path)


def test_faces_are_read_as_the_header_says(tmp_path: Path) -> None:
    people, each = 5, 4
    images = people * each
    with recordio.RecordWriter(tmp_path / "train.rec", tmp_path / "train.idx") as writer:
        writer.write(recordio.pack(recordio.IRHeader(2, [images + 1, images + 1 + people], 0, 0), b""), 0)
        for number in range(images):
            label: Any = [float(number // each), 1.0] if number % 2 else float(number // each)
            flag = 2 if number % 2 else 0
            writer.write(recordio.pack(recordio.IRHeader(flag, label, number, 0), jpeg(number)), number + 1)
        for person in range(people):
            span = [1.0 + person * each, 1.0 + (person + 1) * each]
            writer.write(recordio.pack(recordio.IRHeader(2, span, 0, 0), b""), images + 1 + person)
    dataset = al.FaceRecordDataset(tmp_path)
    assert (len(dataset), dataset.num_classes) == (images, people)
    with al.DataLoader(dataset, 6) as loader:
        identities = [int(identity) for _, batch in loader for identity in batch]
    assert identities == [number // each for number in range(images)]
    assert isinstance(dataset[0][1], np.int64)


def test_a_transform_s_results_of_several_shapes_and_types_are_all_kept(tmp_path: Path) -> None:
    path = write(tmp_path)

    def crop(image: Any, label: Any) -> Any:
        number = int(label)
        part = image[: 20 + (number % 11 == 10), :20]
        return (part / 2 if number % 7 == 6 else part), label

    with al.DataLoader(al.ImageRecordDataset(path, transform=crop), 6, num_workers=2) as loader:
        for _ in range(2):
            for images, numbers in loader:
                for image, number in zip(images, numbers.astype(int), strict=True):
                    decoded = al.decode_image(jpeg(number))
                    expected, _ = crop(decoded, number)
                    assert image.shape == expected.shape
                    assert (image == expected).all()
