from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from asyncloader.cli.survey import histogram
from tests.cli.conftest import Copy, Run, image_record, sagemaker_record, write_records
from tests.conftest import ImageRecords


def test_says_what_is_in_a_file_of_pictures(run: Run, image_records: ImageRecords) -> None:
    report = run("info", image_records.path, "--json").json
    sizes = sorted(map(len, image_records.payloads))
    assert report["path"] == str(image_records.path)
    assert report["bytes"] == image_records.path.stat().st_size
    assert report["index"] == str(image_records.index_path)
    assert report["records"] == report["looked_at"] == 70
    assert report["kinds"] == {"jpeg": 70}
    assert (report["sizes"]["smallest"], report["sizes"]["largest"]) == (sizes[0], sizes[-1])
    assert sum(bar["records"] for bar in report["sizes"]["histogram"]) == 70
    assert report["pictures"]["most_common"] == {"height": 40, "width": 48, "records": 70}
    assert report["labels"] == {"shapes": {"[]": 70}, "distinct": 10, "lowest": 0, "highest": 9}
    assert report["keys"] == {"type": "integers", "first": [1, 4, 7], "last": 208, "consecutive": False}
    assert report["damaged"] == 0


def test_says_the_same_as_text(run: Run, image_records: ImageRecords) -> None:
    outcome = run("info", image_records.path)
    assert outcome.status == 0
    assert "70 jpeg" in outcome.out
    assert "48 x 40 pixels" in outcome.out
    assert outcome.err == ""


def test_tells_kinds_of_payload_apart(run: Run, tmp_path: Path, image_records: ImageRecords) -> None:
    png = io.BytesIO()
    Image.new("RGB", (5, 3)).save(png, "PNG")
    payloads = {
        "jpeg": image_record(1, 0, image_records.jpegs[0]),
        "png": image_record([1, 2, 3], 1, png.getvalue()),
        "header only": image_record([61, 67], 2, b""),
        "empty": b"",
        "protobuf": sagemaker_record(1.5),
        "bytes": b"some text that is long enough to have been a header of some kind",
    }
    write_records(tmp_path / "mixed.rec", list(payloads.values()))
    report = run("info", tmp_path / "mixed.rec", "--json").json
    assert report["kinds"] == dict.fromkeys(payloads, 1)
    assert report["labels"]["shapes"] == {"[]": 1, "[3]": 1, "[2]": 1}
    assert report["index"] is None


def test_knows_a_face_set(run: Run, face_set: Path) -> None:
    report = run("info", face_set, "--json").json
    assert report["layout"] == "insightface"
    assert report["kinds"] == {"jpeg": 60, "header only": 7}


def test_an_empty_file_has_no_records(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.rec").touch()
    assert run("info", tmp_path / "empty.rec", "--json").json["records"] == 0
    assert run("info", tmp_path / "empty.rec").status == 0


def test_counts_damaged_records_and_shows_the_first(run: Run, copy: Copy) -> None:
    copy.damage([3, 20])
    outcome = run("info", copy.path, "--json")
    assert outcome.status == 0
    assert (outcome.json["damaged"], outcome.json["looked_at"]) == (2, 70)
    assert f"byte offset {copy.offsets[3]}" in outcome.json["first_damage"]
    assert "verify" in run("info", copy.path).out


def test_looks_at_a_part_of_a_large_file_and_says_so(run: Run, tmp_path: Path) -> None:
    write_records(tmp_path / "large.rec", [b"%d" % number for number in range(5000)])
    report = run("info", tmp_path / "large.rec", "--json").json
    assert report["records"] == 5000
    assert 0 < report["looked_at"] < 5000
    assert "spread over the file" in run("info", tmp_path / "large.rec").out


def test_writes_a_contact_sheet(run: Run, image_records: ImageRecords, tmp_path: Path) -> None:
    outcome = run("info", image_records.path, "--sheet", tmp_path / "sheet.png")
    assert str(tmp_path / "sheet.png") in outcome.out
    with Image.open(tmp_path / "sheet.png") as sheet:
        pixels = np.asarray(sheet.convert("RGB"))
    # The pictures have one bright square each, the sheet's background is dark.
    assert (pixels.min(axis=2) > 240).sum() > 64 * 100


def test_a_sheet_of_a_file_without_pictures_is_refused(run: Run, tmp_path: Path) -> None:
    write_records(tmp_path / "text.rec", [b"text"])
    outcome = run("info", tmp_path / "text.rec", "--sheet", tmp_path / "sheet.png")
    assert outcome.status == 1
    assert "no record looked at is a picture" in outcome.err
    assert not (tmp_path / "sheet.png").exists()


def test_a_sheet_never_replaces_a_record_file(run: Run, copy: Copy) -> None:
    before = copy.path.read_bytes()
    assert run("info", copy.path, "--sheet", copy.path).status == 2
    assert copy.path.read_bytes() == before


def test_an_index_of_another_file_is_an_error_that_says_what_to_do(run: Run, copy: Copy) -> None:
    copy.index_path.write_text("0\t4\n1\t99999999\n")
    outcome = run("info", copy.path)
    assert outcome.status == 1
    assert str(copy.index_path) in outcome.err
    assert "asyncloader index" in outcome.err
    assert "Traceback" not in outcome.err


@given(st.lists(st.integers(0, 1 << 29), max_size=50))
def test_a_histogram_counts_each_size_once_in_few_bars(sizes: list[int]) -> None:
    bars = histogram(sizes)
    assert sum(count for _, _, count in bars) == len(sizes)
    assert len(bars) <= 13
    for low, high, count in bars:
        assert low < high
        assert count >= sum(low <= size < high for size in sizes)
    assert [bar[1] for bar in bars[:-1]] == [bar[0] for bar in bars[1:]]


@pytest.mark.parametrize("key", ["[red]key[/red]", "a" * 500])
def test_keys_are_shown_as_they_are_but_short(run: Run, tmp_path: Path, key: str) -> None:
    write_records(tmp_path / "named.rec", [b"text"])
    (tmp_path / "named.idx").write_text(f"{key}\t0\n")
    outcome = run("info", tmp_path / "named.rec")
    assert key[:40] in outcome.out
    assert max(map(len, outcome.out.splitlines())) < 120 + len(str(tmp_path))
