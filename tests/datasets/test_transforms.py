"""Every form of function that can be a transform, in threads and in processes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import asyncloader as al
from asyncloader.errors import SampleError


def shrink(image: Any) -> Any:
    return image[::2, ::2]


def shrink_by(step: int, image: Any) -> Any:
    return image[::step, ::step]


class Shrink:
    """Callable objects, and methods."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, image: Any) -> Any:
        return shrink_by(self.step, image)

    def method(self, image: Any) -> Any:
        return shrink_by(self.step, image)

    @classmethod
    def twice(cls, image: Any) -> Any:
        return shrink_by(2, image)


ON_IMAGES = {
    "function": shrink,
    "lambda": lambda image: image[::2, ::2],
    "partial": functools.partial(shrink_by, 2),
    "callable object": Shrink(2),
    "method": Shrink(2).method,
    "class method": Shrink.twice,
    "optional parameter": lambda image, step=2: image[::step, ::step],
    "any arguments": lambda *arguments: arguments[0][::2, ::2],
}
WORKERS = [{}, {"workers": "processes", "num_workers": 1}]


@pytest.mark.parametrize("arguments", WORKERS, ids=["threads", "processes"])
@pytest.mark.parametrize("form", ON_IMAGES)
def test_a_function_of_the_image_leaves_the_label(form: str, arguments: dict[str, Any], image_records: Any) -> None:
    dataset = al.ImageRecordDataset(image_records.path, transform=ON_IMAGES[form])
    with al.DataLoader(dataset, 35, **arguments) as loader:
        batches = list(loader)
    expected = [image_records.pixels(position)[::2, ::2] for position in range(70)]
    np.testing.assert_array_equal(np.concatenate([images for images, _ in batches]), expected)
    assert np.concatenate([labels for _, labels in batches]).tolist() == image_records.labels


@pytest.mark.parametrize("arguments", WORKERS, ids=["threads", "processes"])
def test_a_function_of_image_and_label_gives_the_whole_sample(arguments: dict[str, Any], image_records: Any) -> None:
    def named(image: Any, label: Any) -> dict[str, Any]:
        return {"mean": float(image.mean()), "name": f"number {label:.0f}"}

    dataset = al.ImageRecordDataset(image_records.path, transform=named)
    with al.DataLoader(dataset, 70, **arguments) as loader:
        [batch] = list(loader)
    assert batch["name"] == [f"number {label:.0f}" for label in image_records.labels]
    np.testing.assert_array_equal(batch["mean"], [image_records.pixels(position).mean() for position in range(70)])


def test_what_is_not_callable_is_refused_at_once(image_records: Any) -> None:
    with pytest.raises(TypeError, match="transform must be callable, not str"):
        al.ImageRecordDataset(image_records.path, transform="resize")


@pytest.mark.parametrize("arguments", WORKERS, ids=["threads", "processes"])
@pytest.mark.parametrize("form", [Shrink(0), functools.partial(shrink_by, 0)], ids=["callable object", "partial"])
def test_the_error_of_one_names_it_and_the_sample(form: Any, arguments: dict[str, Any], image_records: Any) -> None:
    dataset = al.ImageRecordDataset(image_records.path, transform=form)
    with pytest.raises(SampleError) as caught, al.DataLoader(dataset, 8, **arguments) as loader:
        list(loader)
    error = caught.value
    assert isinstance(error.__cause__, ValueError)
    assert error.position is not None
    assert error.key == image_records.keys[error.position]
    assert f"key {error.key}" in str(error)
    assert str(image_records.path) in str(error)
    assert "transform " in str(error)
    assert "Shrink" in str(error) or "shrink_by" in str(error)
