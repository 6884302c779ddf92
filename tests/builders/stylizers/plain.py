"""AdaIN once more, by loops over numpy arrays in doubles: the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.signal import correlate
from torch import Tensor

Array = NDArray[np.float64]
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def convolved(x: Array, weight: Tensor, bias: Tensor, pad: str) -> Array:
    side = weight.shape[-1]
    border = side // 2
    x = np.pad(x, [(0, 0), (border, border), (border, border)], mode=pad)
    rows = [
        sum(correlate(x[c], kernel[c].double().numpy(), mode="valid") for c in range(len(x)))
        for kernel in weight
    ]
    return np.stack(rows) + bias.double().numpy()[:, None, None]


def halved(x: Array) -> Array:
    c, h, w = x.shape
    return x.reshape(c, h // 2, 2, w // 2, 2).max(axis=(2, 4))


def encoded(
    pixels: Array, state: Mapping[str, Tensor], names: Sequence[str], pad: str, last: str
) -> dict[str, Array]:
    """Every layer up to one, from what the network reads (3 x h x w)."""
    x, layers = pixels, {}
    kernels = [(state[key], state[key.replace("weight", "bias")]) for key in state if key.endswith("weight")]
    for name, (weight, bias) in zip(names, kernels, strict=True):
        if name.endswith("_1") and name != "conv1_1":
            x = halved(x)
        x = convolved(x, weight, bias, pad)
        if name == "colours":
            continue
        x = np.maximum(x, 0)
        layers[name.replace("conv", "relu")] = x
        if name.replace("conv", "relu") == last:
            break
    return layers


def decoded(x: Array, state: Mapping[str, Tensor], doubled: Sequence[int]) -> Array:
    """From features to what the decoder gives; after some of its convolutions the map is doubled."""
    keys = [key for key in state if key.endswith("weight")]
    for number, key in enumerate(keys):
        x = convolved(x, state[key], state[key.replace("weight", "bias")], "reflect")
        if number < len(keys) - 1:
            x = np.maximum(x, 0)
        if number in doubled:
            x = x.repeat(2, axis=1).repeat(2, axis=2)
    return x


def moments(x: Array, variant: str) -> tuple[Array, Array]:
    mean, variance = x.mean(axis=(1, 2)), x.var(axis=(1, 2), ddof=1)
    deviation = np.sqrt(variance + 1e-5) if variant == "vgg19-normalised" else np.sqrt(variance) + 1e-6
    return mean[:, None, None], deviation[:, None, None]


def read(pixels: NDArray[np.uint8], variant: str) -> Array:
    x = pixels.astype(float) / 255
    return (x if variant == "vgg19-normalised" else (x - MEAN) / STD).transpose(2, 0, 1)


def shown(y: Array, variant: str) -> Array:
    """From 0 to 255, not yet rounded."""
    y = y.transpose(1, 2, 0)
    if variant == "vgg19":
        y = y * STD + MEAN
    return y.clip(0, 1) * 255
