"""A PyTorch dataset written against MXNet reads the InsightFace layout with one line changed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import asyncloader as al  # noqa: E402

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "faces_torch.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The example as a module that child processes can import as well."""
    spec = importlib.util.spec_from_file_location("examples.faces_torch", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dataset(example: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = str(tmp_path_factory.mktemp("faces"))
    example.make_set(folder, people=5, pictures=8)
    return example.FaceDataset(folder)


def check(batches: list[Any], dataset: Any) -> None:
    """Compare batches with the samples one by one; the labels are what the set was made with."""
    images, labels = (torch.cat(column) for column in zip(*batches, strict=True))
    assert labels.tolist() == [number // 8 for number in range(40)]
    for number in range(40):
        assert torch.equal(images[number], dataset[number][0])


def test_the_header_says_which_records_are_faces(dataset: Any) -> None:
    assert len(dataset) == 40
    assert dataset.imgidx.tolist() == list(range(1, 41))
    image, label = dataset[39]
    assert (image.shape, label.dtype, int(label)) == ((3, 112, 112), torch.long, 4)


def test_its_samples_are_those_of_the_packages_own_dataset(dataset: Any) -> None:
    own = al.FaceRecordDataset(Path(dataset.imgrec.uri).parent)
    assert own.num_classes == 5
    for number in range(40):
        image, identity = own[number]
        found = ((dataset[number][0] + 1) * 127.5).round().byte().permute(1, 2, 0).numpy()
        np.testing.assert_array_equal(found, image)
        assert identity == number // 8


@pytest.mark.parametrize("method", [pytest.param("fork", marks=[pytest.mark.allow_fork, pytest.mark.posix]), "spawn"])
def test_pytorchs_own_loader_takes_it(method: str, dataset: Any) -> None:
    dataset[3]  # the reader is open, and was used, before the workers are
    loader = torch.utils.data.DataLoader(dataset, 16, num_workers=2, multiprocessing_context=method)
    check(list(loader), dataset)


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_our_loader_takes_it(workers: Literal["threads", "processes"], dataset: Any) -> None:
    collate = torch.utils.data.default_collate
    with al.DataLoader(dataset, 16, collate_fn=collate, workers=workers, num_workers=2) as loader:
        check(list(loader), dataset)


def test_the_example_trains() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=55, check=False, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in ended.stdout.splitlines()]
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 2
