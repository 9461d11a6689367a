from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from asyncloader.cli.classifier import Classifier
from asyncloader.cli.shapes import CLASSES, draw_shape
from asyncloader.cli.training import EpochReport, to_square
from asyncloader.errors import LoaderWarning
from tests.cli.conftest import Copy, Run, image_record, sagemaker_record, write_records
from tests.conftest import ImageRecords

#: A row of the table: epoch, loss, accuracy, images a second, share of waiting.
ROW = re.compile(r" +(\d) +([\d.]+|-) +([\d.]+%|-) +([\d,]+) +([\d.]+)%")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_a_file_it_makes_a_set_and_learns_to_tell_its_classes_apart(run: Run, tmp_path: Path) -> None:
    outcome = run("demo", "--folder", tmp_path / "set")
    assert outcome.status == 0
    assert "each of 6,000 samples came exactly once in each of 2 epochs" in outcome.out
    rows = ROW.findall(outcome.out)
    assert [row[0] for row in rows] == ["1", "2"]
    assert float(rows[1][1]) < float(rows[0][1])
    assert float(rows[1][2].rstrip("%")) > 60  # a guess is right in 8 % of cases
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == [
        "asyncloader-demo.png",
        "shapes.idx",
        "shapes.rec",
    ]
    with Image.open(tmp_path / "set" / "asyncloader-demo.png") as sheet:
        assert sheet.format == "PNG"
    assert str(tmp_path / "set" / "asyncloader-demo.png") in outcome.out
    assert run("verify", tmp_path / "set" / "shapes.rec", "--decode").status == 0


@pytest.mark.parametrize("arguments", [[], ["--workers", "processes"], ["--num-workers", "0"]])
def test_a_file_is_trained_on_with_its_own_labels(
    run: Run, image_records: ImageRecords, tmp_path: Path, arguments: list[Any]
) -> None:
    outcome = run("demo", image_records.path, "--sheet", "mine.png", *arguments)
    assert outcome.status == 0
    assert "70 pictures" in outcome.out
    assert "a classifier of 10 classes" in outcome.out
    assert "each of 70 samples came exactly once in each of 2 epochs" in outcome.out
    assert (tmp_path / "mine.png").exists()


def test_the_result_does_not_depend_on_the_workers(run: Run, image_records: ImageRecords) -> None:
    tables = [
        [row[:3] for row in ROW.findall(run("demo", image_records.path, "--num-workers", n).out)] for n in (0, 1, 3)
    ]
    assert len(tables[0]) == 2
    assert tables[0] == tables[1] == tables[2]


def test_a_face_set_is_trained_on_by_its_people(run: Run, face_set: Path) -> None:
    outcome = run("demo", face_set)
    assert outcome.status == 0
    assert "60 pictures of 6 people" in outcome.out
    assert "a classifier of 6 classes" in outcome.out
    assert "each of 60 samples" in outcome.out


@pytest.mark.parametrize(
    "labels",
    [
        lambda number: number / 3,
        lambda number: float("nan"),
        lambda number: -1.0,
        lambda number: 5.0,
        lambda number: [2, 5, 0.1 * number],
        lambda number: [2, 5] * (1 + number % 3),
    ],
    ids=["fractions", "not numbers", "negative", "one class", "arrays", "arrays of any length"],
)
def test_labels_that_are_not_classes_are_loaded_without_learning(
    run: Run, tmp_path: Path, image_records: ImageRecords, labels: Callable[[int], float | list[float]]
) -> None:
    pictures = enumerate(image_records.jpegs)
    write_records(tmp_path / "set.rec", [image_record(labels(n), n, jpeg) for n, jpeg in pictures])
    outcome = run("demo", tmp_path / "set.rec")
    assert outcome.status == 0
    assert "nothing is learned" in outcome.out
    assert [row[1:3] for row in ROW.findall(outcome.out)] == [("-", "-"), ("-", "-")]
    assert "each of 70 samples came exactly once" in outcome.out


def test_pictures_that_do_not_load_are_counted_and_the_rest_still_comes_exactly_once(run: Run, copy: Copy) -> None:
    copy.damage([5, 6])
    with pytest.warns(LoaderWarning, match="position 5|position 6"):
        outcome = run("demo", copy.path)
    assert outcome.status == 0
    assert "each of 68 samples came exactly once" in outcome.out
    assert "2 samples more could not be loaded" in outcome.out


@pytest.mark.parametrize(
    ("payloads", "kind"),
    [
        ([sagemaker_record(1)] * 5, "protobuf"),
        ([b"text", b"more text"], "bytes"),
        ([b""], "empty"),
        ([image_record(1, 0, b"")], "header only"),
        ([b"\xff\xd8\xff\xe0 without a header"], "bare jpeg"),
    ],
)
def test_a_file_that_holds_no_pictures_is_refused_with_what_it_holds(
    run: Run, tmp_path: Path, payloads: list[bytes], kind: str
) -> None:
    write_records(tmp_path / "other.rec", payloads)
    outcome = run("demo", tmp_path / "other.rec")
    assert outcome.status == 1
    assert str(tmp_path / "other.rec") in outcome.err
    assert f"are {kind}," in outcome.err
    assert "asyncloader info" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_file_of_no_records_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.rec").touch()
    outcome = run("demo", tmp_path / "empty.rec")
    assert outcome.status == 1
    assert "no records" in outcome.err


def test_a_set_of_which_nothing_loads_is_an_error(run: Run, tmp_path: Path, image_records: ImageRecords) -> None:
    write_records(tmp_path / "cut.rec", [image_record(n % 2, n, image_records.jpegs[n][:200]) for n in range(10)])
    with pytest.warns(LoaderWarning):
        outcome = run("demo", tmp_path / "cut.rec")
    assert outcome.status == 1
    assert "not one sample could be loaded" in outcome.err


def test_a_folder_is_for_the_set_that_is_made(run: Run, image_records: ImageRecords, tmp_path: Path) -> None:
    assert run("demo", image_records.path, "--folder", tmp_path / "set").status == 2


def test_the_classifier_learns_the_shapes_it_was_not_shown() -> None:
    rng = np.random.default_rng(3)
    targets = np.arange(3000) % len(CLASSES)
    pictures = np.stack([draw_shape(label, rng) for label in targets.tolist()])
    classifier = Classifier(len(CLASSES))
    hits = [classifier.learn(pictures[s : s + 50], targets[s : s + 50])[1] for s in range(0, 3000, 50)]
    # Each batch is judged before it is learned from.
    assert sum(hits[:2]) < 50 < 75 < sum(hits[-2:])


@pytest.mark.parametrize(("height", "width"), [(40, 48), (48, 40), (1, 300), (700, 1200), (64, 64)])
def test_a_square_is_cut_from_the_middle_of_any_picture(height: int, width: int) -> None:
    picture = np.zeros((height, width, 3), np.uint8)
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    picture[top : top + side, left : left + side] = 200
    square = to_square(picture)
    assert square.shape == (64, 64, 3)
    assert (square == 200).all()


@pytest.mark.parametrize(
    ("times", "skipped", "exact"),
    [([1, 1, 1], 0, True), ([1, 0, 1], 1, True), ([1, 0, 1], 0, False), ([1, 2, 1], 0, False), ([2, 0, 1], 1, False)],
)
def test_an_epoch_is_exact_only_if_nothing_is_missing_or_repeated(times: list[int], skipped: int, exact: bool) -> None:
    report = EpochReport(None, None, sum(times), 1.0, 0.0, skipped, np.array(times))
    assert report.exact == exact
