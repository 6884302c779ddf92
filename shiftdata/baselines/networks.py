"""Small networks that are trained from scratch: for pictures, for texts, for numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn

WIDTHS = (32, 64, 128, 256)
HIDDEN = 128
#: How many different bytes there are; 0 is what follows the end of a text.
BYTES = 256


class Network(nn.Module):
    """An encoder and a linear head: methods read what lies between them.

    `maps` are the parts of the encoder that make feature maps (n x channels x height x width), a stage each.
    """

    def __init__(
        self, encoder: nn.Module, head: nn.Module, features: int, maps: Sequence[nn.Module] = ()
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.n_features = encoder, head, features
        self.maps = tuple(maps)  # a tuple: torch has them as parts of the encoder already
        #: Calls the encoder: compiled, say, or shared by several processes.
        self.call: Callable[[nn.Module, Tensor], Tensor] | None = None

    def features(self, x: Tensor) -> Tensor:
        """The numbers that the head reads, a row each."""
        features: Tensor = self.encoder(x) if self.call is None else self.call(self.encoder, x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(x))
        return scores


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Eval mode, and afterwards each part's own mode again: some norms may be frozen."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All numbers of some tensors, one after another."""
    return torch.cat([one.detach().reshape(-1) for one in tensors])


@torch.no_grad()
def write(values: Tensor, tensors: Sequence[Tensor]) -> None:
    """Put what `flat` made back into its tensors."""
    sizes = [one.numel() for one in tensors]
    for one, part in zip(tensors, torch.split(values, sizes), strict=True):
        one.copy_(part.view(one.shape))


@contextmanager
def in_place(values: Tensor, tensors: Sequence[Tensor]) -> Iterator[None]:
    """Other numbers in some tensors, and afterwards their own again."""
    own = flat(tensors)
    write(values, tensors)
    try:
        yield
    finally:
        write(own, tensors)


def small_cnn(outputs: int) -> Network:
    """Four convolutions, each with batch norm and half the side of what it reads, then the mean.

    Pooling instead of strides is right for one picture in a hundred more, and takes three times as long.
    """
    layers: list[nn.Module] = []
    for before, width, kernel in zip((3, *WIDTHS), WIDTHS, (5, 3, 3, 3), strict=False):
        convolution = nn.Conv2d(before, width, kernel, stride=2, padding=kernel // 2, bias=False)
        layers += [convolution, nn.BatchNorm2d(width), nn.ReLU()]
    encoder = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Network(channels_last(encoder), nn.Linear(WIDTHS[-1], outputs), WIDTHS[-1], layers[2::3])


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        self.shortcut = nn.Identity() if before == width and stride == 1 else shortcut

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def small_resnet(outputs: int) -> Network:
    """A residual network of nine layers (He et al., 2016)."""
    stem = nn.Sequential(nn.Conv2d(3, WIDTHS[0], 3, 2, 1, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU())
    stages = [
        Residual(before, width, 1 if width == WIDTHS[0] else 2)
        for before, width in zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False)
    ]
    encoder = nn.Sequential(stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Network(channels_last(encoder), nn.Linear(WIDTHS[-1], outputs), WIDTHS[-1], stages)


def channels_last(encoder: nn.Module) -> nn.Module:
    """Lay out the weights of convolutions as processors read them: twice as fast."""
    for parameter in encoder.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return encoder


class TextEncoder(nn.Module):
    """Bytes to vectors, convolutions of three lengths over them, the largest answer of each (Kim, 2014)."""

    def __init__(self, width: int = 32, channels: int = 64) -> None:
        super().__init__()
        self.features = 3 * channels
        self.embed = nn.Embedding(BYTES, width, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, channels, length, padding=length // 2) for length in (3, 5, 7)
        )

    def forward(self, x: Tensor) -> Tensor:
        vectors = self.embed(x).transpose(1, 2)
        return torch.cat([torch.relu(one(vectors)).amax(2) for one in self.convolutions], 1)


def text_cnn(outputs: int) -> Network:
    """A small convolutional network over the bytes of a text."""
    encoder = TextEncoder()
    return Network(encoder, nn.Linear(encoder.features, outputs), encoder.features)


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
