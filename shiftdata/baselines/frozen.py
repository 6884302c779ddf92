"""Frozen features: EfficientNet-Lite0 with its supervised ImageNet weights, from its registry package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
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
    return f"efficientnet-lite0 {weights_hash()} {FEATURES_VERSION}"


def weights_hash() -> str:
    """Return the sha256 of the weights, read again only where the file has changed."""
    path = efficientnet_weights()
    state = path.stat()
    return _hash_of(path, state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=1)
def _hash_of(path: Path, *state: int) -> str:
    return sha256_of(path)


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
