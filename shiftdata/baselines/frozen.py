"""Frozen features: EfficientNet-Lite0 with its supervised ImageNet weights, from its registry package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines.models import LITE_PIXELS, EfficientNet, Floats, efficientnet_weights
from shiftdata.files import sha256_of
from shiftdata.threads import torch_threads

FEATURES = "EfficientNet-Lite0, supervised on ImageNet"
PRETRAINING = "supervised on ImageNet-1k: frozen features of EfficientNet-Lite0"
#: Raised with every change that changes a feature.
FEATURES_VERSION = 1


def fingerprint() -> str:
    """Name what determines the features of a picture: the weights, and this code."""
    return f"efficientnet-lite0 {sha256_of(efficientnet_weights())} {FEATURES_VERSION}"


class FrozenFeatures:
    """Pictures to 1,280 numbers each: the mean of the last feature map."""

    size = 96  # pixels of a picture's height and width

    def __init__(self) -> None:
        self._encoder = EfficientNet().eval()
        self.name = fingerprint()

    def __call__(self, x: Tensor, batch: int = 32) -> Floats:
        """Describe pictures, n x 3 x height x width as the loader gives them."""
        with torch_threads(), torch.inference_mode():
            return torch.cat([self._encoder(LITE_PIXELS(part)) for part in torch.split(x, batch)]).numpy()

    def pictures(self, pictures: Sequence[Any]) -> Floats:
        """Describe pictures of one size, in RGB."""
        return self(torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2))
