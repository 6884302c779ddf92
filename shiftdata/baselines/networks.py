"""Networks as methods see them, and small ones for pictures and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

CNN_WIDTHS = (32, 48, 96, 128)
WIDTHS = (32, 64, 128, 256)  # of the residual network
HIDDEN = 128


class Network(nn.Module):
    """An encoder and a linear head: methods read the features between them.

    `maps` are the parts of the encoder that make feature maps (n x channels x height x width), a stage each.
    `prepare` brings a batch into the range or form that published weights expect.
    """

    #: Replaces `encoder(x)`, by a share of the batch in each process. It gets the encoder, so that a copied
    #: network does not call the original, and is no module, so that names in the state stay.
    call: Callable[[nn.Module, Tensor], Tensor] | None = None

    def __init__(
        self,
        encoder: nn.Module,
        features: int,
        outputs: int,
        maps: Sequence[nn.Module] = (),
        prepare: Callable[[Any], Tensor] | None = None,
    ) -> None:
        super().__init__()
        for parameter in encoder.parameters():
            if parameter.ndim == 4:  # convolutions on processors are twice as fast in this order of axes
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        self.encoder, self.head, self.n_features = encoder, nn.Linear(features, outputs), features
        self.maps = tuple(maps)  # a tuple: they are registered as parts of the encoder already
        self.prepare = prepare

    def features(self, x: Tensor) -> Tensor:
        """Return the features that the head reads, a line a row."""
        features: Tensor = self.encoder(x) if self.call is None else self.call(self.encoder, x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


def batch_norms(network: nn.Module) -> list[_BatchNorm]:
    """Return the layers with statistics of a batch, nested ones too."""
    return [layer for layer in network.modules() if isinstance(layer, _BatchNorm)]


#: Layers that normalise a row by itself.
ROW_NORMS = (nn.LayerNorm, nn.GroupNorm, _InstanceNorm)


def norms(network: nn.Module) -> list[nn.Module]:
    """Return the layers that normalise: those with statistics of a batch, and those of each row."""
    return [layer for layer in network.modules() if isinstance(layer, (_BatchNorm, *ROW_NORMS))]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch to eval mode, and restore the mode of each part after it, as some norms may be frozen."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def hooked(parts: Sequence[nn.Module], hook: Callable[..., Any]) -> Iterator[None]:
    """Call a forward hook of some modules for a while."""
    hooks = [part.register_forward_hook(hook) for part in parts]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()


def _convolution(width: int, channels: int, kernel: int, stride: int) -> list[nn.Module]:
    layer = nn.Conv2d(width, channels, kernel, stride, kernel // 2, bias=False)
    return [layer, nn.BatchNorm2d(channels)]


class Magnitude(nn.Module):
    """Absolute values instead of ReLU: an edge from dark to light is one from light to dark."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs()


def small_cnn(_: int, outputs: int, factor: float = 1.0) -> Network:
    """Four convolutions, the maximum of neighbours between them and over quarters at the end.

    The first has instance norm, the others batch norm (after IBN-Net: Pan et al., 2018), and the first gives
    absolute values: with batch norm alone a domain of other colours is one class (MNIST-M after MNIST: .12
    are right), with instance norm and ReLU .52 are, with absolute values .67. With instance or group norm
    alone CIFAR-10 and PACS lose 4 to 10 points (docs/measured.md). All widths are `factor` times as large.
    """
    layers: list[nn.Module] = []
    widths = [max(1, round(factor * width)) for width in CNN_WIDTHS]
    for number, (width, channels) in enumerate(pairwise((3, *widths))):
        kernel, stride = (3, 1) if number else (5, 2)
        convolution, norm = _convolution(width, channels, kernel, stride)
        # A group a channel is instance norm, and a third as slow on processors.
        norm = norm if number else nn.GroupNorm(channels, channels)
        pool = nn.MaxPool2d(2, ceil_mode=True) if number in (1, 2) else nn.Identity()
        layers.append(nn.Sequential(convolution, norm, nn.ReLU() if number else Magnitude(), pool))
    encoder = nn.Sequential(*layers, nn.AdaptiveMaxPool2d(2), nn.Flatten())
    return Network(encoder, 4 * widths[-1], outputs, layers)


class Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, width: int, channels: int, stride: int) -> None:
        super().__init__()
        first, second = _convolution(width, channels, 3, stride), _convolution(channels, channels, 3, 1)
        self.body = nn.Sequential(*first, nn.ReLU(), *second)
        shortcut = nn.Sequential(*_convolution(width, channels, 1, stride))  # each draws, so that seeds agree
        self.shortcut = nn.Identity() if (width, stride) == (channels, 1) else shortcut

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def small_resnet(_: int, outputs: int) -> Network:
    """A residual network of nine layers (He et al., 2016), with the first layer of `small_cnn`.

    After 600 steps of 64 on rows of all contexts of `nico_glyphs` it has .75 right; with batch norm and ReLU
    in that layer, .10.
    """
    convolution = _convolution(3, WIDTHS[0], 3, 2)[0]
    stem = nn.Sequential(convolution, nn.GroupNorm(WIDTHS[0], WIDTHS[0]), Magnitude())
    stages = [Residual(*sizes) for sizes in zip((WIDTHS[0], *WIDTHS), WIDTHS, (1, 2, 2, 2), strict=False)]
    encoder = nn.Sequential(stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Network(encoder, WIDTHS[-1], outputs, stages)


def linear(features: int, outputs: int) -> Network:
    """One linear layer, which starts at 0."""
    network = Network(nn.Identity(), features, outputs)
    for weight in network.parameters():
        nn.init.zeros_(weight)
    return network


def mlp(features: int, outputs: int, norm: bool = False) -> Network:
    """Two hidden layers, with batch norm or without."""
    layers: list[nn.Module] = []
    for size in pairwise((features, HIDDEN, HIDDEN)):
        layers += [nn.Linear(*size), *([nn.BatchNorm1d(HIDDEN)] if norm else []), nn.ReLU()]
    return Network(nn.Sequential(*layers), HIDDEN, outputs)
