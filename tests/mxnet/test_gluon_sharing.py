"""Threads and processes get every record right, where mxnet's own thread pool does not."""

from __future__ import annotations

import collections
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet")

from asyncloader import gluon  # noqa: E402
from tests.conftest import ImageRecords  # noqa: E402
from tests.mxnet.gluon_helpers import WAYS, same  # noqa: E402

pytestmark = pytest.mark.mxnet

data = mx.gluon.data
COUNT = 3000


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> str:
    """3000 records written by MXNet; each is its number over and over, and their lengths differ."""
    path = str(tmp_path_factory.mktemp("numbered") / "numbered.rec")
    writer = mx.recordio.MXIndexedRecordIO(path[:-4] + ".idx", path, "w")
    for number in range(COUNT):
        writer.write_idx(number, np.full(8 + number % 500, number, "<i4").tobytes())
    writer.close()
    return path


def number_of(record: bytes) -> int:
    """The number a record says it is; -1 if it is not whole."""
    values = np.frombuffer(record, "<i4")
    number = int(values[0])
    return number if len(values) == 8 + number % 500 and (values == number).all() else -1


THEIRS = """
import sys
import numpy as np
import mxnet as mx

def number_of(record):
    values = np.frombuffer(record[: len(record) // 4 * 4], "<i4")
    number = int(values[0])
    return number if len(values) == 8 + number % 500 and (values == number).all() else -1

dataset = mx.gluon.data.RecordFileDataset(sys.argv[1]).transform(number_of)
wrong = 0
for _ in range(10):
    loader = mx.gluon.data.DataLoader(dataset, 50, num_workers=8, thread_pool=True)
    numbers = np.concatenate([batch.asnumpy() for batch in loader])
    wrong += int((numbers != np.arange(len(numbers))).sum())
    if wrong:
        break
sys.exit(3 if wrong else 0)
"""


def test_mxnets_own_thread_pool_gives_wrong_records_or_dies(numbered: str) -> None:
    ended = subprocess.run([sys.executable, "-c", THEIRS, numbered], capture_output=True, timeout=50, check=False)
    # 3: records were wrong. A signal, or 1 with MXNet's error: it lost its way in the file, and noticed.
    assert ended.returncode != 0
    assert ended.returncode in (3, 1) or ended.returncode < 0, ended.stderr.decode()
    if ended.returncode == 1:
        assert b"recordio" in ended.stderr.lower() or b"number_of" in ended.stderr, ended.stderr.decode()


def test_the_same_dataset_is_right_in_our_threads_some_ten_thousand_times(numbered: str) -> None:
    dataset = data.RecordFileDataset(numbered).transform(number_of)
    loader = gluon.DataLoader(dataset, 50, num_workers=8, thread_pool=True)
    for _ in range(4):
        assert np.concatenate([batch.asnumpy() for batch in loader]).tolist() == list(range(COUNT))
    loader.close()


def test_it_is_right_in_our_processes(numbered: str) -> None:
    loader = gluon.DataLoader(data.RecordFileDataset(numbered).transform(number_of), 100, num_workers=2)
    assert np.concatenate([batch.asnumpy() for batch in loader]).tolist() == list(range(COUNT))
    loader.close()


def test_images_decoded_by_mxnet_in_threads_are_right_some_thousand_times(image_records: ImageRecords) -> None:
    dataset = data.vision.ImageRecordDataset(str(image_records.path)).transform_first(lambda image: image.flip(1))
    expected = list(data.DataLoader(dataset, 10))
    loader = gluon.DataLoader(dataset, 10, num_workers=6, thread_pool=True)
    for _ in range(30):
        assert all(map(same, loader, expected))
    loader.close()


# ---------------------------------------------------------------------------------------------------------------------
# Where a reader can be
# ---------------------------------------------------------------------------------------------------------------------

Reader = Any
Dataset = Any


class Positions:
    """0 .. COUNT - 1, for datasets of a user's own."""

    def __len__(self) -> int:
        return COUNT


class Attribute(Positions):
    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.itself = self

    def __getitem__(self, position: int) -> int:
        return number_of(self.itself.reader.read_idx(position))


class SeekThenRead(Attribute):
    def __getitem__(self, position: int) -> int:
        self.reader.seek(self.reader.keys[position])
        return number_of(self.reader.read())


class Slots(Positions):
    __slots__ = ("__reader",)

    def __init__(self, reader: Reader) -> None:
        self.__reader = reader

    def __getitem__(self, position: int) -> int:
        return number_of(self.__reader.read_idx(position))


Named = collections.namedtuple("Named", ["reader", "other"])


class Containers(Positions):
    def __init__(self, reader: Reader) -> None:
        self.content = collections.OrderedDict(files=[Named(reader, None), (reader,)])

    def __getitem__(self, position: int) -> int:
        first, second = self.content["files"]
        assert first.reader is second[0]
        return number_of(first.reader.read_idx(position))


def in_closure(reader: Reader) -> Dataset:
    return data.SimpleDataset(range(COUNT)).transform(lambda position: number_of(reader.read_idx(position)))


def in_recursive_closure(reader: Reader) -> Dataset:
    def read(position: int, again: bool = True) -> int:
        return read(position, False) if again else number_of(reader.read_idx(position))

    return data.SimpleDataset(range(COUNT)).transform(read)


def read_with(reader: Reader, position: int) -> int:
    return number_of(reader.read_idx(position))


