"""Whatever bytes a parser is given, it gives one of the package's own errors or a result, and takes little to do so.

`pytest tests/fuzz --hypothesis-profile=long` looks for longer.
"""

from __future__ import annotations

import contextlib
import json
import struct
import sys
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from hypothesis import HealthCheck, given, settings

import asyncloader as al
from asyncloader import recordio
from asyncloader.cli.checking import check_file
from asyncloader.cli.payloads import inspect
from asyncloader.cli.sources import entries_of_list
from asyncloader.datasets.protobuf import parse_record
from asyncloader.errors import AsyncLoaderError, LoaderWarning
from asyncloader.recordio.frames import decode
from asyncloader.recordio.scan import scan
from asyncloader.samplers import Schedule
from asyncloader.storage import LocalFile
from tests.cli.conftest import protobuf_field, sagemaker_record
from tests.fuzz.mutations import MAGIC, mutated

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def framed(*payloads: bytes) -> bytes:
    """Frame payloads that hold no magic; after the format's description, not by the package."""
    return b"".join(MAGIC + struct.pack("<I", len(p)) + p + bytes(-len(p) % 4) for p in payloads)


def picture(shade: int = 99, size: int = 16) -> bytes:
    encoded: bytes = simplejpeg.encode_jpeg(np.full((size, size, 3), shade, np.uint8), 90)
    return encoded


def image_record(number: int, *labels: float) -> bytes:
    head = struct.pack("<IfQQ", len(labels) if len(labels) > 1 else 0, labels[0] if len(labels) == 1 else 0, number, 0)
    return head + (struct.pack(f"<{len(labels)}f", *labels) if len(labels) > 1 else b"") + picture(number)


def labels_alone(number: int, *labels: float) -> bytes:
    return struct.pack(f"<IfQQ{len(labels)}f", len(labels), 0, number, 0, *labels)


SPLIT = MAGIC + b"\x04\x00\x00\x20abcd" + MAGIC + b"\x00\x00\x00\x40" + MAGIC + b"\x03\x00\x00\x60xyz\0"
RECORDS = [
    b"",
    framed(b"", b"one", b"three three", bytes(40)),
    framed(b"first") + SPLIT + framed(b"after"),
    framed(*(image_record(number, float(number)) for number in range(3))),
    framed(image_record(0, 2.0, 4.0), image_record(1, 1.0), image_record(2, 2.0, 5.0, 0.0, 0.1, 0.2, 0.3)),
    # A face set: its header, two pictures, a person's header.
    framed(
        struct.pack("<IfQQ2f", 2, 0, 0, 0, 3, 4),
        image_record(1, 0.0),
        image_record(2, 1.0),
        struct.pack("<IfQQ2f", 2, 0, 3, 0, 1, 3),
    ),
]
VALUES = protobuf_field(1, b"values")
PROTOBUF = [
    sagemaker_record(1.5),
    # Sparse, of a shape: the fields of a float32 tensor are its values, keys and shape.
    protobuf_field(
        1,
        VALUES
        + protobuf_field(
            2,
            protobuf_field(
                2, protobuf_field(1, bytes(8)) + protobuf_field(2, b"\x01\x05") + protobuf_field(3, b"\x02\x04")
            ),
        ),
    ),
    protobuf_field(1, VALUES + protobuf_field(2, protobuf_field(9, protobuf_field(1, b"bytes")))),
]
INDEXES = [b"0\t0\n1\t8\n2\t20\n3\t40\n", b"3\t40\r\n1\t8\r\n", b"a\t0\nb\t8", b"", b"437\t40\n\n12\t0\n"]
LISTS = [b"0\t1.0\ta/b.jpg\n1\t0\tc.jpg\n", b"437\t3.5\t1\t2\td\xc3\xa9.png", b""]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        yield Path(name)


def allowed(action: Callable[[], Any], data: bytes, factor: int = 200) -> Any:
    """Do something that may fail with the package's own errors, and in which memory is had for the input alone."""
    result = None
    tracemalloc.start()
    try:
        with contextlib.suppress(AsyncLoaderError):
            result = action()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (2 << 20) + factor * len(data)
    return result


