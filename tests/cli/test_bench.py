from __future__ import annotations

from pathlib import Path

import pytest

from asyncloader.cli import lanes
from tests.cli.conftest import Copy, Run, write_records
from tests.conftest import ImageRecords


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_TURN", 0.01)


def test_a_file_of_pictures_is_measured_beside_the_bare_loop(run: Run, image_records: ImageRecords) -> None:
    report = run("bench", image_records.path, "--num-workers", 2, "--batch-size", 16, "--json").json
    assert report["unit"] == "images"
    assert (report["records"], report["of"]) == (70, 70)
    assert [lane["name"] for lane in report["lanes"]] == ["bare loop", "loader, threads", "loader, processes"]
    assert report["lanes"][0]["ratio"] == 1
    assert all(lane["per_second"] > 0 for lane in report["lanes"])
    assert all(lane["first_batch_seconds"] > 0 for lane in report["lanes"][1:])


def test_a_file_of_other_records_is_measured_without_decoding(run: Run, tmp_path: Path) -> None:
    write_records(tmp_path / "text.rec", [b"text %d" % number for number in range(500)])
    outcome = run("bench", tmp_path / "text.rec", "--num-workers", 1)
    assert outcome.status == 0
    assert "records/s" in outcome.out
    assert "500 records" in outcome.out
    assert outcome.err == ""


def test_a_file_of_no_records_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.rec").touch()
    outcome = run("bench", tmp_path / "empty.rec")
    assert outcome.status == 1
    assert "no records" in outcome.err


def test_a_damaged_record_is_an_error_that_names_it(run: Run, copy: Copy) -> None:
    copy.damage([9])
    outcome = run("bench", copy.path)
    assert outcome.status == 1
    assert f"byte offset {copy.offsets[9]}" in outcome.err
