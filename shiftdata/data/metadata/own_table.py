"""Metadata from your own table: missing columns are computed by stable hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.data.format.names import check_names
from shiftdata.data.format.schema import SPLITS, split_of_fold
from shiftdata.data.metadata.folds import folds, hashes64, quantiles
from shiftdata.data.metadata.rows import COLUMNS, Array, Metadata
from shiftdata.errors import InputError, not_found


def metadata_from_table(
    table: Any,
    *,
    key: str = "key",
    label: str = "label",
    nuisance: str,
    origin: str | None = None,
    severity: str | None = None,
    trajectory: str | None = None,
    split: str | None = None,
    fold: str | None = None,
    labels: Sequence[str] | None = None,
    nuisances: Sequence[str] | None = None,
    name: str = "rows",
) -> Metadata:
    """Make metadata from a table: each argument names a column.

    Args:
        table: one row an example, in any order: a DataFrame of pandas or polars, a pyarrow table, or another
            with Arrow's PyCapsule interface. Labels, nuisances, keys and origins are texts, categories, whole
            numbers or booleans.
        key: unique names of the rows, which seed every draw. An index of pandas counts as a column if it has
            a name.
        label: the class.
        nuisance: the style, domain, ...
        origin: the unit behind a row; rows of one origin are never in two sets. Default: the key.
        severity: the strength of a continuous shift.
        trajectory: one example over all severities. Default: the origin under one nuisance.
        split: `train`, `validation` or `test`; default: by fold.
        fold: 0-99, instead of a split; default: the percentile of the origin within its label, or within
            its group where no origin has several nuisances (and within its split, where one is given).
        labels, nuisances: the names in their order; default: those in the table, sorted. Where the column has
            whole numbers or booleans that are not among the names, they count the names from 0.
        name: the name of the table in errors and reports.

    """
    given = {"key": key, "label": label, "nuisance": nuisance, "origin": origin or key, "severity": severity}
    given |= {"trajectory": trajectory, "split": split, "fold": fold}
    named = {role: column for role, column in given.items() if column}
    columns = _selected(table, list(dict.fromkeys(named.values())))
    read = {role: _column(columns, column, numeric=role == "severity") for role, column in named.items()}
    keys = read["key"].to_pylist()
    if len(set(keys)) < len(keys):
        repeated = min(str(value) for value, count in Counter(keys).items() if count > 1)
        raise InputError(f"the key {repeated!r} occurs more than once in {key!r}: keys must be unique")
    label_names, label_codes = _coded("label", read["label"], labels)
    nuisance_names, nuisance_codes = _coded(nuisance, read["nuisance"], nuisances)
    check_names("name", [name], "the table")
    check_names("column", [nuisance], "the table")
    check_names("label", label_names, name)
    check_names(nuisance, nuisance_names, name)
    if nuisance in {*COLUMNS, "trajectory"} - {"nuisance"}:
        raise InputError(f"the nuisance column cannot be called {nuisance!r}: that name is taken, rename it")
    rows = _computed(read, label_names, label_codes, nuisance_names, nuisance_codes)
    renamed = {nuisance if column == "nuisance" else column: values for column, values in rows.items()}
    origins = rows["origin"].to_pylist()
    shared = len(set(zip(origins, nuisance_codes.tolist(), strict=True))) > len(set(origins))
    return Metadata(pa.table(renamed), label_names, nuisance_names, nuisance, shared, name)


def _computed(
    read: Mapping[str, pa.ChunkedArray],
    labels: Sequence[str],
    label: Array,
    nuisances: Sequence[str],
    nuisance: Array,
) -> dict[str, pa.Array]:
    """Return all columns, with those that the table lacks."""
    keys, origins = (read[role].cast(pa.string()).to_pylist() for role in ("key", "origin"))
    names = [nuisances[number] for number in nuisance]
    folds_ = _placed(read, [(labels[n], of, o) for n, of, o in zip(label, names, origins, strict=True)])
    splits = [split_of_fold(fold) for fold in folds_]
    severity = read.get("severity", pa.nulls(len(keys), pa.float64()))
    groups = label * len(nuisances) + nuisance
    cells = _cells(splits, groups, severity)
    # A trajectory has a row at each severity; where rows are no trajectories, their keys order them.
    units = list(map(str, read["trajectory"].to_pylist())) if "trajectory" in read else origins
    trajectories = [f"{unit} / {of}" for unit, of in zip(units, names, strict=True)]
    unique = len(set(zip(cells.tolist(), trajectories, strict=True))) == len(keys)
    if "trajectory" in read and not unique:
        raise InputError(
            "a trajectory has two rows at one severity: give each a name of its own, and `severity`"
        )
    hashed, order = np.array(units if unique else keys), np.argsort(keys)
    quantile = np.empty(len(keys))
    # In the order of keys: equal hashes must not be ordered by the order of rows.
    quantile[order] = quantiles(cells[order], hashes64(hashed[order].tolist(), "quantile"))
    rows = {
        "key": pa.array(keys, pa.string()),
        "split": pa.array(splits, pa.string()),
        "fold": pa.array(folds_, pa.int8()),
        "label": pa.array(label, pa.int64()),
        "nuisance": pa.array(nuisance, pa.int64()),
        "severity": severity,
        "group": pa.array(groups, pa.int32()),
        "origin": pa.array(origins, pa.string()),
        "quantile": pa.array(quantile),
    }
    if "severity" in read and unique:
        rows["trajectory"] = pa.array(trajectories, pa.string())
    return rows


def _selected(frame: Any, names: list[str]) -> pa.Table:
    """Return columns as Arrow; other columns, which may be of any type, are not converted."""
    if not hasattr(frame, "__arrow_c_stream__"):
        raise InputError(
            "rows are a DataFrame of pandas (2.2 or newer) or polars, or a pyarrow table; got a "
            f"{type(frame).__name__}: read a file, or collect a lazy frame, first"
        )
    if isinstance(frame, pa.Table):
        return frame
    present = list(getattr(frame, "columns", ()))
    try:
        return pa.table(frame[[name for name in names if name in present]] if present else frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{error}: give each column one type and a name of its own") from error


def _column(table: pa.Table, name: str, *, numeric: bool) -> pa.ChunkedArray:
    """Return a column as numbers; or as texts, whole numbers or booleans."""
    if name not in table.column_names:
        raise not_found("column", name, table.column_names, "Name the columns of your table.")
    if table.column_names.count(name) > 1:
        raise InputError(f"there are {table.column_names.count(name)} columns {name!r}: rename all but one")
    column = table[name]
    if pa.types.is_dictionary(column.type):
        # Arrow cannot take from string views, which polars has for texts.
        kind = pa.string() if pa.types.is_string_view(column.type.value_type) else column.type.value_type
        chunks = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in column.chunks]
        column = pa.chunked_array(chunks, kind)
    empty = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    if pc.any(empty).as_py():
        row = pc.index(empty, True).as_py()
        raise InputError(f"the column {name!r} is empty or nan in row {row}: every row needs a value")
    return _plain(name, column, numeric=numeric)


def _plain(name: str, column: pa.ChunkedArray, *, numeric: bool) -> pa.ChunkedArray:
    kind = column.type
    try:
        if numeric:
            return column.cast(pa.float64())
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            return column
        return column.cast(pa.int64() if pa.types.is_floating(kind) else pa.string())
    except pa.ArrowException as error:
        fault = f"has the type {kind}: make it {'numbers' if numeric else 'texts, whole numbers or booleans'}"
        if pa.types.is_floating(kind):
            fault = "has fractions: cut it into bands, and give each a name"
        raise InputError(f"the column {name!r} {fault}") from error


def _coded(kind: str, column: pa.ChunkedArray, names: Sequence[str] | None) -> tuple[tuple[str, ...], Array]:
    """Return the names, and the number of each row's."""
    spelled = column.cast(pa.string())
    present = pc.unique(spelled).to_pylist()
    if names is None:  # numbers in their order, not in that of their digits
        listed = tuple(name for _, name in sorted(zip(pc.unique(column).to_pylist(), present, strict=True)))
    else:
        listed = tuple(map(str, names))
    if len(set(listed)) < len(listed):
        raise InputError(f"a {kind} is named twice in {', '.join(listed)}: give each name once")
    values = listed
    if column.type != pa.string() and not set(present) <= set(listed):
        values = tuple(map(str, range(len(listed))))
        spelled = column.cast(pa.int64()).cast(pa.string())
    for name in sorted(set(pc.unique(spelled).to_pylist()) - set(values)):
        raise not_found(kind, name, values, "A row has it, and the names given do not.")
    codes: Array = pc.index_in(spelled, value_set=pa.array(values)).to_numpy().astype(np.int64)
    return listed, codes


