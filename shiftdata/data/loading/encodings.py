"""Encoders of texts and tables for `features_of`: a line of numbers for each example."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.format.schema import Feature
from shiftdata.errors import InputError
from shiftdata.stable import content_hash

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
