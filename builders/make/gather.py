"""Gather the spooled rows of a base into one table: all that is known of them but the examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders.filters.report import Stages
from builders.filters.rules import LACKS
from builders.filters.scoring import judged_samples
from builders.recipe import Recipe
from builders.sample import Item, by_reason
from builders.spool import Spool
from shiftdata.errors import InputError
from shiftdata.format.schema import SPLITS, columns, split_of_fold
from shiftdata.metadata.folds import quantiles

EXAMPLES = {"image": "pictures", "text": "texts", "table": "rows"}


@dataclass(frozen=True)
class Gathered:
    """The rows of a base in no particular order, and where the example of each lies in the spool.

    `table` has the columns of the metadata, and `length` and `sha256` of the example. `dropped` gives key
    and reason of what could not be used: an item, a trajectory or a sample. `judged` has the scores and
    verdicts of all that was rendered, if the recipe filters it.
    """

    table: pa.Table
    cells: NDArray[np.int64]
    block: NDArray[np.int64]
    row: NDArray[np.int64]
    dropped: Sequence[tuple[str, str]]
    judged: pa.Table | None


def gather(
    recipe: Recipe, items: Sequence[Item], fold_of: Mapping[str, int], spool: Spool, blocks: Sequence[str]
) -> Gathered:
    """Read the rows of some blocks and give each its split, fold, group and quantile."""
    read = [spool.read(block) for block in blocks]
    rows = _numbered([table for table, _ in read])
    _check_rows(recipe, rows)
    drops = [pair for _, reasons in read for pair in reasons.items()]
    judged = None
    if recipe.filters is not None:
        tables = dict(zip(blocks, (table for table, _ in read), strict=True))
        judged = judged_samples(recipe.filters, spool, tables, items, recipe.severities)
    if len(recipe.severities) > 1:
        rows = _whole_trajectories(rows, len(recipe.severities), drops)
    if judged is not None:
        rows = _kept(recipe, rows, judged, drops)
    if not len(rows):
        raise InputError(
            f"all {len(drops):,} {EXAMPLES[recipe.encoding.modality]} of {recipe.name} were dropped: "
            f"{reasons_of(drops)}. Mend the data, or what the recipe says of it"
        )
    of_item = _item_table(recipe, items, fold_of).take(
        pc.index_in(rows["item"], value_set=pa.array([item.key for item in items]))
    )
    nuisance = pc.index_in(rows["nuisance"], value_set=pa.array(recipe.shift.nuisances, pa.string()))
    group = pc.add(pc.multiply(of_item["label"], len(recipe.shift.nuisances)), nuisance)
    cells = _cells(recipe, of_item, nuisance, rows["severity"])
    values = {
        "key": rows["key"],
        recipe.nuisance: nuisance,
        "severity": rows["severity"],
        "group": group,
        "quantile": pa.array(quantiles(cells, rows["trajectory"].to_pylist())),
        "params": rows["params"],
    } | {name: of_item[name] for name in of_item.column_names}
    fields = columns(recipe.nuisance)
    example = {"length": rows["size"], "sha256": rows["sha256"]}
    return Gathered(
        table=pa.table({name: values[name].cast(kind) for name, kind in fields.items()} | example),
        cells=cells,
        block=rows["block"].to_numpy(),
        row=rows["row"].to_numpy(),
        dropped=drops,
        judged=judged,
    )


def reasons_of(drops: Sequence[tuple[str, str]]) -> str:
    """The reasons of what was dropped, with their counts, for an error."""
    counts = by_reason(Counter(reason for _, reason in drops))
    return "; ".join(f"{count:,}: {reason}" for reason, count in counts.items()) or "nothing"


def _numbered(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all blocks, each with the numbers of its block and of its row there."""
    numbered = []
    for block, table in enumerate(tables):
        places = {"block": np.full(len(table), block), "row": np.arange(len(table))}
        for name, numbers in places.items():
            table = table.append_column(name, pa.array(numbers, pa.int64()))
        numbered.append(table.replace_schema_metadata(None))
    return pa.concat_tables(numbered)


def _whole_trajectories(rows: pa.Table, severities: int, drops: list[tuple[str, str]]) -> pa.Table:
    """Leave out, and name, the trajectories that lack a severity; untouched content has none to lack."""
    counts = rows.group_by("trajectory").aggregate([("severity", "count_distinct"), ("key", "count")])
    short = counts.filter(pc.less(counts["severity_count_distinct"], severities))["trajectory"]
    cut = pc.and_(pc.is_in(rows["trajectory"], short.combine_chunks()), pc.is_valid(rows["nuisance"]))
    repeated = counts.filter(pc.greater(counts["key_count"], counts["severity_count_distinct"]))
    if len(repeated):
        name = repeated["trajectory"][0].as_py()
        raise InputError(f"the trajectory {name!r} has a severity twice; each step of a scale comes once")
    drops += [(name, LACKS) for name in pc.unique(rows.filter(cut)["trajectory"]).to_pylist()]
    return rows.filter(pc.invert(cut))


def _kept(recipe: Recipe, rows: pa.Table, judged: pa.Table, drops: list[tuple[str, str]]) -> pa.Table:
    """Leave out, and name, the samples that the filters do not keep."""
    kept = judged.filter(judged["kept"])
    if not len(kept):
        counts = Stages.of(judged)
        raise InputError(f"the filters of {recipe.name} leave nothing; loosen a bound:\n{counts}")
    reasons = zip(judged["key"].to_pylist(), judged["why"].to_pylist(), strict=True)
    drops += [(key, why) for key, why in reasons if why not in (None, LACKS)]
    return rows.filter(pc.is_in(rows["key"], kept["key"].combine_chunks()))


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


def _cells(
    recipe: Recipe, of_item: pa.Table, nuisance: pa.ChunkedArray, severity: pa.ChunkedArray
) -> NDArray[np.int64]:
    """A number for each (split, label, nuisance, severity); untouched content is a nuisance too."""
    kinds = len(recipe.shift.nuisances) + 1
    split = pc.index_in(of_item["split"], value_set=pa.array(list(SPLITS))).to_numpy()
    label = of_item["label"].to_numpy()
    kind = pc.fill_null(nuisance, kinds - 1).to_numpy()
    steps = pa.array(recipe.severities, pa.float64())
    step = pc.fill_null(pc.index_in(severity, value_set=steps), len(steps)).to_numpy()
    group = (split.astype(np.int64) * len(recipe.album.labels) + label) * kinds + kind
    cells: NDArray[np.int64] = group * (len(steps) + 1) + step
    return cells


def _check_rows(recipe: Recipe, rows: pa.Table) -> None:
    """Refuse rows that two items made under one key."""
    repeated = next((key for key, count in Counter(rows["key"].to_pylist()).items() if count > 1), None)
    if repeated is not None:
        raise InputError(
            f"the recipe {recipe.name} makes the key {repeated!r} more than once; keys must be unique"
        )