@pytest.fixture(scope="module", autouse=True)
def _everything_is_imported() -> None:
    """What is imported at the first use is no cost of an input."""
    from PIL import Image

    Image.init()
    with contextlib.suppress(ImportError):
        from scipy import sparse  # noqa: F401

        for data in PROTOBUF:
            parse_record(data)


# ---------------------------------------------------------------------------------------------------------------------


@same_folder
@given(data=mutated(RECORDS))
def test_record_files(data: bytes, folder: Path) -> None:
    path = folder / "any.rec"
    path.write_bytes(data)

    def check() -> None:
        """Each byte of the file is in a whole record or in a stretch that is said to be damaged, and in one alone."""
        with LocalFile(path) as file:
            extents = []
            for found in scan(file):
                extents += [*zip(found.offsets.tolist(), found.ends.tolist(), strict=True)]
                extents += [(damage.offset, damage.end) for damage in found.damages]
            saved: list[bytes] = []
            offsets, damages, _ = check_file(file, None, lambda _, payloads: saved.extend(payloads), lambda _: None)
        begins = sorted(extents)
        assert [begin for begin, _ in begins] + [len(data)] == [0] + [end for _, end in begins]
        assert saved == [decode(data, int(offset))[0] for offset in offsets]
        assert len(saved) + len(damages) == len(extents)

    allowed(check, data)

    def read() -> None:
        with al.recordio.RecordReader(path) as reader:
            assert reader.read_many(range(len(reader))) == [reader.read(place) for place in range(len(reader))]

    allowed(read, data)


DATASETS = [al.RecordDataset, al.ImageRecordDataset, al.FaceRecordDataset]


@same_folder
@pytest.mark.parametrize("kind", DATASETS)
@pytest.mark.parametrize("index", [True, False])
@given(data=mutated(RECORDS), lines=mutated(INDEXES))
def test_datasets(kind: Any, index: bool, data: bytes, lines: bytes, folder: Path) -> None:
    path = folder / "any.rec"
    path.write_bytes(data)
    path.with_suffix(".idx").unlink(missing_ok=True)
    if index:
        path.with_suffix(".idx").write_bytes(lines)

    def load() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoaderWarning)
            dataset = kind(path)
            with al.DataLoader(dataset, 3, num_workers=0, collate_fn=list, on_error="skip") as loader:
                given_ = [sample for batch in loader for sample in batch]
                assert len(given_) + loader.stats()["skipped"] == len(dataset)
            dataset.close()

    allowed(load, data + lines)


@same_folder
@given(lines=mutated(INDEXES))
def test_indexes(lines: bytes, folder: Path) -> None:
    path = folder / "any.rec"
    path.write_bytes(RECORDS[1])
    path.with_suffix(".idx").write_bytes(lines)

    def load() -> None:
        with recordio.RecordReader(path) as reader:
            for place in range(len(reader)):
                with contextlib.suppress(AsyncLoaderError):
                    assert reader.read(place) in (b"", b"one", b"three three", bytes(40))
                key, offset = reader.locate(place)
                assert 0 <= offset < len(RECORDS[1])
                assert key in reader.index

    allowed(load, lines)


@given(data=mutated([image_record(1, 2.0), image_record(2, 1.0, 2.0, 3.0), struct.pack("<IfQQ", 3, 0, 0, 0)]))
def test_headers(data: bytes) -> None:
    try:
        header, rest = recordio.unpack(data)
    except (struct.error, ValueError):  # what it raises, as mxnet's does
        return
    assert data.endswith(rest)
    count = np.size(header.label) if header.flag else 0
    assert len(rest) == len(data) - 24 - 4 * count
    inspect(data)


@same_folder
@given(lines=mutated(LISTS))
def test_lists(lines: bytes, folder: Path) -> None:
    path = folder / "any.lst"
    path.write_bytes(lines)
    entries = allowed(lambda: entries_of_list(path, folder), lines, factor=2000)
    for entry in entries or []:
        assert Path(entry.path).is_relative_to(folder.resolve())


@given(data=mutated(PROTOBUF))
def test_protobuf_records(data: bytes) -> None:
    pytest.importorskip("google.protobuf")
    pytest.importorskip("scipy")
    allowed(lambda: parse_record(data), data)


