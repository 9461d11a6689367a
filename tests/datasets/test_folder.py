"""Loose pictures, one folder a class: what is listed, what is read, and what one bad file costs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import asyncloader as al
from asyncloader.errors import DecodeError, LoaderWarning, MissingFileError


def save(path: Path, shade: int, size: tuple[int, int] = (32, 24)) -> Path:
    """Save a picture of one shade: lossless, so that what is loaded can be told from its pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (shade, shade, shade)).save(path, "PNG")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three classes, one with nested folders and one with a name that is not ASCII."""
    root = tmp_path / "pictures"
    save(root / "b" / "2.png", 2)
    save(root / "b" / "1.PNG", 1)
    save(root / "b" / "deep" / "er" / "3.png", 3)
    save(root / "a" / "0.png", 0)
    save(root / "für ähnliche 猫" / "ünïcode 图.png", 4)
    (root / "b" / "notes.txt").write_text("no picture")
    (root / "loose.png").write_bytes((root / "a" / "0.png").read_bytes())
    return root


def shades(samples: Any) -> list[int]:
    return [int(image[0, 0, 0]) for image, _ in samples]


def test_pictures_come_in_sorted_order_with_their_folders_as_labels(root: Path) -> None:
    dataset = al.ImageFolderDataset(root)
    assert dataset.classes == ["a", "b", "für ähnliche 猫"]
    assert dataset.class_to_idx == {name: label for label, name in enumerate(dataset.classes)}
    assert shades(dataset) == [0, 1, 2, 3, 4]
    assert [int(label) for _, label in dataset] == [0, 1, 1, 1, 2]
    assert all(os.path.isabs(path) for path in dataset.paths)
    image, label = dataset[-1]
    assert (image.shape, image.dtype, label.dtype) == ((24, 32, 3), np.uint8, np.int64)


@pytest.mark.parametrize("arguments", [{}, {"num_workers": 0}, {"workers": "processes", "num_workers": 2}])
@pytest.mark.usefixtures("no_leaks")
async def test_any_workers_give_what_the_dataset_gives(arguments: dict[str, Any], root: Path) -> None:
    dataset = al.ImageFolderDataset(root)
    async with al.AsyncDataLoader(dataset, 2, **arguments) as loader:
        batches = [batch async for batch in loader]
    assert np.concatenate([images for images, _ in batches])[:, 0, 0, 0].tolist() == shades(dataset)
    assert np.concatenate([labels for _, labels in batches]).tolist() == [0, 1, 1, 1, 2]


@pytest.mark.usefixtures("no_leaks")
async def test_files_are_read_while_other_tasks_run(root: Path) -> None:
    for number in range(200):
        save(root / "c" / f"{number:03}.png", number)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    async with al.AsyncDataLoader(al.ImageFolderDataset(root), 50, num_workers=1, prefetch=1) as loader:
        assert len([batch async for batch in loader]) == 5
    counting.cancel()
    # Reading on the loop would leave others a turn or two a batch, however long the files take.
    assert turns > 100


@pytest.mark.parametrize("arguments", [{}, {"num_workers": 0}, {"workers": "processes", "num_workers": 1}])
@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (Path.unlink, MissingFileError),
        (lambda path: path.write_bytes(b""), DecodeError),
        (lambda path: path.write_bytes(b"no picture at all"), DecodeError),
        (lambda path: path.write_bytes(path.read_bytes()[:60]), DecodeError),
    ],
    ids=["deleted", "empty", "no picture", "cut short"],
)
def test_a_bad_file_is_named_and_costs_itself_alone(
    spoil: Any, kind: type[Exception], arguments: dict[str, Any], root: Path
) -> None:
    dataset = al.ImageFolderDataset(root)
    spoil(Path(dataset.paths[2]))
    with pytest.raises(kind) as caught, al.DataLoader(dataset, 2, **arguments) as loader:
        list(loader)
    assert dataset.paths[2] in str(caught.value)
    with (
        al.DataLoader(dataset, 2, on_error="skip", **arguments) as loader,
        pytest.warns(LoaderWarning, match="skipped"),
    ):
        rest = [int(image[0, 0, 0]) for images, _ in loader for image in images]
    assert rest == [0, 1, 3, 4]
    assert loader.stats()["skipped"] == 1


def test_a_folder_without_pictures_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="no images"):
        al.ImageFolderDataset(tmp_path)
    with pytest.raises(MissingFileError, match="not a folder"):
        al.ImageFolderDataset(tmp_path / "nowhere")
