"""What comes of each file of the corpus: see its README for what is wrong with them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import asyncloader as al
from asyncloader import recordio
from asyncloader.errors import (
    AsyncLoaderError,
    CorruptRecordError,
    DecodeError,
    IndexFileError,
    LoaderWarning,
)
from tests.cli.conftest import Run, run

__all__ = ["run"]  # a fixture

CORPUS = Path(__file__).with_name("corpus")
PAYLOADS = [b"the payload of record %d" % number + b"." * (number + 1) for number in range(6)]
ALL = {0, 1, 2, 3, 4, 5}

#: The records that are whole, where the damage begins, and what is said of it.
DAMAGED = {
    "cut-in-the-head": ({0, 1, 2, 3, 4}, 176, "ends at byte 181"),
    "cut-in-the-payload": ({0, 1, 2, 3, 4}, 176, "claims 29 bytes, but the file ends at byte 191"),
    "cut-in-the-padding": ({0, 1, 2, 3, 4}, 176, "claims 29 bytes, but the file ends at byte 215"),
    "wrong-magic": (ALL - {2}, 68, "magic number 0xced7230a was expected, not 0xcfd7230a"),
    "length-past-the-end": (ALL - {2}, 68, "claims 536870911 bytes, but the file ends at byte 216"),
    "length-into-the-next": (ALL - {2}, 68, "claims 46 bytes, but another begins at 104"),
    "first-part-without-a-last": (ALL - {2}, 68, "of kind 0, not 2 or 3"),
    "middle-part-alone": (ALL - {2}, 68, "of kind 2, not 0 or 1"),
    "last-part-alone": (ALL - {2}, 68, "of kind 3, not 0 or 1"),
    "unknown-kind": (ALL - {2}, 68, "of kind 5, not 0 or 1"),
    "bytes-between": (ALL, 104, "magic number"),
    "a-hole": (ALL - {2}, 68, "magic number 0xced7230a was expected, not 0x0"),
    "a-page-lost": (ALL - {2}, 68, "magic number"),
    "zeros-at-the-end": (ALL, 216, "magic number 0xced7230a was expected, not 0x0"),
}

#: What is said of the index when the file is opened; None where that shows only when records are read.
BAD_INDEXES = {
    "index-of-minus-one": "line 2.*offset is -1",
    "index-past-the-end": "line 2.*616",
    "index-between-words": "line 2.*34",
    "index-of-another-file": None,
    "index-empty": "names no record",
    "index-without-tabs": "line 1.*a tab",
    "index-with-an-empty-offset": "line 2.*a tab",
    "index-of-bytes": "line 1.*a tab",
}


def test_each_file_has_its_place_here_and_in_the_readme() -> None:
    names = {path.stem for path in CORPUS.glob("*.rec")}
    assert names == DAMAGED.keys() | BAD_INDEXES.keys() | {"length-too-short", "pictures"}
    told = re.findall(r"`([\w-]+)`", (CORPUS / "README.md").read_text(encoding="utf-8"))
    stems = [name if not name.startswith("-") else f"cut-in-the{name}" for name in told]
    assert names <= set(stems)


@pytest.mark.parametrize(("name", "expected"), DAMAGED.items(), ids=DAMAGED)
def test_damage_is_found_where_it_is_and_all_else_is_saved(name: str, expected: Any, run: Run, tmp_path: Path) -> None:
    whole, offset, says = expected
    path = CORPUS / f"{name}.rec"
    with pytest.raises(CorruptRecordError, match=re.escape(says)) as caught:
        recordio.RecordReader(path)
    assert caught.value.offset == offset
    assert str(path) in str(caught.value)
    outcome = run("verify", path, "--repair", tmp_path / "saved.rec", "--json")
    assert outcome.status == 1
    [damage] = outcome.json["damaged"]
    assert damage["offset"] == offset
    assert says in damage["reason"]
    with recordio.RecordReader(tmp_path / "saved.rec") as saved:
        assert saved.read_many(range(len(saved))) == [PAYLOADS[number] for number in sorted(whole)]


def test_a_record_whose_length_is_too_short_is_what_it_says_and_the_rest_is_damage(run: Run) -> None:
    outcome = run("verify", CORPUS / "length-too-short.rec", "--json")
    assert (outcome.status, outcome.json["records"]) == (1, 6)
    assert [(damage["offset"], damage["end"]) for damage in outcome.json["damaged"]] == [(96, 104)]


@pytest.mark.parametrize(("name", "says"), BAD_INDEXES.items(), ids=BAD_INDEXES)
def test_an_index_that_does_not_fit_is_found_out(name: str, says: str | None, run: Run, tmp_path: Path) -> None:
    path = CORPUS / f"{name}.rec"
    if says is not None:
        with pytest.raises(IndexFileError, match=says) as caught:
            recordio.RecordReader(path)
        assert "asyncloader index" in str(caught.value)
    else:
        with recordio.RecordReader(path) as reader:
            assert reader.read_many([0, 1]) == PAYLOADS[:2]
            with pytest.raises(CorruptRecordError, match="byte offset 64"):
                reader.read(2)
    outcome = run("verify", path, "--repair", tmp_path / "saved.rec", "--json")
    assert outcome.status == 1
    assert len(outcome.json["index"]["faults"]) == 1
    with recordio.RecordReader(tmp_path / "saved.rec") as saved:
        assert sorted(saved.read_many(range(len(saved)))) == PAYLOADS


@pytest.mark.parametrize("workers", [{"num_workers": 0}, {}, {"workers": "processes", "num_workers": 1}], ids=str)
def test_no_picture_of_the_corpus_is_decoded(workers: dict[str, Any]) -> None:
    dataset = al.ImageRecordDataset(CORPUS / "pictures.rec")
    says = ["empty", "not a picture", "50000 x 50000", "more pixels", "1000 labels", "header", "protobuf"]
    with al.DataLoader(dataset, None, on_error=str, **workers) as loader:
        errors = list(loader)
    assert len(errors) == len(says)
    for position, (error, expected) in enumerate(zip(errors, says, strict=True)):
        assert f"position {position}" in error
        assert expected in error
    with al.DataLoader(dataset, 4, on_error="skip", **workers) as loader:
        with pytest.warns(LoaderWarning, match="skipped"):
            assert not list(loader)
        assert loader.stats()["skipped"] == 7
    with pytest.raises(DecodeError), al.DataLoader(dataset, 4, **workers) as loader:
        list(loader)


def test_states_are_data_and_never_unpickled() -> None:
    state = al.DataLoader(al.ArrayDataset([1, 2, 3])).state_dict()
    assert json.loads(json.dumps(state)) == state
    with pytest.raises(AsyncLoaderError):
        al.DataLoader(al.ArrayDataset([1, 2, 3])).load_state_dict(b"cos\nsystem\n(S'true'\ntR.")  # type: ignore[arg-type]
