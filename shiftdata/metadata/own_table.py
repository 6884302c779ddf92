"""Metadata from your own table: what it lacks is computed by stable hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.errors import InputError, not_found
from shiftdata.format.names import check_names
from shiftdata.format.schema import SPLITS, split_of_fold
from shiftdata.metadata.folds import folds, quantiles
from shiftdata.metadata.rows import Array, Metadata


def metadata_from_table(
    table: pa.Table,
    *,
    key: str = "key",
    label: str = "label",
    nuisance: str,
    origin: str | None = None,
    severity: str | None = None,
    trajectory: str | None = None,
    split: str | None = None,
    fold: str | None = None,
    quantile: str | None = None,
    labels: Sequence[str] | None = None,
    nuisances: Sequence[str] | None = None,
    name: str = "rows",
) -> Metadata:
    """Metadata from a table: each argument names a column.

    Args:
        table: one row an example, in any order.
        key: unique names of the rows; everything that is drawn is keyed by them.
        label: the class: names or numbers.
        nuisance: the style, domain, ...: names or numbers.
        origin: what a row was made from; rows of one origin are never put on two sides. Default: the key.
        severity: the strength of a continuous shift.
        trajectory: what is one example over all severities. Default: the origin under one nuisance.
        split: `train`, `validation` or `test`; default: by fold.
        fold: 0-99; default: the percentile of the origin within its label, or within its group where no
            origin has several nuisances (and within its split, where one is given).
        quantile: the position in the group; default: by stable hash.
        labels, nuisances: the names in their order; default: those in the table, sorted.
        name: what to call the table in errors and reports.

    """
    given = {"key": key, "label": label, "nuisance": nuisance, "origin": origin or key}
    optional = {"severity": severity, "trajectory": trajectory, "split": split, "fold": fold}
    given |= {what: one for what, one in optional.items() if one}
    read = {what: _column(table, one) for what, one in given.items()}
    keys, origins = ([str(one) for one in read[what].to_pylist()] for what in ("key", "origin"))
    if len(set(keys)) < len(keys):
        repeated = min(one for one, count in Counter(keys).items() if count > 1)
        raise InputError(f"the key {repeated!r} occurs more than once in {key!r}: keys must be unique")
    known_labels, label_codes = _coded("label", read["label"], labels)
    known_nuisances, nuisance_codes = _coded(nuisance, read["nuisance"], nuisances)
    names = ([known_labels[n] for n in label_codes], [known_nuisances[n] for n in nuisance_codes])
    of_fold = _placed(read, list(zip(*names, origins, strict=True)))
    expected = [split_of_fold(one) for one in of_fold]
    groups = label_codes * len(known_nuisances) + nuisance_codes
    steps = read["severity"].cast(pa.float64()) if severity else pa.nulls(len(keys), pa.float64())
    cells = _cells(expected, groups, steps)
    paths = _trajectories(read, names[1], origins, cells)
    if quantile:
        of_quantile = _column(table, quantile).cast(pa.float64())
    else:
        of_quantile = pa.array(_quantiles(keys, keys if paths is None else paths[0], cells))
    for what, one in (("name", name), ("column", nuisance)):
        check_names(what, [one], "the table")
    check_names("label", known_labels, name)
    check_names(nuisance, known_nuisances, name)
    columns = {
        "key": pa.array(keys, pa.string()),
        "split": pa.array(expected, pa.string()),
        "fold": pa.array(of_fold, pa.int8()),
        "label": pa.array(label_codes, pa.int64()),
        nuisance: pa.array(nuisance_codes, pa.int64()),
        "severity": steps,
        "group": pa.array(groups, pa.int32()),
        "origin": pa.array(origins, pa.string()),
        "quantile": of_quantile,
    }
    if len(columns) < 9 or nuisance == "trajectory":
        raise InputError(f"the nuisance column cannot be called {nuisance!r}: that name is taken, rename it")
    if severity and paths is not None:
        columns["trajectory"] = pa.array(paths[1], pa.string())
    nuisances_of_origins = set(zip(origins, nuisance_codes.tolist(), strict=True))
    shared = len(nuisances_of_origins) > len(set(origins))
    return Metadata(pa.table(columns), known_labels, known_nuisances, nuisance, shared, name)


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        raise not_found("column", name, table.column_names, "Name the columns of your table.")
    column = table[name]
    bad = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    if pc.any(bad).as_py():
        row = pc.index(bad, True).as_py()
        raise InputError(f"the column {name!r} is empty or nan in row {row}: every row needs a value")
    return column


def _coded(what: str, column: pa.ChunkedArray, names: Sequence[str] | None) -> tuple[tuple[str, ...], Array]:
    present = pc.unique(column).to_pylist()
    ordered: list[Any] = sorted(present) if names is None else list(names)
    known = tuple(map(str, ordered))
    if names is not None and pa.types.is_integer(column.type):
        ordered = list(range(len(names)))
    if len(set(known)) < len(known):
        raise InputError(f"a {what} is named twice in {', '.join(known)}: give each name once")
    for one in set(present) - set(ordered):
        raise not_found(what, str(one), map(str, ordered), "A row has it, and the names given do not.")
    codes: Array = pc.index_in(column, value_set=pa.array(ordered, column.type)).to_numpy().astype(np.int64)
    return known, codes


def _placed(read: Mapping[str, pa.ChunkedArray], groups: list[tuple[str, str, str]]) -> list[int]:
    """The fold of each row: as given, or by stable hash, within the given split if there is one."""
    splits = read["split"].to_pylist() if "split" in read else None
    for one in set(splits or ()) - set(SPLITS):
        raise not_found("split", str(one), SPLITS)
    if "fold" not in read:
        return _folds(groups, splits)
    folds_given: list[int] = read["fold"].to_pylist()
    if not all(isinstance(one, int) and 0 <= one < 100 for one in folds_given):
        raise InputError("folds are whole numbers from 0 to 99")
    if splits not in (None, [split_of_fold(one) for one in folds_given]):
        raise InputError(
            "split and fold disagree: give one of them; train is fold 0-49, validation 50-69, test 70-99"
        )
    return folds_given


def _trajectories(
    read: Mapping[str, pa.ChunkedArray], nuisances: list[str], origins: list[str], cells: Array
) -> tuple[list[str], list[str]] | None:
    """By what rows are ordered in their cells, and the trajectory of each; None where that is not known.

    A trajectory is the rows of an origin under one nuisance, if it has no two at one severity.
    """
    if "trajectory" in read and "severity" not in read:
        raise InputError("trajectory names rows over several severities: give the column severity too")
    names = [str(one) for one in read["trajectory"].to_pylist()] if "trajectory" in read else origins
    paths = [f"{name} / {nuisance}" for name, nuisance in zip(names, nuisances, strict=True)]
    if len(set(zip(cells.tolist(), paths, strict=True))) == len(paths):
        return names, paths
    if "trajectory" in read:
        raise InputError("a trajectory has two rows at one severity: give each trajectory a name of its own")
    return None


def _folds(groups: list[tuple[str, str, str]], splits: list[str] | None) -> list[int]:
    """The fold of each (label, nuisance, origin); those of a given split lie in the split's own range."""
    label_of: dict[str, str] = {}
    for label, _, origin in groups:
        if label_of.setdefault(origin, label) != label:
            pair = " and ".join(sorted({label, label_of[origin]}))
            raise InputError(f"the origin {origin!r} occurs under {pair}: give `fold`, or mend it")
    if splits is None:
        fold_of = folds(groups)
        return [fold_of[origin] for _, _, origin in groups]
    result = [0] * len(groups)
    for split, (first, end) in zip(SPLITS, pairwise([*SPLITS.values(), 100]), strict=True):
        rows = [row for row, one in enumerate(splits) if one == split]
        fold_of = folds(groups[row] for row in rows)
        for row in rows:
            result[row] = first + fold_of[groups[row][2]] * (end - first) // 100
    return result


def _cells(splits: list[str], groups: Array, steps: pa.Array) -> Array:
    """The (split, group, severity) of each row, as a number."""
    severity = np.nan_to_num(np.asarray(steps.to_numpy(zero_copy_only=False)), nan=-1.0)
    split = np.array([list(SPLITS).index(one) for one in splits])
    step = np.unique(severity, return_inverse=True)[1]
    cells: Array = (groups * len(SPLITS) + split) * (int(step.max(initial=0)) + 1) + step
    return cells.astype(np.int64)


def _quantiles(keys: list[str], names: list[str], cells: Array) -> Array:
    order = np.argsort(np.array(keys))  # equal hashes must not be ordered by the rows' order
    result = np.empty(len(keys))
    result[order] = quantiles(cells[order], [names[row] for row in order.tolist()])
    return result