def in_partial(reader: Reader) -> Dataset:
    return data.SimpleDataset(range(COUNT)).transform(functools.partial(read_with, reader))


def in_bound_method(reader: Reader) -> Dataset:
    return data.SimpleDataset(range(COUNT)).transform(Attribute(reader).__getitem__)


def under_views(reader: Reader) -> Dataset:
    return (
        data.SimpleDataset(Attribute(reader))
        .transform(lambda n: n)
        .take(COUNT)
        .shard(1, 0)
        .sample(data.SequentialSampler(COUNT))
    )


PLACES: list[Callable[[Reader], Dataset]] = [
    Attribute,
    SeekThenRead,
    Slots,
    Containers,
    in_closure,
    in_recursive_closure,
    in_partial,
    in_bound_method,
    under_views,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_reader_is_found_wherever_the_dataset_keeps_it(place: Callable[[Reader], Dataset], numbered: str) -> None:
    loader = gluon.DataLoader(place(open_reader(numbered)), 50, num_workers=6, thread_pool=True)
    assert np.concatenate([batch.asnumpy() for batch in loader]).tolist() == list(range(COUNT))
    loader.close()


def test_all_of_them_go_to_processes(numbered: str) -> None:
    together = data.ArrayDataset(*(place(open_reader(numbered)) for place in PLACES)).take(40)
    loader = gluon.DataLoader(together, 20, num_workers=1)
    for number, batch in enumerate(loader):
        for column in batch:
            assert column.asnumpy().tolist() == list(range(20 * number, 20 * number + 20))
    loader.close()


def open_reader(path: str) -> Reader:
    return mx.recordio.MXIndexedRecordIO(path[:-4] + ".idx", path, "r")


@pytest.mark.parametrize("way", [WAYS["threads"], WAYS["processes"]], ids=["threads", "processes"])
def test_the_users_own_dataset_stays_as_it_was(way: dict[str, Any], numbered: str) -> None:
    reader = open_reader(numbered)
    dataset = data.SimpleDataset(Attribute(reader)).transform(lambda number: number)
    loader = gluon.DataLoader(dataset, 50, **way)
    next(iter(loader))
    loader.close()
    assert dataset._data._data.reader is reader
    assert reader.is_open
    assert [dataset[position] for position in (7, 0, 2999)] == [7, 0, 2999]


def test_what_holds_no_reader_is_not_copied() -> None:
    class Counting(Positions):
        asked = 0

        def __getitem__(self, position: int) -> int:
            self.asked += 1
            return position

    counting = Counting()
    loader = gluon.DataLoader(counting, 1000, num_workers=1, thread_pool=True)
    assert len(list(loader)) == 3
    assert counting.asked == COUNT
    loader.close()


class OwnReader(mx.recordio.MXIndexedRecordIO):  # type: ignore[misc]
    """A class whose ways nobody else knows."""


@pytest.mark.parametrize("way", [WAYS["threads"], WAYS["processes"]], ids=["threads", "processes"])
def test_a_reader_of_another_class_is_refused_where_it_cannot_be_shared(way: dict[str, Any], numbered: str) -> None:
    reader = OwnReader(numbered[:-4] + ".idx", numbered, "r")
    with pytest.raises(Exception, match="OwnReader") as caught:
        gluon.DataLoader(Attribute(reader), 50, **way)
    assert "num_workers=0" in str(caught.value)
    assert reader.is_open
    assert [batch.asnumpy()[0] for batch in gluon.DataLoader(Attribute(reader), 1500)] == [0, 1500]


# ---------------------------------------------------------------------------------------------------------------------
# Hybrid blocks
# ---------------------------------------------------------------------------------------------------------------------


def augmentation() -> Any:
    transforms = gluon.vision.transforms
    return transforms.Compose(
        [transforms.Resize(32), transforms.CenterCrop(28), transforms.ToTensor(), transforms.Normalize(0.5, 0.2)]
    )


def test_blocks_whose_graph_is_not_built_yet_are_built_by_one_thread(image_records: ImageRecords) -> None:
    images = data.vision.ImageRecordDataset(str(image_records.path))
    expected = list(data.DataLoader(images.transform_first(augmentation()), 5))
    for _ in range(15):
        loader = gluon.DataLoader(images.transform_first(augmentation()), 5, num_workers=6, thread_pool=True)
        assert all(map(same, loader, expected))
        loader.close()


def test_blocks_whose_graph_is_built_go_to_processes(image_records: ImageRecords) -> None:
    dataset = data.vision.ImageRecordDataset(str(image_records.path)).transform_first(augmentation())
    expected = list(data.DataLoader(dataset, 20))
    loader = gluon.DataLoader(dataset, 20, num_workers=1)
    assert all(map(same, loader, expected))
    loader.close()


# ---------------------------------------------------------------------------------------------------------------------
# Nothing forks
# ---------------------------------------------------------------------------------------------------------------------


def test_a_plain_script_works_with_processes(image_records: ImageRecords, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from asyncloader.gluon import DataLoader, vision\n"
        "sys.addaudithook(lambda event, _: event == 'os.fork' and sys.exit(9))\n"
        f"dataset = vision.ImageRecordDataset({str(image_records.path)!r}).transform(lambda image, label: label)\n"
        "print(sum(float(batch.sum().asscalar()) for batch in DataLoader(dataset, 16, num_workers=2)))\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=50, check=False, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    assert float(ended.stdout) == sum(image_records.labels)
