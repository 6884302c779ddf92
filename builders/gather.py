"""Gather the spooled rows of a base into one table: all that is known of them but their pixels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders import assign
from builders.recipe import Recipe
from builders.sample import Item
from builders.spool import Spool
from shiftdata.errors import InputError
from shiftdata.schema import SPLITS, columns, split_of_fold


@dataclass(frozen=True)
class Gathered:
    """The rows of a base in no particular order: columns, and where the image of each lies in the spool."""

    table: pa.Table
    cells: NDArray[np.int64]
    sizes: NDArray[np.int64]
    sha256: pa.FixedSizeBinaryArray
    block: NDArray[np.int64]
    row: NDArray[np.int64]
    dropped: Mapping[str, int]


def gather(
    recipe: Recipe, items: Sequence[Item], fold_of: Mapping[str, int], spool: Spool, blocks: Sequence[str]
) -> Gathered:
    """Read the rows of some blocks and give each its split, fold, group and quantile."""
    read = [spool.read(block) for block in blocks]
    rows = pa.concat_tables([table.replace_schema_metadata(None) for table, _ in read])
    _check_rows(recipe, rows)
    lengths = [len(table) for table, _ in read]
    of_item = _item_table(recipe, items, fold_of).take(
        pc.index_in(rows["item"], value_set=pa.array([item.key for item in items]))
    )
    nuisance = pc.index_in(rows["nuisance"], value_set=pa.array(recipe.shift.nuisances, pa.string()))
    group = pc.add(pc.multiply(of_item["label"], len(recipe.shift.nuisances)), nuisance)
    cells = _cells(recipe, of_item, nuisance)
    values = {
        "key": rows["key"],
        recipe.roles.nuisance: nuisance,
        "severity": rows["severity"],
        "group": group,
        "quantile": pa.array(assign.quantiles(cells, rows["key"].to_pylist())),
        "params": rows["params"],
    } | {name: of_item[name] for name in of_item.column_names}
    fields = columns(recipe.roles.nuisance)
    return Gathered(
        # In one piece: rows are taken group by group, and each take would visit every chunk.
        table=pa.table({name: values[name].cast(kind) for name, kind in fields.items()}).combine_chunks(),
        cells=cells,
        sizes=rows["size"].to_numpy().astype(np.int64),
        sha256=rows["sha256"].combine_chunks(),
        block=np.repeat(np.arange(len(blocks)), lengths),
        row=np.concatenate([np.arange(length) for length in lengths]),
        dropped=dict(sorted(Counter(reason for _, drops in read for reason in drops.values()).items())),
    )


def _item_table(recipe: Recipe, items: Sequence[Item], fold_of: Mapping[str, int]) -> pa.Table:
    """What a row takes over from its item."""
    labels = {label: number for number, label in enumerate(recipe.album.labels)}
    return pa.table(
        {
            "split": pa.array([split_of_fold(fold_of[item.origin]) for item in items]),
            "fold": pa.array([fold_of[item.origin] for item in items]),
            "label": pa.array([labels[item.label] for item in items], pa.int64()),
            "origin": pa.array([item.origin for item in items]),
            "license": pa.array([item.license for item in items]),
            "attribution": pa.array([item.attribution for item in items]),
        }
    )


def _cells(recipe: Recipe, of_item: pa.Table, nuisance: pa.ChunkedArray) -> NDArray[np.int64]:
    """A number for each (split, label, nuisance); untouched content is a nuisance of its own here."""
    kinds = len(recipe.shift.nuisances) + 1
    split = pc.index_in(of_item["split"], value_set=pa.array(list(SPLITS))).to_numpy()
    label = of_item["label"].to_numpy()
    kind = pc.fill_null(nuisance, kinds - 1).to_numpy()
    cells: NDArray[np.int64] = (split.astype(np.int64) * len(recipe.album.labels) + label) * kinds + kind
    return cells


def _check_rows(recipe: Recipe, rows: pa.Table) -> None:
    """Refuse rows that two items made under one key."""
    repeated = next((key for key, count in Counter(rows["key"].to_pylist()).items() if count > 1), None)
    if repeated is not None:
        raise InputError(
            f"the recipe {recipe.name} makes the key {repeated!r} more than once; keys must be unique"
        )
