from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Copy, Run


def test_writes_the_offset_of_each_record_in_file_order(run: Run, copy: Copy) -> None:
    copy.index_path.unlink()
    outcome = run("index", copy.path)
    assert outcome.status == 0
    lines = [line.split("\t") for line in copy.index_path.read_text().splitlines()]
    assert [int(key) for key, _ in lines] == list(range(70))
    assert [int(offset) for _, offset in lines] == sorted(copy.offsets)
    assert outcome.err == ""


def test_writes_where_it_is_told(run: Run, copy: Copy, tmp_path: Path) -> None:
    before = copy.index_path.read_bytes()
    assert run("index", copy.path, "-o", tmp_path / "other.idx").status == 0
    assert len((tmp_path / "other.idx").read_text().splitlines()) == 70
    assert copy.index_path.read_bytes() == before


def test_replaces_an_index_only_when_forced(run: Run, copy: Copy) -> None:
    copy.index_path.write_text("made by hand")
    outcome = run("index", copy.path)
    assert outcome.status == 1
    assert "--force" in outcome.err
    assert copy.index_path.read_text() == "made by hand"
    assert run("index", copy.path, "--force").status == 0
    assert len(copy.index_path.read_text().splitlines()) == 70


def test_never_replaces_the_record_file(run: Run, copy: Copy) -> None:
    before = copy.path.read_bytes()
    assert run("index", copy.path, "-o", copy.path, "--force").status == 2
    assert copy.path.read_bytes() == before


def test_a_damaged_file_gets_no_index_and_the_old_one_stays(run: Run, copy: Copy) -> None:
    copy.damage([10])
    before = copy.index_path.read_bytes()
    outcome = run("index", copy.path, "--force")
    assert outcome.status == 1
    assert f"byte offset {copy.offsets[10]}" in outcome.err
    assert "verify --repair" in outcome.err
    assert copy.index_path.read_bytes() == before
    assert sorted(path.name for path in copy.path.parent.iterdir()) == ["copy.idx", "copy.rec"]


def test_a_missing_file_is_named_with_its_absolute_path(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run("index", "nowhere.rec")
    assert outcome.status == 1
    assert str(tmp_path / "nowhere.rec") in outcome.err
    assert not (tmp_path / "nowhere.idx").exists()
