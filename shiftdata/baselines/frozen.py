"""Frozen features: EfficientNet-Lite0 with its supervised ImageNet weights, from its registry package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.baselines.models import Floats, efficientnet, efficientnet_weights, threads
from shiftdata.extras import require
from shiftdata.files import sha256_of

FEATURES = "EfficientNet-Lite0, supervised on ImageNet"
PRETRAINING = "supervised on ImageNet-1k: frozen features of EfficientNet-Lite0"
#: Raised with every change that changes a feature.
FEATURES_VERSION = 1


def fingerprint() -> str:
    """What determines the features of a picture: the weights, and this code."""
    return f"efficientnet-lite0 {sha256_of(efficientnet_weights())} {FEATURES_VERSION}"


class FrozenFeatures:
    """Pictures of one size, in RGB, to 1,280 numbers each: the mean of the last feature map."""

    modality = "image"
    size = 96

    def __init__(self) -> None:
        self._torch = require("torch", "frozen features")
        require("efficientnet_lite_pytorch", "frozen features")
        self.fingerprint = fingerprint()

    @cached_property
    def _model(self) -> Any:
        """Load the network when it is used: features may come from files."""
        return efficientnet().eval()

    def __call__(self, pictures: Sequence[Any] | NDArray[np.uint8], batch: int = 32) -> Floats:
        pooled = []
        for at in range(0, len(pictures), batch):
            pixels = np.stack([np.asarray(one, np.float32) for one in pictures[at : at + batch]])
            inputs = self._torch.from_numpy((pixels.transpose(0, 3, 1, 2) - 127) / 128)
            with threads(), self._torch.inference_mode():
                features = self._model.extract_features(inputs)
            pooled.append(features.mean((2, 3)).numpy())
        return np.concatenate(pooled)
