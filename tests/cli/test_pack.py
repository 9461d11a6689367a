from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from asyncloader.cli.sources import entries_of_list
from asyncloader.errors import AsyncLoaderError
from asyncloader.recordio import RecordReader, unpack
from tests.cli.conftest import Run
from tests.conftest import ImageRecords


@pytest.fixture
def photos(tmp_path: Path, image_records: ImageRecords) -> Path:
    """Class folders: three pictures of cats and two of dogs."""
    root = tmp_path / "photos"
    for name, number in (("dog/a", 0), ("cat/b", 1), ("cat/a", 2), ("dog/b", 3), ("cat/deep/c", 4)):
        path = root / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_records.jpegs[number])
    return root


def contents(path: Path) -> list[tuple[object, object, bytes]]:
    """Keys, labels and pictures of a file."""
    with RecordReader(path) as reader:
        records = [(reader.index.key(p), *unpack(reader.read(p))) for p in range(len(reader))]
    return [(key, np.asarray(header.label).tolist(), picture) for key, header, picture in records]


def test_a_folder_of_classes_is_stored_as_it_is_with_labels_by_name(
    run: Run, photos: Path, tmp_path: Path, image_records: ImageRecords
) -> None:
    outcome = run("pack", photos, tmp_path / "out.rec")
    assert outcome.status == 0
    jpegs = image_records.jpegs
    assert contents(tmp_path / "out.rec") == [
        (0, 0.0, jpegs[2]),
        (1, 0.0, jpegs[1]),
        (2, 0.0, jpegs[4]),
        (3, 1.0, jpegs[0]),
        (4, 1.0, jpegs[3]),
    ]
    assert "label 0: cat" in outcome.out
    assert "label 1: dog" in outcome.out


def test_a_list_gives_keys_labels_and_order(
    run: Run, photos: Path, tmp_path: Path, image_records: ImageRecords
) -> None:
    list_path = tmp_path / "train.lst"
    list_path.write_text("437\t3.000000\tdog/a.jpg\n\n12\t1.5\t2.5\t-1\tcat/b.jpg\r\n")
    assert run("pack", list_path, tmp_path / "out.rec", "--root", photos).status == 0
    assert contents(tmp_path / "out.rec") == [
        (437, 3.0, image_records.jpegs[0]),
        (12, [1.5, 2.5, -1.0], image_records.jpegs[1]),
    ]


def test_a_list_s_paths_start_at_its_own_folder(run: Run, photos: Path, tmp_path: Path) -> None:
    (photos / "train.lst").write_text("0\t0\tdog/a.jpg\n")
    assert run("pack", photos / "train.lst", tmp_path / "out.rec").status == 0
    assert len(contents(tmp_path / "out.rec")) == 1


@pytest.mark.parametrize("path", ["../secret.jpg", "dog/../../secret.jpg", "{absolute}", ".", "dog/..", "nul\0.jpg"])
def test_a_list_cannot_lead_out_of_the_root(
    run: Run, photos: Path, tmp_path: Path, image_records: ImageRecords, path: str
) -> None:
    (tmp_path / "secret.jpg").write_bytes(image_records.jpegs[5])
    (tmp_path / "train.lst").write_text(f"0\t0\t{path.format(absolute=tmp_path / 'secret.jpg')}\n")
    outcome = run("pack", tmp_path / "train.lst", tmp_path / "out.rec", "--root", photos)
    assert outcome.status == 1
    assert "line 1" in outcome.err
    assert not (tmp_path / "out.rec").exists()


@pytest.mark.posix
def test_a_link_cannot_lead_out_of_the_root(
    run: Run, photos: Path, tmp_path: Path, image_records: ImageRecords
) -> None:
    (tmp_path / "secret.jpg").write_bytes(image_records.jpegs[5])
    (photos / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    (photos / "train.lst").write_text("0\t0\tlink.jpg\n")
    outcome = run("pack", photos / "train.lst", tmp_path / "out.rec")
    assert outcome.status == 1
    assert "does not lead to a file inside" in outcome.err


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("0\tdog/a.jpg\n", "line 1: an index, at least one label and a path"),
        ("0\t0\tdog/a.jpg\nx\t0\tdog/a.jpg\n", "line 2: the index must be a whole number"),
        ("-1\t0\tdog/a.jpg\n", "line 1: the index must be a whole number"),
        ("0\tcat\tdog/a.jpg\n", "line 1: the labels must be numbers"),
        ("5\t0\tdog/a.jpg\n5\t0\tdog/b.jpg\n", "line 2: the index 5 is that of line 1"),
        ("\n", "no lines"),
    ],
)
def test_a_bad_list_is_refused_by_its_line_before_anything_is_written(
    run: Run, photos: Path, tmp_path: Path, text: Any, fault: str
) -> None:
    (tmp_path / "train.lst").write_text(text)
    outcome = run("pack", tmp_path / "train.lst", tmp_path / "out.rec", "--root", photos)
    assert outcome.status == 1
    assert fault in outcome.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos", "train.lst"]


