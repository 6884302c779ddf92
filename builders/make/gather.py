"""Gather the spooled rows of a base: all that is known of them but their examples and params."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders.filters.report import Stages
from builders.filters.rules import LACKS
from builders.filters.scoring import judged_samples
from builders.items import ItemTable
from builders.make.assign import SPLIT_OF_FOLD, Folds
from builders.make.packing.rows import Described
from builders.recipe import Recipe
from builders.spool import Spool
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.records import by_reason
from shiftdata.data.metadata.folds import quantiles
from shiftdata.errors import InputError

EXAMPLES = {"image": "pictures", "text": "texts", "table": "rows"}


@dataclass(frozen=True)
class Gathered:
    """The rows of a base in no particular order, in few bytes each.

    `rows` has key, number of the item, nuisance, severity, quantile, and size and sha256 of the example.
    `items` has what a row takes over from its item. `number` says which of all spooled rows a row is, and
    `counts` how many rows each block has. `cells` numbers each (split, label, nuisance, severity). `dropped`
    gives key and reason of what could not be used: an item, a trajectory or a sample. `judged` has the scores
    and verdicts of all that was rendered, if the recipe filters it.
    """

    recipe: Recipe
    items: pa.Table
    rows: pa.Table
    number: IntArray
    counts: Sequence[int]
    cells: IntArray
    dropped: Sequence[tuple[str, str]]
    judged: pa.Table | None

    def of_items(self, name: str) -> NDArray[np.int64]:
        """The numbers that rows take over from their items: `label`, or the number of the split."""
        numbers: NDArray[np.int64] = self.items[name].to_numpy()[self.rows["item"].to_numpy()]
        return numbers

    def filtered(self) -> dict[str, NDArray[Any]]:
        """The columns of filters as numbers: -1 or nan for none, a split as the number of its name."""
        rows = self.rows
        return {
            **{name: self.of_items(name) for name in ("split", "fold", "label")},
            self.recipe.nuisance: pc.fill_null(rows["nuisance"], -1).to_numpy(),
            **{name: pc.fill_null(rows[name], np.nan).to_numpy() for name in ("severity", "quantile")},
        }


def gather(
    recipe: Recipe, items: ItemTable, fold_of: Folds, spool: Spool, read: Sequence[Described]
) -> Gathered:
    """Give the rows of a base each its split, fold, group and quantile."""
    drops = [drop for part in read for drop in part.drops]
    counts = [count for part in read for count in part.counts]
    judging = {block: table for part in read for block, table in part.judging.items()}
    rows = pa.concat_tables(_numbered(items, part.rows) for part in read)
    rows = rows.append_column("number", pa.array(np.arange(len(rows))))
    _check_rows(recipe, rows["key"])
    judged = None
    if recipe.filters is not None:
        judged = judged_samples(recipe.filters, spool, judging, items, recipe.severities)
    if len(recipe.severities) > 1:
        rows = _whole_trajectories(rows, len(recipe.severities), drops)
    if judged is not None:
        rows = _kept(recipe, rows, judged, drops)
    if not len(rows):
        raise InputError(
            f"all {len(drops):,} {EXAMPLES[recipe.encoding.modality]} of {recipe.name} were dropped: "
            f"{reasons_of(drops)}. Mend the data, or what the recipe says of it"
        )
    of_items = _item_table(recipe, items, fold_of)
    cells = _cells(recipe, of_items, rows)
    quantile = pa.array(quantiles(cells, rows["hash"].to_numpy()))
    names = ["key", "item", "nuisance", "severity", "size", "sha256"]
    return Gathered(
        recipe=recipe,
        items=of_items,
        rows=rows.select(names).append_column("quantile", quantile).combine_chunks(),
        number=rows["number"].to_numpy(),
        counts=counts,
        cells=cells,
        dropped=drops,
        judged=judged,
    )


def reasons_of(drops: Sequence[tuple[str, str]]) -> str:
    """The reasons of what was dropped, with their counts, for an error."""
    counts = by_reason(Counter(reason for _, reason in drops))
    return "; ".join(f"{count:,}: {reason}" for reason, count in counts.items()) or "nothing"


def _numbered(items: ItemTable, rows: pa.Table) -> pa.Table:
    """Replace the name of each row's item by its number."""
    (item,) = rows["item"].chunks
    number = items.rows_of(item.dictionary).astype(np.int32)
    return rows.set_column(1, "item", pa.array(number[item.indices.to_numpy()]))


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
    passed = judged.filter(judged["kept"])
    if not len(passed):
        counts = Stages.of(judged)
        raise InputError(f"the filters of {recipe.name} leave nothing; loosen a bound:\n{counts}")
    reasons = zip(judged["key"].to_pylist(), judged["why"].to_pylist(), strict=True)
    drops += [(key, why) for key, why in reasons if why not in (None, LACKS)]
    return rows.filter(pc.is_in(rows["key"], passed["key"].combine_chunks().cast(pa.large_string())))


def _item_table(recipe: Recipe, items: ItemTable, fold_of: Folds) -> pa.Table:
    """Return the columns that rows take over from their items; the split by number."""
    return pa.table(
        {
            "split": pa.array(SPLIT_OF_FOLD[fold_of]),
            "fold": pa.array(fold_of, pa.int8()),
            "label": pa.array(items.codes("label", recipe.album.labels).astype(np.int64)),
            **{name: items.columns[name] for name in ("origin", "license", "attribution")},
        }
    )


def _cells(recipe: Recipe, items: pa.Table, rows: pa.Table) -> IntArray:
    """A number for each (split, label, nuisance, severity); untouched content is a nuisance too."""
    count = len(recipe.shift.nuisances) + 1
    item = rows["item"].to_numpy()
    nuisance = pc.fill_null(rows["nuisance"], count - 1).to_numpy()
    steps = pa.array(recipe.severities, pa.float64())
    step = pc.fill_null(pc.index_in(rows["severity"], value_set=steps), len(steps)).to_numpy()
    group = items["split"].to_numpy() * len(recipe.album.labels) + items["label"].to_numpy()
    cells: IntArray = (group[item] * count + nuisance) * (len(steps) + 1) + step
    return cells


def _check_rows(recipe: Recipe, keys: pa.ChunkedArray) -> None:
    """Refuse rows that two items made under one key."""
    if pc.count_distinct(keys).as_py() == len(keys):
        return
    counts = pc.value_counts(keys)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0].as_py()
    raise InputError(
        f"the recipe {recipe.name} makes the key {repeated!r} more than once; keys must be unique"
    )
