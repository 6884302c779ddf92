"""Networks that are trained here, from scratch: each gives a score to each class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.extras import require

Floats: TypeAlias = NDArray[np.float32]


WIDTHS = (32, 64, 128, 256)
HIDDEN = 128


@contextmanager
def one_thread() -> Iterator[None]:
    """In one thread: equal sums for any number of cores, and no waiting for others on a busy machine."""
    torch = require("torch", "training")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def small_cnn(outputs: int) -> Any:
    """Four convolutions, each with batch norm and half the side of what it reads, then the mean.

    Pooling instead of strides is right for one picture in a hundred more, and takes three times as long.
    """
    nn = require("torch", "a network").nn
    layers: list[Any] = []
    for before, width, kernel in zip((3, *WIDTHS), WIDTHS, (5, 3, 3, 3), strict=False):
        convolution = nn.Conv2d(before, width, kernel, stride=2, padding=kernel // 2, bias=False)
        layers += [convolution, nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], outputs))


def linear(features: int, outputs: int) -> Any:
    """One linear layer, which starts at 0."""
    torch = require("torch", "a network")
    layer = torch.nn.Linear(features, outputs)
    for weight in layer.parameters():
        torch.nn.init.zeros_(weight)
    return layer


def mlp(features: int, outputs: int) -> Any:
    """Two hidden layers."""
    nn = require("torch", "a network").nn
    layers: list[Any] = []
    for size in pairwise((features, HIDDEN, HIDDEN)):
        layers += [nn.Linear(*size), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, outputs))


class Standardised:
    """Features to mean 0 and deviation 1 over the rows that a model is trained on; unknown ones to 0."""

    def __init__(self, x: Floats) -> None:
        known = np.isfinite(x)
        rows = np.maximum(known.sum(axis=0), 1)
        self._mean = np.where(known, x, 0).sum(axis=0) / rows
        variance = np.where(known, (x - self._mean) ** 2, 0).sum(axis=0) / rows
        self._scale = 1 / np.sqrt(np.where(variance > 1e-12, variance, 1))

    def __call__(self, x: Floats) -> Floats:
        standardised: Floats = ((x - self._mean) * self._scale).astype(np.float32)
        return np.nan_to_num(standardised)
