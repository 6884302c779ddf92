"""Networks: an encoder from examples to numbers, and a head from these to a score for each class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftdata.errors import InputError, not_found

Floats: TypeAlias = NDArray[np.float32]
#: Brings a batch of inputs into the form that a network reads.
Prepare: TypeAlias = Callable[[Any], Tensor]

WIDTHS = (32, 64, 128, 256)
HIDDEN = 128


class Network(nn.Module):
    """An encoder and a linear head: methods read what lies between them."""

    def __init__(self, encoder: nn.Module, head: nn.Module, features: int) -> None:
        super().__init__()
        self.encoder, self.head, self.n_features = encoder, head, features

    def features(self, x: Tensor) -> Tensor:
        """The numbers that the head reads, a row each."""
        features: Tensor = self.encoder(x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.encoder(x))
        return scores


@dataclass(frozen=True)
class Backbone:
    """What is recorded of a network: its name, and what its weights have seen before."""

    name: str
    pretraining: str = ""


@contextmanager
def threads(number: int = 1) -> Iterator[None]:
    """In one thread: equal sums for any number of cores, and no waiting for others on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def small_cnn(outputs: int) -> Network:
    """Four convolutions, each with batch norm and half the side of what it reads, then the mean.

    Pooling instead of strides is right for one picture in a hundred more, and takes three times as long.
    """
    layers: list[nn.Module] = []
    for before, width, kernel in zip((3, *WIDTHS), WIDTHS, (5, 3, 3, 3), strict=False):
        convolution = nn.Conv2d(before, width, kernel, stride=2, padding=kernel // 2, bias=False)
        layers += [convolution, nn.BatchNorm2d(width), nn.ReLU()]
    encoder = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Network(encoder, nn.Linear(WIDTHS[-1], outputs), WIDTHS[-1])


def linear(features: int, outputs: int) -> Network:
    """One linear layer, which starts at 0."""
    layer = nn.Linear(features, outputs)
    for weight in layer.parameters():
        nn.init.zeros_(weight)
    return Network(nn.Identity(), layer, features)


def mlp(features: int, outputs: int, norm: bool = False) -> Network:
    """Two hidden layers, with batch norm or without."""
    layers: list[nn.Module] = []
    for size in pairwise((features, HIDDEN, HIDDEN)):
        layers += [nn.Linear(*size), *([nn.BatchNorm1d(HIDDEN)] if norm else []), nn.ReLU()]
    return Network(nn.Sequential(*layers), nn.Linear(HIDDEN, outputs), HIDDEN)


def pixels(x: Any) -> Tensor:
    """Networks read n x channels x height x width, from -2 to 2."""
    return torch.from_numpy(x).permute(0, 3, 1, 2).float().div(63.75).sub(2)


class Standardised:
    """Features to mean 0 and deviation 1 over the rows that a model is trained on; unknown ones to 0."""

    def __init__(self, x: Floats) -> None:
        known = np.isfinite(x)
        rows = np.maximum(known.sum(axis=0), 1)
        self._mean = np.where(known, x, 0).sum(axis=0) / rows
        variance = np.where(known, (x - self._mean) ** 2, 0).sum(axis=0) / rows
        self._scale = 1 / np.sqrt(np.where(variance > 1e-12, variance, 1))

    def __call__(self, x: Floats) -> Tensor:
        standardised: Floats = ((x - self._mean) * self._scale).astype(np.float32)
        return torch.from_numpy(np.nan_to_num(standardised))


BACKBONES = ("linear", "mlp", "mlp-bn", "small-cnn")


def default_backbone(shape: tuple[int, ...]) -> str:
    """A convolutional network for pictures, a linear layer for many features, hidden layers for few."""
    if len(shape) == 4:
        return "small-cnn"
    return "mlp" if shape[1] < 1000 else "linear"


def build(name: str | nn.Module | None, x: Any, fit: Any, outputs: int) -> tuple[Network, Prepare, Backbone]:
    """The network for some inputs, what brings a batch of them into its form, and its record.

    `x` are all inputs, `fit` the positions of those that it is trained on.
    """
    if isinstance(name, nn.Module):
        raise InputError("not yet")
    name = name or default_backbone(x.shape)
    if name not in BACKBONES:
        raise not_found("backbone", name, BACKBONES)
    if name == "small-cnn":
        network = small_cnn(outputs)
        for parameter in network.encoder.parameters():
            if parameter.ndim == 4:  # twice as fast on processors
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        return network, pixels, Backbone(name)
    network = linear(x.shape[1], outputs) if name == "linear" else mlp(x.shape[1], outputs, name == "mlp-bn")
    return network, Standardised(x[fit]), Backbone(name)
