"""The columns of a dataset: names, order, types. Both halves of the house read them from here."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

__all__ = [
    "KEY_PATTERN",
    "POINTER_COLUMNS",
    "SPLITS",
    "Roles",
    "columns",
    "data_schema",
    "metadata_schema",
    "split_of_fold",
]

KEY_PATTERN = re.compile(r"[a-z0-9_-]{1,120}")

#: First fold of each split; folds run from 0 to 99.
SPLITS: dict[str, int] = {"train": 0, "validation": 50, "test": 70}

#: Where a row's encoded image lies: shard number, row in the shard, byte offset and length, sha256.
#: The hash is 32 bytes in a plain binary column: `datasets` 4.0 cannot read one of fixed width.
POINTER_COLUMNS: dict[str, pa.DataType] = {
    "shard": pa.int32(),
    "row": pa.int32(),
    "offset": pa.int64(),
    "length": pa.int32(),
    "sha256": pa.binary(),
}


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which column plays which part, and what the examples are."""

    nuisance: str
    label: str = "label"
    origin: str = "origin"
    modality: str = "image"


def split_of_fold(fold: int) -> str:
    """The canonical split of a fold: train < 50, validation 50-69, test >= 70.

    >>> [split_of_fold(fold) for fold in (0, 49, 50, 69, 70, 99)]
    ['train', 'train', 'validation', 'validation', 'test', 'test']
    """
    return [name for name, first in SPLITS.items() if fold >= first][-1]


def columns(nuisance: str) -> dict[str, pa.DataType]:
    """Every column but the example itself, in file order."""
    return {
        "key": pa.string(),
        "split": pa.string(),
        "fold": pa.int8(),
        "label": pa.int64(),
        nuisance: pa.int64(),
        "severity": pa.float64(),
        "group": pa.int32(),
        "origin": pa.string(),
        "quantile": pa.float64(),
        "license": pa.string(),
        "attribution": pa.string(),
        "params": pa.string(),
    }


def data_schema(nuisance: str, labels: Sequence[str], nuisances: Sequence[str]) -> pa.Schema:
    """The schema of `data/` files: all columns and the image, with `datasets` features inside."""
    image = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    return _with_features(columns(nuisance) | {"image": image}, nuisance, labels, nuisances)


def metadata_schema(nuisance: str, labels: Sequence[str], nuisances: Sequence[str]) -> pa.Schema:
    """The schema of `metadata/` files: all columns and the pointer to the image's bytes."""
    return _with_features(columns(nuisance) | POINTER_COLUMNS, nuisance, labels, nuisances)


def _with_features(
    fields: dict[str, pa.DataType], nuisance: str, labels: Sequence[str], nuisances: Sequence[str]
) -> pa.Schema:
    """Add the schema key from which `datasets` takes its features, so that the YAML need not carry them."""
    classes = {"label": list(labels), nuisance: list(nuisances)}
    features: dict[str, Any] = {}
    for name, kind in fields.items():
        if name in classes:
            features[name] = {"names": classes[name], "_type": "ClassLabel"}
        elif name == "image":
            features[name] = {"_type": "Image"}
        else:
            features[name] = {"dtype": _feature_dtype(kind), "_type": "Value"}
    info = json.dumps({"info": {"features": features}})
    return pa.schema(fields, metadata={"huggingface": info})


def _feature_dtype(kind: pa.DataType) -> str:
    """The name `datasets` gives an Arrow type."""
    return {"double": "float64"}.get(str(kind), str(kind))
