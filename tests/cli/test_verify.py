from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncloader.recordio import RecordReader
from tests.cli.conftest import Copy, Run, copy_to, image_record, sagemaker_record, write_records
from tests.conftest import ImageRecords

same_run = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def contents(path: Path) -> dict[int | str, bytes]:
    """The records of a file by their keys, in the index's order."""
    with RecordReader(path) as reader:
        return {reader.index.key(position): reader.read(position) for position in range(len(reader))}


def test_a_whole_file_is_found_whole(run: Run, image_records: ImageRecords) -> None:
    outcome = run("verify", image_records.path, "--decode")
    assert outcome.status == 0
    assert "70 whole records, no damage" in outcome.out
    report = run("verify", image_records.path, "--json").json
    assert report["records"] == 70
    assert report["damaged"] == report["undecodable"] == report["index"]["faults"] == []


def test_an_empty_file_is_whole(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.rec").touch()
    assert run("verify", tmp_path / "empty.rec").status == 0


@same_run
@given(lost=st.sets(st.integers(0, 69)))
def test_each_damaged_record_is_listed_and_repair_saves_all_others(
    run: Run, image_records: ImageRecords, lost: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_to(image_records, Path(folder))
        copy.damage(sorted(lost))
        outcome = run("verify", copy.path, "--repair", Path(folder) / "saved.rec", "--json")
        report = outcome.json
        assert outcome.status == bool(lost)
        # Neighbours are one stretch of damage.
        ranges = [(damage["offset"], damage["end"]) for damage in report["damaged"]]
        assert {key for damage in report["damaged"] for key in damage["keys"]} == {copy.records.keys[p] for p in lost}
        for position in range(70):
            inside = any(begin <= copy.offsets[position] < end for begin, end in ranges)
            assert inside == (position in lost)
        whole = {key: p for p, key in enumerate(copy.records.keys) if p not in lost}
        saved = contents(Path(folder) / "saved.rec") if whole else {}
        assert list(saved) == list(whole)  # the index's order is kept too
        assert all(saved[key] == copy.records.payloads[position] for key, position in whole.items())
        assert report["repaired"]["records"] == len(whole)


@same_run
@given(data=st.data())
def test_what_is_whole_before_a_cut_is_saved_with_its_keys(run: Run, image_records: ImageRecords, data: Any) -> None:
    size = image_records.path.stat().st_size
    cut = data.draw(st.integers(1, size - 1))
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_to(image_records, Path(folder))
        copy.path.write_bytes(copy.path.read_bytes()[:cut])
        outcome = run("verify", copy.path, "--repair", Path(folder) / "saved.rec")
        assert outcome.status == 1
        whole = {copy.records.keys[p]: copy.records.payloads[p] for p in range(70) if copy.end(p) <= cut}
        assert (contents(Path(folder) / "saved.rec") if whole else {}) == whole


def test_the_offset_and_the_reason_are_said(run: Run, copy: Copy) -> None:
    copy.damage([7])
    outcome = run("verify", copy.path)
    assert outcome.status == 1
    assert f"damaged at byte offset {copy.offsets[7]} " in outcome.out
    assert f"key {copy.records.keys[7]}" in outcome.out
    assert "1 damaged stretch" in outcome.out


def test_decoding_finds_pictures_that_are_no_good(run: Run, tmp_path: Path, image_records: ImageRecords) -> None:
    good, broken = image_records.jpegs[0], image_records.jpegs[1][:-100]
    payloads = [image_record(1, 0, good), image_record(2, 1, broken), image_record(3, 2, b""), sagemaker_record(1)]
    offsets = write_records(tmp_path / "mixed.rec", payloads)
    assert run("verify", tmp_path / "mixed.rec").status == 0
    outcome = run("verify", tmp_path / "mixed.rec", "--decode", "--json")
    assert outcome.status == 1
    assert [record["offset"] for record in outcome.json["undecodable"]] == offsets[1:]
    reasons = [record["reason"] for record in outcome.json["undecodable"]]
    assert "damaged" in reasons[0]
    assert "empty" in reasons[1]
    assert "protobuf" in reasons[2]


def test_repair_leaves_out_what_does_not_decode_only_where_asked_to_decode(
    run: Run, tmp_path: Path, image_records: ImageRecords
) -> None:
    payloads = [image_record(1, 0, image_records.jpegs[0]), image_record(2, 1, b"no picture")]
    write_records(tmp_path / "mixed.rec", payloads)
    assert run("verify", tmp_path / "mixed.rec", "--repair", tmp_path / "all.rec").status == 0
    assert list(contents(tmp_path / "all.rec").values()) == payloads
    assert run("verify", tmp_path / "mixed.rec", "--repair", tmp_path / "one.rec", "--decode").status == 1
    assert list(contents(tmp_path / "one.rec").values()) == payloads[:1]


def test_the_headers_of_a_face_set_need_no_picture(run: Run, face_set: Path) -> None:
    assert run("verify", face_set, "--decode").status == 0


def test_index_lines_that_name_no_record_are_listed(run: Run, copy: Copy) -> None:
    lines = copy.index_path.read_text().splitlines()
    lines[4] = f"13\t{copy.offsets[4] + 4}"
    copy.index_path.write_text("\n".join(lines))
    outcome = run("verify", copy.path)
    assert outcome.status == 1
    assert f"line 5 (key 13): no record begins at byte offset {copy.offsets[4] + 4}" in outcome.out
    assert "does not name 1 record" in outcome.out


def test_an_index_that_cannot_be_read_is_a_fault_and_the_records_are_saved_without_it(run: Run, copy: Copy) -> None:
    copy.index_path.write_text("0\t18446744073709551615\n")
    outcome = run("verify", copy.path, "--repair", copy.path.with_name("saved.rec"), "--json")
    assert outcome.status == 1
    assert "line 1" in outcome.json["index"]["faults"][0]
    in_file_order = sorted(range(70), key=copy.offsets.__getitem__)
    assert contents(copy.path.with_name("saved.rec")) == {
        key: copy.records.payloads[position] for key, position in enumerate(in_file_order)
    }


@pytest.mark.parametrize("names", [["b", "a"], ["7", "3"]])
def test_records_that_the_index_does_not_name_are_saved_under_new_keys(
    run: Run, tmp_path: Path, names: list[str]
) -> None:
    offsets = write_records(tmp_path / "some.rec", [b"first", b"second", b"third"])
    (tmp_path / "some.idx").write_text(f"{names[0]}\t{offsets[2]}\n{names[1]}\t{offsets[0]}\n")
    assert run("verify", tmp_path / "some.rec", "--repair", tmp_path / "saved.rec").status == 0
    saved = contents(tmp_path / "saved.rec")
    assert list(saved.values()) == [b"third", b"first", b"second"]
    assert [str(key) for key in saved][:2] == names
    assert len(saved) == 3


@pytest.mark.parametrize("target", ["copy.rec", "saved.idx", "copy.other"])
def test_repair_never_writes_over_the_damaged_file_or_its_index(run: Run, copy: Copy, target: str) -> None:
    before = copy.path.read_bytes(), copy.index_path.read_bytes()
    assert run("verify", copy.path, "--repair", copy.path.with_name(target), "--force").status == 2
    assert (copy.path.read_bytes(), copy.index_path.read_bytes()) == before


def test_repair_replaces_other_files_only_when_forced(run: Run, copy: Copy) -> None:
    target = copy.path.with_name("saved.rec")
    target.write_text("precious")
    assert run("verify", copy.path, "--repair", target).status == 1
    assert target.read_text() == "precious"
    assert run("verify", copy.path, "--repair", target, "--force").status == 0
    assert len(contents(target)) == 70


def test_records_of_several_parts_are_saved_whole(run: Run, tmp_path: Path) -> None:
    from asyncloader.recordio import RecordWriter

    magic = bytes.fromhex("0a23d7ce")
    payloads = [b"abcd" + magic + b"efgh", magic, b"plain", magic * 3]
    with RecordWriter(tmp_path / "split.rec") as writer:
        for payload in payloads:
            writer.write(payload)
    assert run("verify", tmp_path / "split.rec", "--repair", tmp_path / "saved.rec").status == 0
    assert (tmp_path / "saved.rec").read_bytes() == (tmp_path / "split.rec").read_bytes()
