"""The commands on what mxnet's own im2rec makes of real photographs, and mxnet on what the commands make."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import Run

mxnet = pytest.importorskip("mxnet")
pytest.importorskip("cv2")
datasets = pytest.importorskip("sklearn.datasets")

pytestmark = [pytest.mark.mxnet, pytest.mark.allow_fork]  # im2rec forks


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pieces of two photographs, a folder each, and the list and the record file that im2rec makes of them."""
    folder = tmp_path_factory.mktemp("photographs")
    rng = np.random.default_rng(0)
    for name, photo in zip(("china", "flower"), datasets.load_sample_images().images, strict=True):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(150):
            height, width = rng.integers(90, 250, 2)
            top, left = rng.integers(0, photo.shape[0] - height), rng.integers(0, photo.shape[1] - width)
            piece = Image.fromarray(photo[top : top + height, left : left + width])
            piece.save(folder / "photos" / name / f"{number:03}.jpg")
    im2rec = [sys.executable, "-m", "mxnet.tools.im2rec"]
    subprocess.run([*im2rec, "--list", "--recursive", "train", "photos"], cwd=folder, check=True, capture_output=True)
    subprocess.run([*im2rec, "train", "photos", "--pass-through"], cwd=folder, check=True, capture_output=True)
    return folder


def test_the_demo_learns_real_photographs(run: Run, photographs: Path, tmp_path: Path) -> None:
    outcome = run("demo", photographs / "train.rec", "--sheet", tmp_path / "sheet.png")
    assert outcome.status == 0
    assert "each of 300 samples came exactly once in each of 2 epochs" in outcome.out
    accuracies = [float(share) for share in re.findall(r"([\d.]+)%  +[\d,]+  ", outcome.out)]
    assert accuracies[-1] > 80  # of two classes


def test_a_list_packs_to_the_very_file_that_im2rec_makes(run: Run, photographs: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.rec"
    assert run("pack", photographs / "train.lst", packed, "--root", photographs / "photos").status == 0
    assert packed.read_bytes() == (photographs / "train.rec").read_bytes()
    assert packed.with_suffix(".idx").read_text() == (photographs / "train.idx").read_text()


def test_an_index_is_what_mxnet_reads_the_records_by(run: Run, photographs: Path, tmp_path: Path) -> None:
    index_path = tmp_path / "new.idx"
    assert run("index", photographs / "train.rec", "-o", index_path).status == 0
    by_key = mxnet.recordio.MXIndexedRecordIO(str(index_path), str(photographs / "train.rec"), "r")
    in_order = mxnet.recordio.MXRecordIO(str(photographs / "train.rec"), "r")
    assert [by_key.read_idx(key) for key in range(300)] == [in_order.read() for _ in range(300)]
    by_key.close()
    in_order.close()


def test_mxnet_reads_what_was_repaired(run: Run, photographs: Path, tmp_path: Path) -> None:
    data = bytearray((photographs / "train.rec").read_bytes())
    lines = [line.split("\t") for line in (photographs / "train.idx").read_text().splitlines()]
    lost = lines[7]
    data[int(lost[1])] ^= 0xFF
    (tmp_path / "bad.rec").write_bytes(data)
    (tmp_path / "bad.idx").write_bytes((photographs / "train.idx").read_bytes())
    assert run("verify", tmp_path / "bad.rec", "--repair", tmp_path / "good.rec").status == 1
    repaired = mxnet.recordio.MXIndexedRecordIO(str(tmp_path / "good.idx"), str(tmp_path / "good.rec"), "r")
    whole = mxnet.recordio.MXIndexedRecordIO(str(photographs / "train.idx"), str(photographs / "train.rec"), "r")
    assert repaired.keys == [int(key) for key, _ in lines if key != lost[0]]
    assert all(repaired.read_idx(key) == whole.read_idx(key) for key in repaired.keys)
    repaired.close()
    whole.close()
