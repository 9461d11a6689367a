from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from asyncloader.cli.names import FileNames
from tests.cli.conftest import Copy, Run, image_record, sagemaker_record, write_records
from tests.conftest import ImageRecords


def test_each_picture_becomes_a_file_with_its_key_and_label_in_a_table(
    run: Run, image_records: ImageRecords, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run("unpack", image_records.path, out).status == 0
    rows = [line.split("\t") for line in (out / "labels.tsv").read_text().splitlines()]
    assert [int(row[0]) for row in rows] == image_records.keys
    assert [float(row[1]) for row in rows] == image_records.labels
    assert [(out / row[2]).read_bytes() for row in rows] == image_records.jpegs
    assert len(list(out.iterdir())) == 71


def test_what_is_unpacked_can_be_packed_again(run: Run, image_records: ImageRecords, tmp_path: Path) -> None:
    assert run("unpack", image_records.path, tmp_path / "out").status == 0
    assert run("pack", tmp_path / "out" / "labels.tsv", tmp_path / "again.rec").status == 0
    assert run("unpack", tmp_path / "again.rec", tmp_path / "twice").status == 0
    for path in (tmp_path / "out").iterdir():
        assert (tmp_path / "twice" / path.name).read_bytes() == path.read_bytes()


def test_endings_say_what_a_file_holds(run: Run, tmp_path: Path, image_records: ImageRecords) -> None:
    payloads = [image_record([0.1, 2], 0, image_records.jpegs[0]), sagemaker_record(1), b"text", b""]
    write_records(tmp_path / "mixed.rec", payloads)
    assert run("unpack", tmp_path / "mixed.rec", tmp_path / "out").status == 0
    out = tmp_path / "out"
    assert (out / "0.jpg").read_bytes() == image_records.jpegs[0]
    assert [(out / name).read_bytes() for name in ("1.pb", "2.bin", "3.bin")] == payloads[1:]
    assert (out / "labels.tsv").read_text().splitlines()[0] == "0\t0.100000001\t2\t0.jpg"


def test_keys_cannot_lead_out_of_the_folder(run: Run, tmp_path: Path) -> None:
    keys = ["../evil", "/etc/evil", "a/../../evil", "..", ".", "C:\\evil", "labels", "CON", "A", "a"]
    offsets = write_records(tmp_path / "hostile.rec", [b"%d" % number for number in range(len(keys))])
    lines = "".join(f"{key}\t{offset}\n" for key, offset in zip(keys, offsets, strict=True))
    (tmp_path / "hostile.idx").write_text(lines)
    assert run("unpack", tmp_path / "hostile.rec", tmp_path / "out").status == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hostile.idx", "hostile.rec", "out"]
    rows = [line.split("\t") for line in (tmp_path / "out" / "labels.tsv").read_text().splitlines()]
    assert [row[0] for row in rows] == keys
    assert [(tmp_path / "out" / row[-1]).read_bytes() for row in rows] == [b"%d" % n for n in range(len(keys))]


def test_damaged_records_are_named_and_the_others_come_out(run: Run, copy: Copy, tmp_path: Path) -> None:
    copy.damage([2, 30])
    outcome = run("unpack", copy.path, tmp_path / "out")
    assert outcome.status == 1
    assert f"byte offset {copy.offsets[30]}" in outcome.err
    assert "2 records left out" in outcome.out
    assert len(list((tmp_path / "out").glob("*.jpg"))) == 68


def test_a_folder_that_is_not_empty_is_left_alone(run: Run, image_records: ImageRecords, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    outcome = run("unpack", image_records.path, tmp_path)
    assert outcome.status == 1
    assert "is not empty" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@given(st.lists(st.one_of(st.text(max_size=150), st.integers(), st.sampled_from(["con", "NUL.x", "lpt1", "-", "."]))))
def test_names_of_any_keys_are_distinct_and_safe_on_every_system(keys: list[int | str]) -> None:
    names = FileNames()
    given_names = [names.name(key, ".jpg") for key in keys]
    assert len({name.lower() for name in given_names}) == len(keys)
    for name in given_names:
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.jpg", name)
        assert len(name) < 200
        assert name.split(".")[0].upper() not in {"CON", "PRN", "AUX", "NUL", "COM1", "LPT1"}
