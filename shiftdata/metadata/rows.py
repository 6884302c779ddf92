"""What protocols know about a dataset: a row of names and numbers for each example, and no pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.format.conditions import number_of
from shiftdata.format.manifest import Manifest
from shiftdata.format.schema import SPLITS
from shiftdata.metadata.columns import read_columns
from shiftdata.places import search as places

Array = NDArray[Any]
#: The columns of a metadata table, the nuisance's under its own name in the place of `nuisance`.
COLUMNS = ("key", "split", "fold", "label", "nuisance", "severity", "group", "origin", "quantile")


@dataclass(frozen=True, eq=False)
class Metadata:
    """The rows of one base: keys, labels, nuisances, origins, and where stable hashes put them.

    `table` has the columns of `COLUMNS`; labels and nuisances are numbers of the names in `labels` and
    `nuisances`. `origins_shared` says whether an origin occurs under several nuisances. `source` and `base`
    say where the examples are; a table of one's own has none.
    """

    table: pa.Table
    labels: tuple[str, ...]
    nuisances: tuple[str, ...]
    nuisance: str
    origins_shared: bool
    name: str = "rows"
    source: str = ""
    base: str = ""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @classmethod
    def of(cls, dataset: str | Path, base: str | None = None) -> Metadata:
        """Read the metadata of a dataset's base (default: its default base) from wherever it is."""
        place = places.find(dataset)
        manifest = place.manifest()
        found = manifest.base(base or manifest.default_base)
        names = [manifest.roles.nuisance if name == "nuisance" else name for name in COLUMNS]
        parts = [
            read_columns(place, f"metadata/{found.name}/{split}.parquet", names)
            for split in SPLITS
            if split in found.splits
        ]
        return cls(
            table=pa.concat_tables(parts),
            **_told(manifest),
            name=f"{manifest.name}/{found.name}",
            source=place.source,
            base=found.name,
        )

    @classmethod
    def from_table(cls, table: pa.Table, **columns: Any) -> Metadata:
        """Take a table of one's own; see `own_table.metadata_from_table` for the arguments.

        >>> table = pa.table({"id": ["a", "b"], "y": ["cat", "dog"], "style": ["ink", "oil"]})
        >>> Metadata.from_table(table, key="id", label="y", nuisance="style").labels
        ('cat', 'dog')
        """
        from shiftdata.metadata.own_table import metadata_from_table

        return metadata_from_table(table, **columns)

    @cached_property
    def columns(self) -> Mapping[str, Array]:
        """The columns that filters name, as arrays: splits as numbers, a missing nuisance as -1."""
        table = self.table
        split = pc.index_in(table["split"], value_set=pa.array(list(SPLITS)))
        return {
            "split": _array(pc.fill_null(split, -1), np.int8),
            "fold": _array(table["fold"], np.int8),
            "label": _array(table["label"], np.int32),
            self.nuisance: _array(pc.fill_null(table[self.nuisance], -1), np.int32),
            "severity": _array(table["severity"], np.float64),
            "quantile": _array(table["quantile"], np.float64),
        }

    @property
    def label(self) -> Array:
        """The number of each row's label."""
        return self.columns["label"]

    @property
    def kind(self) -> Array:
        """The number of each row's nuisance; -1 where it has none."""
        return self.columns[self.nuisance]

    @cached_property
    def group(self) -> Array:
        """The group of each row, `label * nuisances + nuisance`; -1 where it has none."""
        numbers = self.label * len(self.nuisances) + self.kind
        return np.where(self.kind < 0, -1, numbers).astype(np.int32)

    @cached_property
    def origin(self) -> Array:
        """A number for each row's origin."""
        encoded = pc.dictionary_encode(self.table["origin"]).unify_dictionaries()
        parts = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
        numbers: Array = np.concatenate(parts) if parts else np.zeros(0, np.int32)
        return numbers

    @cached_property
    def group_counts(self) -> NDArray[np.int64]:
        """How many rows each group has, in any split."""
        size = len(self.labels) * len(self.nuisances)
        return np.bincount(self.group[self.group >= 0], minlength=size).astype(np.int64)

    @property
    def groups(self) -> Mapping[str, Array]:
        """The label and the nuisance of every possible group, as the columns that filters name."""
        numbers = np.arange(len(self.labels) * len(self.nuisances))
        size = max(1, len(self.nuisances))
        return {"label": numbers // size, self.nuisance: numbers % size}

    def group_name(self, group: int) -> str:
        """A group in words: its label and its nuisance."""
        label, kind = divmod(group, len(self.nuisances))
        return f"{self.labels[label]}/{self.nuisances[kind]}"

    def numbers(self, kind: str, names: Sequence[str]) -> list[int]:
        """The numbers of some labels (`kind` is "label") or nuisances; `_`, spaces and case do not count."""
        known = self.labels if kind == "label" else self.nuisances
        what = "label" if kind == "label" else self.nuisance
        return [number_of(what, name, known, f"It was asked of {self.name}.") for name in names]


def _told(manifest: Manifest) -> dict[str, Any]:
    return {
        "labels": tuple(manifest.labels),
        "nuisances": tuple(manifest.nuisances),
        "nuisance": manifest.roles.nuisance,
        "origins_shared": manifest.origins_shared,
    }


def _array(column: pa.ChunkedArray, kind: Any) -> Array:
    values: Array = column.to_numpy()
    if values.dtype.kind == "f" and np.dtype(kind).kind == "i" and np.isnan(values).any():
        raise InputError("a label, fold or group is missing in some row: every row needs one")
    return values.astype(kind, copy=False)
