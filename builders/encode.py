"""Turn examples into the bytes that are spooled, and those into the columns that are published."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from builders.sample import BadItem, Sample
from shiftdata.errors import InputError
from shiftdata.format.schema import FEATURE_TYPES, Feature, Modality, example_type, features_as_bytes

OFFSET_BYTES = 4  # Arrow keeps a 32-bit offset beside each text or image


class Encoding(Protocol):
    """What a recipe needs to publish examples of one modality."""

    @property
    def modality(self) -> Modality:
        """What the examples are."""

    @property
    def columns(self) -> dict[str, Feature]:
        """The columns that hold an example, in file order."""

    def encode(self, sample: Sample) -> bytes:
        """The example as bytes; equal examples give equal bytes. Their sha256 identifies it."""

    def arrays(self, keys: Sequence[str], encoded: Sequence[bytes]) -> list[pa.Array]:
        """The columns of some encoded examples."""

    def cell_bytes(self, key_lengths: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bytes that each example takes in memory, from the lengths of its key and its encoding."""


@dataclass(frozen=True, kw_only=True)
class ImageEncoding:
    """How pictures are stored. One encoding for all layers, so that it is no cue for the nuisance.

    JPEG and PNG bytes are equal over years of Pillow versions; those of WebP are not.
    """

    format: Literal["jpeg", "png"] = "jpeg"
    quality: int = 92

    def __post_init__(self) -> None:
        if self.format not in ("jpeg", "png"):
            raise InputError(f"the encoding must be 'jpeg' or 'png', got {self.format!r}")
        if not 1 <= self.quality <= 100:
            raise InputError(f"the quality must be between 1 and 100, got {self.quality}")

    @property
    def modality(self) -> Modality:
        """Pictures."""
        return "image"

    @property
    def columns(self) -> dict[str, Feature]:
        """One column, with the bytes and a file name."""
        return {"image": "image"}

    @property
    def suffix(self) -> str:
        """The file ending of the format."""
        return {"jpeg": ".jpg", "png": ".png"}[self.format]

    def encode(self, sample: Sample) -> bytes:
        """The encoded picture, without metadata."""
        picture = sample.image
        # Pillow would write comments, profiles and dates that came with the picture.
        bare = Image.frombytes(picture.mode, picture.size, picture.tobytes())
        buffer = io.BytesIO()
        if self.format == "jpeg":
            # Full colour resolution: halved, it would wash out the fine colour texture that makes a style.
            bare.save(buffer, "JPEG", quality=self.quality, subsampling=0)
        else:
            bare.save(buffer, "PNG", compress_level=6)
        return buffer.getvalue()

    def arrays(self, keys: Sequence[str], encoded: Sequence[bytes]) -> list[pa.Array]:
        """The bytes as they are, and the key as a file name."""
        paths = pa.array([f"{key}{self.suffix}" for key in keys], pa.string())
        parts = [pa.array(encoded, pa.binary()), paths]
        return [pa.StructArray.from_arrays(parts, fields=list(FEATURE_TYPES["image"]))]

    def cell_bytes(self, key_lengths: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The image and its file name."""
        return sizes + key_lengths + len(self.suffix) + 2 * OFFSET_BYTES


@dataclass(frozen=True, kw_only=True)
class TextEncoding:
    """Texts, stored as they are."""

    @property
    def modality(self) -> Modality:
        """Texts."""
        return "text"

    @property
    def columns(self) -> dict[str, Feature]:
        """One column."""
        return {"text": "string"}

    def encode(self, sample: Sample) -> bytes:
        """The text in UTF-8."""
        if not isinstance(sample.example, str):
            raise InputError(f"{sample.key} is no text, and the recipe's encoding is for texts")
        return sample.example.encode()

    def arrays(self, keys: Sequence[str], encoded: Sequence[bytes]) -> list[pa.Array]:
        """The texts."""
        return [pa.array([data.decode() for data in encoded], pa.string())]

    def cell_bytes(self, key_lengths: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The text."""
        return sizes + OFFSET_BYTES


@dataclass(frozen=True, kw_only=True)
class TableEncoding:
    """The features of a table's rows: each column has a type, or the names of its categories."""

    features: Mapping[str, Feature]

    def __post_init__(self) -> None:
        if not self.features:
            raise InputError("a table needs at least one feature column")
        allowed = sorted(set(FEATURE_TYPES) - {"image"})
        for name, feature in self.features.items():
            if isinstance(feature, str) and feature not in allowed:
                raise InputError(
                    f"the feature {name!r} has the type {feature!r}; allowed: {', '.join(allowed)}, "
                    "or a tuple with the names of its categories"
                )

    @property
    def modality(self) -> Modality:
        """Rows of a table."""
        return "table"

    @property
    def columns(self) -> dict[str, Feature]:
        """One column a feature."""
        return {
            name: feature if isinstance(feature, str) else list(feature)
            for name, feature in self.features.items()
        }

    def encode(self, sample: Sample) -> bytes:
        """The features as JSON, in the order of the columns; a category as the integer of its name."""
        if not isinstance(sample.example, Mapping):
            raise InputError(f"{sample.key} is no row of a table, and the recipe's encoding is for tables")
        try:
            values = [_stored(name, feature, sample.example[name]) for name, feature in self.features.items()]
        except KeyError as error:
            raise InputError(f"{sample.key} lacks the feature {error}") from error
        return features_as_bytes(values)

    def arrays(self, keys: Sequence[str], encoded: Sequence[bytes]) -> list[pa.Array]:
        """One array a feature."""
        rows = [json.loads(data) for data in encoded]
        kinds = [example_type(feature) for feature in self.features.values()]
        return [pa.array([row[number] for row in rows], kind) for number, kind in enumerate(kinds)]

    def cell_bytes(self, key_lengths: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Eight bytes a number; texts count as long as they are in JSON."""
        texts = sum(feature == "string" for feature in self.features.values())
        if texts:
            return sizes + texts * OFFSET_BYTES
        return np.full(len(sizes), 8 * len(self.features), dtype=np.int64)


def _stored(name: str, feature: Feature, value: Any) -> Any:
    """One feature as its column holds it; a value that the column cannot hold drops the row."""
    if value is None:
        return None
    if not isinstance(feature, str):
        if value not in feature:
            raise BadItem(f"{name} is not one of its categories")
        return list(feature).index(value)
    number = type(value) in (int, float) and math.isfinite(value)
    if feature == "float64" and number:
        return float(value)
    if feature == "int64" and number and value == int(value):  # as tables with gaps write whole numbers
        return int(value)
    if type(value) is {"string": str, "bool": bool, "int64": int}.get(feature):
        return value
    raise BadItem(f"{name} does not hold a {feature}")
