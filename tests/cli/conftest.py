"""Running commands, and the files that they are run on."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from typer.testing import CliRunner

from asyncloader.cli.app import app
from tests.conftest import ImageRecords


class Outcome(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


#: Runs a command with its arguments.
Run: TypeAlias = Callable[..., Outcome]


@pytest.fixture
def run() -> Run:
    """Run a command in this process; what it raises other than by its exit status is raised here."""

    def run(*arguments: object) -> Outcome:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="asyncloader")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run


class Copy(NamedTuple):
    """A copy of the picture set that a test may damage."""

    path: Path
    index_path: Path
    records: ImageRecords
    offsets: list[int]

    def damage(self, positions: Sequence[int]) -> None:
        """Overwrite the magic number of some records."""
        data = bytearray(self.path.read_bytes())
        for position in positions:
            data[self.offsets[position] : self.offsets[position] + 4] = b"lost"
        self.path.write_bytes(data)

    def end(self, position: int) -> int:
        """Where the record at a position ends."""
        size = len(self.records.payloads[position])
        return self.offsets[position] + 8 + size + -size % 4


@pytest.fixture
def copy(image_records: ImageRecords, tmp_path: Path) -> Copy:
    return copy_to(image_records, tmp_path)


def copy_to(image_records: ImageRecords, folder: Path) -> Copy:
    path, index_path = folder / "copy.rec", folder / "copy.idx"
    shutil.copyfile(image_records.path, path)
    shutil.copyfile(image_records.index_path, index_path)
    offsets = [int(line.split("\t")[1]) for line in index_path.read_text().splitlines()]
    return Copy(path, index_path, image_records, offsets)


def write_records(path: Path, payloads: Sequence[bytes]) -> list[int]:
    """Write a record file by the format's description, without an index; no payload may hold the magic number."""
    offsets = []
    with path.open("wb") as file:
        for payload in payloads:
            offsets.append(file.tell())
            file.write(struct.pack("<II", 0xCED7230A, len(payload)) + payload + bytes(-len(payload) % 4))
    return offsets


def image_record(labels: float | Sequence[float], key: int, picture: bytes) -> bytes:
    """Put an image header before a picture, by the format's description."""
    if isinstance(labels, float | int):
        return struct.pack("<IfQQ", 0, labels, key, 0) + picture
    return struct.pack("<IfQQ", len(labels), 0, key, 0) + struct.pack(f"<{len(labels)}f", *labels) + picture


@pytest.fixture
def face_set(image_records: ImageRecords, tmp_path: Path) -> Path:
    """A set in the InsightFace layout: a header, 60 pictures of 6 people, and a header for each of these."""
    images = [image_record([number // 10, number], number + 1, image_records.jpegs[number]) for number in range(60)]
    people = [image_record([1 + 10 * person, 11 + 10 * person], 61 + person, b"") for person in range(6)]
    path = tmp_path / "train.rec"
    offsets = write_records(path, [image_record([61, 67], 0, b""), *images, *people])
    lines = "".join(f"{key}\t{offset}\n" for key, offset in enumerate(offsets))
    (tmp_path / "train.idx").write_text(lines, newline="\n")
    (tmp_path / "property").write_text("6,40,48\n")
    return path


def protobuf_field(number: int, data: bytes) -> bytes:
    """A length-delimited field, shorter than 128 bytes."""
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def sagemaker_record(value: float) -> bytes:
    """A record as Amazon SageMaker writes them: the maps `features` and `label`, of float32 tensors."""
    tensor = protobuf_field(2, protobuf_field(1, struct.pack("<f", value)))
    entry = protobuf_field(1, b"values") + protobuf_field(2, tensor)
    return protobuf_field(1, entry) + protobuf_field(2, entry)
