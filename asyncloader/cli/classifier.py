"""A small classifier in plain numpy: one hidden layer, softmax, and Adam."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Classifier"]

#: Pictures are averaged down to so many pixels a side.
_GRID = 16
_HIDDEN = 128
_RATE, _DECAY_MEAN, _DECAY_SQUARE, _EPSILON = 3e-3, 0.9, 0.999, 1e-8


class Classifier:
    """Tells classes of square RGB pictures apart, and learns to.

    Parameters
    ----------
    classes : int
        How many.
    """

    def __init__(self, classes: int) -> None:
        rng = np.random.default_rng(0)
        inputs = _GRID * _GRID * 3
        self._weights = [
            rng.normal(0, np.sqrt(2 / inputs), (inputs, _HIDDEN)).astype(np.float32),
            np.zeros(_HIDDEN, np.float32),
            rng.normal(0, np.sqrt(1 / _HIDDEN), (_HIDDEN, classes)).astype(np.float32),
            np.zeros(classes, np.float32),
        ]
        self._means = [np.zeros_like(weight) for weight in self._weights]
        self._squares = [np.zeros_like(weight) for weight in self._weights]
        self._steps = 0

    def learn(self, pictures: NDArray[np.uint8], targets: NDArray[np.int64]) -> tuple[float, int]:
        """Judge a batch, then learn from it.

        Parameters
        ----------
        pictures : ndarray of uint8, shape (batch, side, side, 3)
            A multiple of 16 pixels a side.
        targets : ndarray of int64, shape (batch,)
            The right classes.

        Returns
        -------
        loss : float
            The mean cross entropy.
        hits : int
            How many were judged right, before anything was learned from them.
        """
        into_hidden, hidden_bias, into_classes, class_bias = self._weights
        inputs = _features(pictures)
        hidden = np.maximum(inputs @ into_hidden + hidden_bias, 0)
        scores = hidden @ into_classes + class_bias
        scores -= scores.max(axis=1, keepdims=True)
        likely = np.exp(scores)
        likely /= likely.sum(axis=1, keepdims=True)
        rows = np.arange(len(targets))
        loss = float(-np.log(likely[rows, targets] + _EPSILON).mean())
        hits = int((likely.argmax(axis=1) == targets).sum())
        likely[rows, targets] -= 1
        slope = likely / np.float32(len(targets))
        hidden_slope = (slope @ into_classes.T) * (hidden > 0)
        self._step([inputs.T @ hidden_slope, hidden_slope.sum(axis=0), hidden.T @ slope, slope.sum(axis=0)])
        return loss, hits

    def _step(self, slopes: list[NDArray[np.float32]]) -> None:
        """Move the weights (Adam: Kingma and Ba, 2015, algorithm 1)."""
        self._steps += 1
        rate = _RATE * np.sqrt(1 - _DECAY_SQUARE**self._steps) / (1 - _DECAY_MEAN**self._steps)
        for weight, mean, square, slope in zip(self._weights, self._means, self._squares, slopes, strict=True):
            mean += (1 - _DECAY_MEAN) * (slope - mean)
            square += (1 - _DECAY_SQUARE) * (slope * slope - square)
            weight -= np.float32(rate) * mean / (np.sqrt(square) + np.float32(_EPSILON))


def _features(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Average pictures down to the grid; then take out how light, and how rich in contrast, each is."""
    count, side = len(pictures), pictures.shape[1]
    blocks = pictures.reshape(count, _GRID, side // _GRID, _GRID, side // _GRID, 3)
    grid: NDArray[np.float32] = blocks.mean(axis=(2, 4), dtype=np.float32).reshape(count, -1)
    grid -= grid.mean(axis=1, keepdims=True)
    grid /= grid.std(axis=1, keepdims=True) + 1
    return grid
