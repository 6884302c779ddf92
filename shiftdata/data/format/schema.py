"""The columns of a dataset: names, order, types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

KEY_PATTERN = re.compile(r"[a-z0-9_-]{1,120}")

#: First fold of each split; folds run from 0 to 99.
SPLITS: dict[str, int] = {"train": 0, "validation": 50, "test": 70}

Modality: TypeAlias = Literal["image", "text", "table"]

#: The feature in a column of an example: the name of a type, or the names of a category's values.
Feature: TypeAlias = str | Sequence[str]

#: The types that a column of an example may have; a category is stored as the integer of its name.
FEATURE_TYPES: dict[str, pa.DataType] = {
    "image": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
    "string": pa.string(),
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
}

#: The place of a row's example: shard number, row in the shard, byte offset and length, sha256.
#: Only encoded images have an offset: text and features are compressed with their neighbours.
#: The hash is 32 bytes in a plain binary column: `datasets` 4.0 cannot read one of fixed width.
POINTER_COLUMNS: dict[str, pa.DataType] = {
    "shard": pa.int32(),
    "row": pa.int32(),
    "offset": pa.int64(),
    "length": pa.int32(),
    "sha256": pa.binary(),
}

#: Names in metadata, for readers that know no `ClassLabel`.
NAME = pa.dictionary(pa.int32(), pa.string())
#: Names that metadata gives to columns of its own.
RESERVED = ("label_name", *POINTER_COLUMNS)
#: The most groups whose names each data file carries: 1,000 add 60 KB to its footer.
MOST_NAMED_GROUPS = 1000
#: The most that `names.json` lists.
MOST_LISTED_GROUPS = 100_000

#: Columns of a task in tars.
DRAWN: dict[str, pa.DataType] = {"count": pa.int32(), "copy": pa.int32()}
#: The columns of a frozen canonical split or task.
FROZEN = pa.schema({"key": pa.string(), "split": pa.string(), "count": pa.int32()})


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The columns of nuisance, label and origin, the modality, and the columns of examples."""

    nuisance: str
    label: str = "label"
    origin: str = "origin"
    modality: Modality = "image"
    example: Mapping[str, Feature] = field(default_factory=lambda: {"image": "image"})


def split_of_fold(fold: int) -> str:
    """Return the canonical split of a fold: train < 50, validation 50-69, test >= 70.

    >>> [split_of_fold(fold) for fold in (0, 49, 50, 69, 70, 99)]
    ['train', 'train', 'validation', 'validation', 'test', 'test']
    """
    return [name for name, first in SPLITS.items() if fold >= first][-1]


def columns(nuisance: str) -> dict[str, pa.DataType]:
    """Return every column but the example itself, in file order."""
    return {
        "key": pa.string(),
        "split": pa.string(),
        "fold": pa.int8(),
        "label": pa.int64(),
        nuisance: pa.int64(),
        "severity": pa.float64(),
        "group": pa.int64(),  # `datasets` makes no `ClassLabel` of other integers
        "origin": pa.string(),
        "quantile": pa.float64(),
        "license": pa.string(),
        "attribution": pa.string(),
        "params": pa.string(),
    }


def name_columns(nuisance: str) -> dict[str, pa.DataType]:
    """Return the columns of metadata that spell out label and nuisance."""
    return {"label_name": NAME, f"{nuisance}_name": NAME}


def group_names(labels: Sequence[str], nuisances: Sequence[str], most: int = MOST_NAMED_GROUPS) -> list[str]:
    """Name every group, in the order of their numbers; none if there are too many to list.

    >>> group_names(["bird"], ["leaves", "sky"])
    ['bird / leaves', 'bird / sky']
    """
    if len(labels) * len(nuisances) > most:
        return []
    return [f"{label} / {nuisance}" for label in labels for nuisance in nuisances]


def json_columns(nuisance: str) -> list[str]:
    """Return the columns of the `json` of a sample in tars: `params` are long, and only in the index."""
    return [name for name in columns(nuisance) if name != "params"]


def data_schema(roles: Roles, labels: Sequence[str], nuisances: Sequence[str]) -> pa.Schema:
    """Return the schema of `data/` files: all columns and the example, with `datasets` features inside."""
    example = {name: example_type(feature) for name, feature in roles.example.items()}
    known: dict[str, Feature] = {"label": labels, roles.nuisance: nuisances, **roles.example}
    if groups := group_names(labels, nuisances):
        known["group"] = groups
    return _with_features(columns(roles.nuisance) | example, known)


def metadata_schema(roles: Roles, labels: Sequence[str], nuisances: Sequence[str]) -> pa.Schema:
    """Return the schema of `metadata/` files: all columns, names, and the pointer to the example's bytes.

    They are read from afar, where the names of all groups would take more bytes than those of the rows.
    """
    fields = columns(roles.nuisance) | name_columns(roles.nuisance) | POINTER_COLUMNS
    known: dict[str, Feature] = {"label": labels, roles.nuisance: nuisances}
    return _with_features(fields, known | dict.fromkeys(name_columns(roles.nuisance), "string"))


def index_schema(nuisance: str, members: Sequence[str], *, task: bool = False) -> pa.Schema:
    """Return the schema of the index of a tar: all columns, the sha256, and the place of each member.

    In a task, `count` is the number of draws of the row, and `copy` that of this sample among them, from 1.
    In a set without labels, the columns that tell more than the picture and its nuisance are null.
    """
    drawn = DRAWN if task else {}
    places = {f"{member}_{part}": pa.int64() for member in members for part in ("offset", "length")}
    return pa.schema(columns(nuisance) | {"sha256": pa.binary()} | drawn | places)


def example_type(feature: Feature) -> pa.DataType:
    """Return the Arrow type of a column of an example."""
    return FEATURE_TYPES[feature] if isinstance(feature, str) else pa.int64()


def features_as_bytes(values: Sequence[Any]) -> bytes:
    """Return the bytes that identify a row of features, in the order of their columns.

    >>> features_as_bytes([1, 2.5, None, "x"])
    b'[1,2.5,null,"x"]'
    """
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def example_bytes(rows: pa.Table, roles: Roles) -> list[bytes | None]:
    """Return the bytes that identify each example: an encoded image, a text in UTF-8, features as JSON."""
    if roles.modality == "table":
        features = [rows[name].to_pylist() for name in roles.example]
        return [features_as_bytes(row) for row in zip(*features, strict=True)]
    (column,) = (rows[name] for name in roles.example)
    if roles.modality == "text":
        encoded = column.cast(pa.string()).cast(pa.binary())
    else:
        encoded = pc.struct_field(column, "bytes")
    examples: list[bytes | None] = encoded.to_pylist()
    return examples


def _with_features(fields: Mapping[str, pa.DataType], known: Mapping[str, Feature]) -> pa.Schema:
    """Add the schema key from which `datasets` takes its features, so that the YAML need not carry them."""
    features = {name: _feature(known.get(name, str(kind))) for name, kind in fields.items()}
    info = json.dumps({"info": {"features": features}})
    return pa.schema(dict(fields), metadata={"huggingface": info})


def _feature(feature: Feature) -> dict[str, Any]:
    """Return a feature, or the name of an Arrow type, as `datasets` writes it."""
    if not isinstance(feature, str):
        return {"names": list(feature), "_type": "ClassLabel"}
    if feature == "image":
        return {"_type": "Image"}
    return {"dtype": {"double": "float64"}.get(feature, feature), "_type": "Value"}
