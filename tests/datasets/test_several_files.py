"""Several record files seen as one: lists, globs, keys that are strings, positions."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import asyncloader as al
from asyncloader import recordio
from asyncloader.errors import CorruptRecordError, FileChangedError, MissingFileError

SIZES = {"part-2.rec": 3, "part-0.rec": 5, "part-1.rec": 0}


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    for name, count in SIZES.items():
        path = tmp_path / name
        with recordio.RecordWriter(path, path.with_suffix(".idx")) as writer:
            for number in range(count):
                writer.write(f"{name} {number}".encode())
    return tmp_path


def expected(*names: str) -> list[bytes]:
    return [f"{name} {number}".encode() for name in names for number in range(SIZES[name])]


def test_a_glob_gives_its_files_in_sorted_order(parts: Path) -> None:
    dataset = al.RecordDataset(parts / "part-*.rec")
    assert list(dataset) == expected("part-0.rec", "part-1.rec", "part-2.rec")


def test_a_list_gives_its_files_in_the_order_given(parts: Path) -> None:
    dataset = al.RecordDataset([parts / "part-2.rec", str(parts / "part-0.rec")])
    assert list(dataset) == expected("part-2.rec", "part-0.rec")
    assert dataset[-1] == b"part-0.rec 4"
    for position in (8, -9):
        with pytest.raises(IndexError, match="8 samples"):
            dataset[position]


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "set[1].rec"
    with recordio.RecordWriter(path, path.with_suffix(".idx")) as writer:
        writer.write(b"the record")
    assert list(al.RecordDataset(path)) == [b"the record"]


def test_a_glob_of_nothing_is_an_error_that_shows_it(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"no file matches .*nothing-"):
        al.RecordDataset(tmp_path / "nothing-*.rec")


def test_one_index_for_several_files_is_refused(parts: Path) -> None:
    with pytest.raises(ValueError, match="index_path names the index of one file, but 3 were given"):
        al.RecordDataset(parts / "part-*.rec", parts / "part-0.idx")


@pytest.mark.parametrize("arguments", [{}, {"workers": "processes", "num_workers": 2}], ids=["threads", "processes"])
@pytest.mark.parametrize("index", ["beside the files", "none"])
@pytest.mark.usefixtures("no_leaks")
def test_any_workers_give_each_record_once(arguments: dict[str, Any], index: str, parts: Path) -> None:
    if index == "none":
        for path in parts.glob("*.idx"):
            path.unlink()
    with al.DataLoader(al.RecordDataset(parts / "part-*.rec"), 3, shuffle=True, **arguments) as loader:
        records = [bytes(record) for batch in loader for record in batch]
    assert sorted(records) == sorted(expected("part-0.rec", "part-1.rec", "part-2.rec"))


def test_a_bad_record_is_named_by_its_own_file_and_its_position_among_all(parts: Path) -> None:
    path = parts / "part-2.rec"
    damaged = bytearray(path.read_bytes())
    damaged[0] ^= 0xFF
    path.write_bytes(damaged)
    with (
        pytest.raises(CorruptRecordError) as caught,
        al.DataLoader(al.RecordDataset(parts / "part-*.rec"), 4) as loader,
    ):
        list(loader)
    assert str(path) in str(caught.value)
    assert (caught.value.position, caught.value.key, caught.value.offset) == (5, 0, 0)


def test_string_keys_are_positions_to_a_dataset_and_keys_to_an_error(tmp_path: Path) -> None:
    path = tmp_path / "named.rec"
    with recordio.RecordWriter(path) as writer:
        offsets = [writer.write(name.encode()) for name in ("cat", "dog")]
    path.with_suffix(".idx").write_text("cat\t0\ndog\t12\n", newline="\n")
    assert offsets is not None
    dataset = al.RecordDataset(path)
    assert list(dataset) == [b"cat", b"dog"]
    with path.open("r+b") as file:
        file.seek(12)
        file.write(b"xxxx")
    with pytest.raises(CorruptRecordError, match="key 'dog'"):
        dataset[1]


def test_a_pickled_dataset_reopens_its_files_by_path_and_notices_another_file(parts: Path) -> None:
    pickled = pickle.dumps(al.RecordDataset(parts / "part-*.rec"))
    assert list(pickle.loads(pickled)) == expected("part-0.rec", "part-1.rec", "part-2.rec")
    with (parts / "part-0.rec").open("ab") as file:
        file.write(bytes(8))
    with pytest.raises(FileChangedError, match=r"part-0\.rec has changed"):
        pickle.loads(pickled)
