"""Frozen features: EfficientNet-Lite0 with its supervised ImageNet weights, from its registry package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shiftdata.baselines.models import LITE_PIXELS, EfficientNet, Floats, efficientnet_weights
from shiftdata.extras import require
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

    modality, size = "image", 96

    def __init__(self) -> None:
        require("efficientnet_lite_pytorch", "EfficientNet-Lite0")
        self.fingerprint = fingerprint()

    @cached_property
    def _encoder(self) -> EfficientNet:
        """Load the network when it is used: features may come from files."""
        return EfficientNet().eval()

    def __call__(self, pictures: Sequence[Any] | NDArray[np.uint8], batch: int = 32) -> Floats:
        """Encode pictures of one size, in RGB."""
        x = torch.from_numpy(np.stack(list(pictures))).permute(0, 3, 1, 2)
        with torch_threads(), torch.inference_mode():
            return torch.cat([self._encoder(LITE_PIXELS(part)) for part in torch.split(x, batch)]).numpy()
