"""What protocols know about a dataset: a row of names and numbers for each example, and no pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.errors import InputError, IntegrityError
from shiftdata.format.conditions import number_of
from shiftdata.format.manifest import Manifest
from shiftdata.format.paths import in_order, metadata_file
from shiftdata.format.schema import SPLITS
from shiftdata.metadata.columns import read_columns
from shiftdata.metadata.folds import strata

Array = NDArray[Any]
#: The columns of a metadata table, the nuisance's under its own name in the place of `nuisance`.
COLUMNS = ("key", "split", "fold", "label", "nuisance", "severity", "group", "origin", "quantile")


@dataclass(frozen=True, eq=False)
class Metadata:
    """The rows of one base: keys, labels, nuisances, origins, folds and quantiles.

    `table` has the columns of `COLUMNS`, with numbers for labels and nuisances, and `trajectory` where your
    own table names one. `nuisance_column` is what the nuisance is called: `style`, `domain`, `shift`.
    `origins_shared`: some origin has several nuisances.
    `dataset` has the examples, row by row in this order; for your own table it is None.
    """

    table: pa.Table
    labels: tuple[str, ...]
    nuisances: tuple[str, ...]
    nuisance_column: str
    origins_shared: bool
    name: str = "rows"
    dataset: OpenDataset | None = None
    base: str = ""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def columns(self) -> Mapping[str, Array]:
        """The columns that filters name, as arrays: splits as numbers, a missing nuisance as -1."""
        table = self.table
        split = pc.index_in(table["split"], value_set=pa.array(list(SPLITS)))
        return {
            "split": _array(pc.fill_null(split, -1), np.int8),
            "fold": _array(table["fold"], np.int8),
            "label": _array(table["label"], np.int32),
            self.nuisance_column: _array(pc.fill_null(table[self.nuisance_column], -1), np.int32),
            "severity": _array(table["severity"], np.float64),
            "quantile": _array(table["quantile"], np.float64),
        }

    @property
    def label(self) -> Array:
        return self.columns["label"]

    @property
    def nuisance(self) -> Array:
        """The number of each row's nuisance; -1 where it has none."""
        return self.columns[self.nuisance_column]

    @cached_property
    def group(self) -> Array:
        """The group of each row, `label * nuisances + nuisance`; -1 where it has none."""
        numbers = self.label * len(self.nuisances) + self.nuisance
        return np.where(self.nuisance < 0, -1, numbers).astype(np.int32)

    @cached_property
    def _origins(self) -> tuple[Array, list[str]]:
        encoded = pc.dictionary_encode(self.table["origin"]).unify_dictionaries().combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):  # a table without a row
            return np.zeros(0, np.int32), []
        return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()

    @property
    def origin(self) -> Array:
        """The number of each row's origin."""
        return self._origins[0]

    @property
    def origin_names(self) -> list[str]:
        return self._origins[1]

    @cached_property
    def strata(self) -> Array:
        """The stratum of each origin, within which another seed ranks origins anew.

        Groups of very few origins are pooled by nuisance: sets of some nuisances keep their sizes.
        """
        label, nuisance = self.label.astype(np.int64), self.nuisance.astype(np.int64)
        return strata(label, nuisance, self.origin, pool="nuisance")

    @cached_property
    def recurs(self) -> Array:
        """Which rows are of an origin that occurs under several nuisances."""
        if not self.origins_shared:
            return np.zeros(len(self), bool)
        several = np.zeros(len(self.origin_names), bool)
        one = np.empty(len(several), np.int64)
        one[self.origin] = self.nuisance
        several[self.origin[one[self.origin] != self.nuisance]] = True
        recurs: Array = several[self.origin]
        return recurs

    @cached_property
    def trajectory(self) -> Array:
        """The number of each row's trajectory: your table's, or the rows of a (split, group, quantile)."""
        if "trajectory" in self.table.column_names:
            encoded = pc.dictionary_encode(self.table["trajectory"]).unify_dictionaries().combine_chunks()
            numbers: Array = encoded.indices.to_numpy(zero_copy_only=False)
            return numbers
        if not self.base:
            raise InputError(
                f"{self.name} has two rows of an origin under one {self.nuisance_column} at one severity: "
                "name the column of trajectories, metadata_from_table(..., trajectory=...)"
            )
        parts = (self.columns["quantile"], self.group, self.columns["split"])
        order = np.lexsort(parts)
        changes = np.zeros(len(order), np.int64)
        for part in parts:
            changes[1:] |= part[order][1:] != part[order][:-1]
        result = np.empty(len(order), np.int64)
        result[order] = np.cumsum(changes)
        return result

    @cached_property
    def picture(self) -> Array:
        """For each row the first row with the same example.

        Only rows at severity 0 of a dataset with several severities are compared, by the hashes of their
        bytes: each trajectory begins with the untouched example. The rows of your own table count as
        different.
        """
        first, opened = np.arange(len(self)), self.dataset
        if opened is None or len(opened.manifest.severities) < 2:
            return first
        rows = np.flatnonzero(self.columns["severity"] == 0)
        splits = in_order(opened.manifest.base(self.base).splits)
        files = [read_columns(opened, metadata_file(self.base, split), ["sha256"]) for split in splits]
        hashes = pa.concat_tables(files)["sha256"].combine_chunks().take(pa.array(rows))
        codes = hashes.dictionary_encode().indices.to_numpy()
        first[rows] = rows[np.unique(codes, return_index=True)[1]][codes]
        return first

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
        return {"label": numbers // size, self.nuisance_column: numbers % size}

    def group_name(self, group: int) -> str:
        label, nuisance = divmod(group, len(self.nuisances))
        return f"{self.labels[label]} / {self.nuisances[nuisance]}"

    def numbers(self, column: str, names: Sequence[str]) -> list[int]:
        """The numbers of labels (`column` is "label") or nuisances; `_`, spaces and case do not count."""
        what, known = self.nuisance_column, self.nuisances
        if column == "label":
            what, known = "label", self.labels
        return [number_of(what, name, known, f"It was asked of {self.name}.") for name in names]


def read_metadata(dataset: DatasetName, base: str | None = None) -> Metadata:
    """The metadata of a dataset's base (default: its default base); read once for an opened dataset."""
    opened = open_dataset(dataset)
    name = opened.manifest.base(base or opened.manifest.default_base).name
    return opened.keep(("metadata", name), lambda: _read(opened, name))


def _read(dataset: OpenDataset, base: str) -> Metadata:
    manifest = dataset.manifest
    column = manifest.roles.nuisance
    names = [column if name == "nuisance" else name for name in COLUMNS]
    splits = in_order(manifest.base(base).splits)
    table = pa.concat_tables(read_columns(dataset, metadata_file(base, split), names) for split in splits)
    dataset.check_unchanged()  # else these rows may be of another version
    sizes = {"label": len(manifest.labels), column: len(manifest.nuisances)}
    for name, size in (sizes | {"group": sizes["label"] * sizes[column]}).items():
        largest = pc.max(table[name]).as_py()
        if largest is not None and largest >= size:
            raise IntegrityError(
                f"{dataset.address}: metadata/{base} has {name} {largest}, and the manifest lists {size}: "
                "fetch or build the dataset again"
            )
    return metadata_of(manifest, base, table, dataset)


def metadata_of(
    manifest: Manifest, base: str, table: pa.Table, dataset: OpenDataset | None = None
) -> Metadata:
    """The metadata of a base from the table of all its rows, in the order of its splits."""
    nuisance = manifest.roles.nuisance
    table = table.select([nuisance if name == "nuisance" else name for name in COLUMNS])
    return Metadata(
        table.replace_schema_metadata(None),
        tuple(manifest.labels),
        tuple(manifest.nuisances),
        nuisance,
        manifest.origins_shared,
        f"{manifest.name}/{base}",
        dataset,
        base,
    )


def _array(column: pa.ChunkedArray, dtype: Any) -> Array:
    values: Array = column.to_numpy()
    if values.dtype.kind == "f" and np.dtype(dtype).kind == "i" and np.isnan(values).any():
        raise InputError("a label, fold or group is missing in some row: every row needs one")
    return values.astype(dtype, copy=False)