@given(data=mutated([json.dumps(Schedule(45, batch_size=4, shuffle=True).state_dict()).encode()]))
def test_states(data: bytes) -> None:
    try:
        state = json.loads(data)
    except ValueError:
        return

    def load() -> None:
        schedule = Schedule(45, batch_size=4, shuffle=True)
        schedule.load_state_dict(state)
        assert len(schedule) == sum(1 for _ in schedule.begin())

    allowed(load, data)


# ---------------------------------------------------------------------------------------------------------------------
# Time: counted as lines of the package's Python that are run, and bytes that are read
# ---------------------------------------------------------------------------------------------------------------------


class Source:
    """Bytes as a file that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data, self.size, self.bytes_read = data, len(data), 0

    def read(self, offset: int, size: int) -> bytes:
        self.bytes_read += size
        return self.data[offset : offset + size]


def steps(action: Callable[[], Any]) -> int:
    """Count the lines that run meanwhile."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with contextlib.suppress(AsyncLoaderError):
            action()
    finally:
        sys.settrace(before)
    return count


HOSTILE_FILES = {
    "heads alone": lambda n: (MAGIC + bytes(4)) * n,
    "parts that begin and never end": lambda n: (MAGIC + b"\0\0\0\x20") * n,
    "middle parts without a first": lambda n: (MAGIC + b"\0\0\0\x40") * n,
    "one record of many empty parts": lambda n: (
        MAGIC + b"\0\0\0\x20" + (MAGIC + b"\0\0\0\x40") * n + MAGIC + b"\0\0\0\x60"
    ),
    "heads that each claim the rest": lambda n: b"".join(
        MAGIC + struct.pack("<I", max(0, 8 * (n - at - 1))) for at in range(n)
    ),
    "heads that claim more than there is": lambda n: (MAGIC + b"\xff\xff\xff\x1f") * n,
    "magic alone": lambda n: MAGIC * 2 * n,
    "nothing at all": lambda n: bytes(8 * n),
    "damage before each record": lambda n: (b"????" + framed(b"abcd")) * (n // 2),
    "first parts that claim the rest": lambda n: b"".join(
        MAGIC + struct.pack("<I", 1 << 29 | max(0, 8 * (n - at - 1))) for at in range(n)
    ),
}


@pytest.mark.parametrize("make", HOSTILE_FILES.values(), ids=HOSTILE_FILES)
def test_the_time_for_a_record_file_is_linear_in_its_size(make: Callable[[int], bytes]) -> None:
    small, large = Source(make(300)), Source(make(2400))
    few, many = (steps(lambda source=source: [*scan(source)]) for source in (small, large))
    assert many <= 8 * few + 2000
    assert large.bytes_read <= 3 * large.size + (1 << 21)


def _load_index(lines: bytes, folder: Path) -> Callable[[], Any]:
    def load() -> None:
        path = folder / "any.rec"
        path.write_bytes(bytes(1 << 16))
        path.with_suffix(".idx").write_bytes(lines)
        recordio.RecordReader(path).close()

    return load


HOSTILE_LINES = {
    "blank": b"\n",
    "blank, as Windows ends them": b"\r\n",
    "the same key": b"5\t8\n",
    "keys of many digits": b"9" * 300 + b"\t0\n",
    "spaces": b" " * 50,
    "tabs": b"\t" * 50,
    "no end": b"0",
    "zeros in front": b"000000000000000000000001\t00000000000000000000008\n",
    "keys that are no numbers": b"a\t8\n",
    "one good, one bad": b"1\t8\nx\n",
}


@pytest.mark.parametrize("line", HOSTILE_LINES.values(), ids=HOSTILE_LINES)
def test_the_time_for_an_index_is_linear_in_its_size(line: bytes, tmp_path: Path) -> None:
    few, many = (steps(_load_index(line * count, tmp_path)) for count in (200, 1600))
    assert many <= 8 * few + 2000


@pytest.mark.parametrize("line", [b"\n", b"0\t0\tx.jpg\n", b"\t" * 40, b"0\t" + b"1\t" * 40 + b"x.jpg\n"])
def test_the_time_for_a_list_is_linear_in_its_size(line: bytes, tmp_path: Path) -> None:
    def load(count: int) -> None:
        (tmp_path / "any.lst").write_bytes(line * count)
        entries_of_list(tmp_path / "any.lst", tmp_path)

    few, many = (steps(lambda count=count: load(count)) for count in (50, 400))
    assert many <= 8 * few + 2000