def _placed(read: Mapping[str, pa.ChunkedArray], groups: list[tuple[str, str, str]]) -> list[int]:
    """Return the fold of each (label, nuisance, origin): as given, or by stable hash in the given split."""
    if "fold" in read:
        given: list[Any] = read["fold"].to_pylist()
        if "split" in read or not all(isinstance(fold, int) and 0 <= fold < 100 for fold in given):
            raise InputError("folds are whole numbers from 0 to 99, and give the split: name no split too")
        return given
    splits = read["split"].to_pylist() if "split" in read else None
    for name in set(splits or ()) - set(SPLITS):
        raise not_found("split", str(name), SPLITS)
    label_of: dict[str, str] = {}
    for label, _, origin in groups:
        if label_of.setdefault(origin, label) != label:
            pair = " and ".join(sorted({label, label_of[origin]}))
            raise InputError(f"the origin {origin!r} occurs under {pair}: give `fold`, or correct it")
    if splits is None:
        fold_of = folds(groups)
        return [fold_of[origin] for _, _, origin in groups]
    result = [0] * len(groups)
    for split, (first, end) in zip(SPLITS, pairwise([*SPLITS.values(), 100]), strict=True):
        rows = [row for row, name in enumerate(splits) if name == split]
        fold_of = folds(groups[row] for row in rows)
        for row in rows:
            result[row] = first + fold_of[groups[row][2]] * (end - first) // 100
    return result


def _cells(splits: list[str], groups: Array, severity: pa.Array) -> Array:
    """Number the (split, group, severity) of each row."""
    steps = np.nan_to_num(np.asarray(severity.to_numpy(zero_copy_only=False)), nan=-1.0)
    split = np.array([list(SPLITS).index(name) for name in splits])
    step = np.unique(steps, return_inverse=True)[1]
    cells: Array = (groups * len(SPLITS) + split) * (int(step.max(initial=0)) + 1) + step
    return cells.astype(np.int64)