def test_a_file_that_is_no_picture_ends_the_work_and_leaves_nothing(run: Run, photos: Path, tmp_path: Path) -> None:
    (photos / "cat" / "z.jpg").write_text("no picture")
    outcome = run("pack", photos, tmp_path / "out.rec")
    assert outcome.status == 1
    assert str(photos / "cat" / "z.jpg") in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_bad_files_are_named_and_left_out_where_asked(run: Run, photos: Path, tmp_path: Path) -> None:
    (photos / "cat" / "z.jpg").write_text("no picture")
    (tmp_path / "train.lst").write_text("0\t0\tcat/z.jpg\n1\t0\tcat/a.jpg\n2\t0\tgone.jpg\n")
    outcome = run("pack", tmp_path / "train.lst", tmp_path / "out.rec", "--root", photos, "--skip-bad")
    assert outcome.status == 1
    assert [key for key, _, _ in contents(tmp_path / "out.rec")] == [1]
    assert str(photos / "cat" / "z.jpg") in outcome.err
    assert str(photos / "gone.jpg") in outcome.err
    assert "2 files left out" in outcome.out


def test_resizing_brings_the_short_side_to_the_size_asked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    for name, size in (("wide.png", (300, 100)), ("tall.jpg", (50, 120))):
        Image.new("RGB", size, (200, 30, 30)).save(tmp_path / "photos" / "a" / name)
    assert run("pack", tmp_path / "photos", tmp_path / "out.rec", "--resize", 80).status == 0
    pictures = [Image.open(io.BytesIO(picture)) for _, _, picture in contents(tmp_path / "out.rec")]
    assert [picture.format for picture in pictures] == ["JPEG", "JPEG"]
    assert [picture.size for picture in pictures] == [(80, 192), (240, 80)]


def test_a_lower_quality_gives_smaller_pictures(run: Run, tmp_path: Path) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "photos" / "a" / "noise.png")
    sizes = []
    for quality in (95, 20):
        assert run("pack", tmp_path / "photos", tmp_path / "out.rec", "--quality", quality, "--force").status == 0
        sizes.append(len(contents(tmp_path / "out.rec")[0][2]))
    assert sizes[1] < sizes[0] / 2


def test_replaces_files_only_when_forced(run: Run, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "out.idx").write_text("precious")
    assert run("pack", photos, tmp_path / "out.rec").status == 1
    assert (tmp_path / "out.idx").read_text() == "precious"
    assert run("pack", photos, tmp_path / "out.rec", "--force").status == 0


def test_a_folder_without_pictures_is_an_error(run: Run, tmp_path: Path) -> None:
    outcome = run("pack", tmp_path, tmp_path / "out.rec")
    assert outcome.status == 1
    assert "has no images" in outcome.err


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.one_of(
        st.binary(max_size=200),
        st.lists(
            st.lists(st.sampled_from(["0", "7", "1e9", "nan", "..", "/", "a.jpg", "", "\0", "C:a", "\\\\x\\y"]))
        ).map(lambda lines: "\n".join("\t".join(fields) for fields in lines).encode()),
    )
)
def test_whatever_a_list_holds_it_gives_paths_inside_the_root_or_an_error_of_ours(text: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.lst"
        path.write_bytes(text)
        try:
            entries = entries_of_list(path, Path(folder))
        except AsyncLoaderError:
            return
        root = os.path.realpath(folder)
        assert all(entry.path.startswith(root + os.sep) for entry in entries)
        assert len({entry.key for entry in entries}) == len(entries) > 0
