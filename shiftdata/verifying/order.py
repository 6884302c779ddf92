"""Check the rows of a base against each other: quantiles, trajectories, and origins in one split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.format.manifest import FILE_NAME, Manifest
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.rows import BaseRows


def quantile_problems(rows: BaseRows) -> Iterator[Problem]:
    """Cells whose quantiles are not their positions divided by their size; those of a part may have gaps.

    A cell is a (split, label, nuisance, severity).
    """
    if not rows.whole or not len(rows.table):
        return  # what is lacking would make every cell of its file wrong
    names = ["split", "label", rows.nuisance, "severity"]
    codes = _cells(rows.table, names)
    quantile = pc.fill_null(rows.table["quantile"], np.nan).to_numpy()
    order = np.lexsort((quantile, codes))
    if rows.manifest.part is not None:
        yield from _gapped_problems(rows, codes[order], quantile[order], order)
        return
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    expected = (np.arange(len(codes)) - np.repeat(starts, counts)) / np.repeat(counts, counts)
    wrong = np.flatnonzero(quantile[order] != expected)
    for cell in np.unique(codes[order][wrong]):
        row, size = int(order[starts[cell]]), counts[cell]
        first = wrong[np.searchsorted(wrong, starts[cell])]
        what = (
            f"has quantiles that are not 0/{size} ... {size - 1}/{size} in the cell {_cell(rows, row)}: "
            f"{quantile[order][first]:.6g} stands where {expected[first]:.6g} would"
        )
        yield Problem(path=rows.path(row), what=what, kind="quantile")


def _gapped_problems(
    rows: BaseRows, codes: NDArray[np.int64], quantile: NDArray[np.float64], order: NDArray[np.int64]
) -> Iterator[Problem]:
    """Rows of a part, sorted by cell and quantile, whose quantile is outside [0, 1) or not theirs alone."""
    twice = np.diff(quantile, prepend=np.nan) == 0
    twice &= np.diff(codes, prepend=-1) == 0
    for place in np.flatnonzero(twice | ~((quantile >= 0) & (quantile < 1))).tolist():
        row = int(order[place])
        what = (
            f"has the quantile {quantile[place]:.6g} in the cell {_cell(rows, row)}: "
            "quantiles are at least 0 and below 1, and each comes once in its cell"
        )
        yield Problem(path=rows.path(row), what=what, key=str(rows.value("key", row)), kind="quantile")


def trajectory_problems(rows: BaseRows) -> Iterator[Problem]:
    """Trajectories, which are a (split, group, quantile), without every severity once, or of two origins.

    In a part some severities may be missing, and none may come twice.
    """
    severities = list(rows.manifest.severities)
    if len(severities) < 2 or rows.content or not rows.whole:
        return
    names = ["split", "group", "quantile"]
    counted = rows.table.group_by(names).aggregate(
        [("severity", "count_distinct"), ("origin", "count_distinct"), ([], "count_all"), ("key", "min")]
    )
    each = pc.equal(counted["severity_count_distinct"], counted["count_all"])
    if rows.manifest.part is None:
        each = pc.and_(each, pc.equal(counted["count_all"], len(severities)))
    fine = pc.and_(each, pc.equal(counted["origin_count_distinct"], 1))
    paths = {split.split: split.path for split in rows.splits}
    for bad in counted.filter(pc.invert(fine)).to_pylist():
        what = (
            f"is of a trajectory (split {bad['split']}, group {bad['group']}, "
            f"quantile {bad['quantile']}) with {bad['count_all']} rows, "
            f"{bad['severity_count_distinct']} severities and {bad['origin_count_distinct']} origins: "
            f"each of the {len(severities)} severities must come once, of one origin"
        )
        path = paths.get(bad["split"], rows.splits[0].path)
        yield Problem(path=path, what=what, key=bad["key_min"], kind="trajectory")


def origins(rows: BaseRows) -> pa.Table:
    """Each origin of a base with its labels, folds, splits and nuisances."""
    told = rows.table.group_by(["origin", "label", "fold", "split", rows.nuisance]).aggregate([])
    return told.append_column("base", pa.array([rows.base.name] * len(told), pa.string()))


def origin_problems(manifest: Manifest, every: pa.Table, whole: bool) -> Iterator[Problem]:
    """Origins that occur in two splits, or with two labels or folds, in whatever bases."""
    counted = every.group_by("origin").aggregate(
        [(name, "count_distinct") for name in ("split", "label", "fold")]
    )
    for name in ("split", "label", "fold"):
        bad = counted.filter(pc.greater(counted[f"{name}_count_distinct"], 1))["origin"].combine_chunks()
        found: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
        for place in every.filter(pc.is_in(every["origin"], bad)).to_pylist():
            values, bases = found[place["origin"]]
            values.add(str(place[name]))
            bases.add(place["base"])
        for origin, (values, bases) in sorted(found.items()):
            what = (
                f"the origin {origin!r} is in more than one {name}: {', '.join(sorted(values))} "
                f"(in {', '.join(sorted(bases))}); it must be in one, or it would leak"
            )
            yield Problem(path=f"metadata/{min(bases)}", what=what, kind=f"origin {name}")
    under = every.group_by("origin").aggregate([(manifest.roles.nuisance, "count_distinct")]).column(1)
    shared = bool((pc.max(under).as_py() or 0) > 1)
    if whole and shared != manifest.origins_shared:
        what = f"says origins_shared {manifest.origins_shared}, and rows say {shared}"
        yield Problem(path=FILE_NAME, what=what, kind="origins_shared")


def _cells(table: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """A number, from 0 on and without gaps, for each different combination of some columns."""
    codes = np.zeros(len(table), dtype=np.int64)
    for name in names:
        column = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * len(column.dictionary) + column.indices.to_numpy()
    found: NDArray[np.int64] = np.unique(codes, return_inverse=True)[1]
    return found


def _cell(rows: BaseRows, row: int) -> str:
    """A cell by the names of its label and nuisance."""
    nuisance = rows.nuisance
    named = {"label": rows.manifest.labels, nuisance: rows.manifest.nuisances}
    parts = []
    for name in ("split", "label", nuisance, "severity"):
        value = rows.value(name, row)
        known = named.get(name, ())
        if isinstance(value, int) and 0 <= value < len(known):
            value = known[value]
        parts.append(f"{name} {value}")
    return f"({', '.join(parts)})"
