"""Metadata from your own table: what it lacks is computed by stable hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.data.format.names import check_names
from shiftdata.data.format.schema import SPLITS, split_of_fold
from shiftdata.data.metadata.folds import folds, quantiles
from shiftdata.data.metadata.rows import COLUMNS, Array, Metadata
from shiftdata.errors import InputError, not_found

#: What columns of numbers say; all others have names.
NUMERIC = ("severity", "quantile")


class Frame(Protocol):
    """A DataFrame of pandas or polars, a table of pyarrow: whatever hands out its columns as Arrow does."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object:
        """The PyCapsule of its columns."""


def metadata_from_table(
    table: Frame,
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
        table: one row an example, in any order: a DataFrame of pandas or polars, or a pyarrow table. Labels,
            nuisances, keys and origins are texts, categories, whole numbers, booleans or dates.
        key: unique names of the rows; everything that is drawn is keyed by them. An index of pandas counts as
            a column if it has a name.
        label: the class.
        nuisance: the style, domain, ...
        origin: what a row was made from; rows of one origin are never put on two sides. Default: the key.
        severity: the strength of a continuous shift.
        trajectory: what is one example over all severities. Default: the origin under one nuisance.
        split: `train`, `validation` or `test`; default: by fold.
        fold: 0-99; default: the percentile of the origin within its label, or within its group where no
            origin has several nuisances (and within its split, where one is given).
        quantile: the position in the group; default: by stable hash.
        labels, nuisances: the names in their order; default: those in the table, sorted. Where the column has
            whole numbers or booleans that are not among the names, they count the names from 0.
        name: what to call the table in errors and reports.

    """
    given = {"key": key, "label": label, "nuisance": nuisance, "origin": origin or key}
    optional = {"severity": severity, "trajectory": trajectory, "split": split, "fold": fold}
    given |= {what: one for what, one in (optional | {"quantile": quantile}).items() if one}
    columns = _selected(table, list(dict.fromkeys(given.values())))
    read = {what: _plain(one, _column(columns, one), numeric=what in NUMERIC) for what, one in given.items()}
    _check_keys(read["key"].to_pylist(), key)
    known_labels, label_codes = _coded("label", read["label"], labels)
    known_nuisances, nuisance_codes = _coded(nuisance, read["nuisance"], nuisances)
    for what, one in (("name", name), ("column", nuisance)):
        check_names(what, [one], "the table")
    check_names("label", known_labels, name)
    check_names(nuisance, known_nuisances, name)
    names = ([known_labels[n] for n in label_codes], [known_nuisances[n] for n in nuisance_codes])
    groups = label_codes * len(known_nuisances) + nuisance_codes
    made = _computed(read, *names, groups)
    first = {"label": pa.array(label_codes, pa.int64()), nuisance: pa.array(nuisance_codes, pa.int64())}
    if nuisance in made or len(first) < 2:
        raise InputError(f"the nuisance column cannot be called {nuisance!r}: that name is taken, rename it")
    ordered = [column if column != "nuisance" else nuisance for column in (*COLUMNS, "trajectory")]
    rows = {column: (made | first)[column] for column in ordered if column in made | first}
    origins = made["origin"].to_pylist()
    shared = len(set(zip(origins, nuisance_codes.tolist(), strict=True))) > len(set(origins))
    return Metadata(pa.table(rows), known_labels, known_nuisances, nuisance, shared, name)


def _computed(
    read: Mapping[str, pa.ChunkedArray], labels: list[str], nuisances: list[str], groups: Array
) -> dict[str, pa.Array]:
    """All columns but label and nuisance, with what the table does not give."""
    keys, origins = (read[what].cast(pa.string()).to_pylist() for what in ("key", "origin"))
    of_fold = _placed(read, list(zip(labels, nuisances, origins, strict=True)))
    splits = [split_of_fold(one) for one in of_fold]
    steps = read.get("severity", pa.nulls(len(keys), pa.float64()))
    cells = _cells(splits, groups, steps)
    paths = _trajectories(read, nuisances, origins, cells)
    quantile = read.get("quantile")
    if quantile is None:
        quantile = pa.array(_quantiles(keys, keys if paths is None else paths[0], cells))
    made = {
        "key": pa.array(keys, pa.string()),
        "split": pa.array(splits, pa.string()),
        "fold": pa.array(of_fold, pa.int8()),
        "severity": steps,
        "group": pa.array(groups, pa.int32()),
        "origin": pa.array(origins, pa.string()),
        "quantile": quantile,
    }
    if "severity" in read and paths is not None:
        made["trajectory"] = pa.array(paths[1], pa.string())
    return made


def _selected(frame: Any, names: list[str]) -> pa.Table:
    """Some columns as Arrow; others, which may be of any type, are not looked at."""
    if not hasattr(frame, "__arrow_c_stream__"):
        raise InputError(
            "rows are a DataFrame of pandas (2.2 or newer) or polars, or a pyarrow table; got a "
            f"{type(frame).__name__}: read a file, or collect a lazy frame, first"
        )
    if isinstance(frame, pa.Table):
        return frame
    known = list(getattr(frame, "columns", ()))
    try:
        return pa.table(frame[[name for name in names if name in known]] if known else frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{error}: give each column one type and a name of its own") from error


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        raise not_found("column", name, table.column_names, "Name the columns of your table.")
    if table.column_names.count(name) > 1:
        raise InputError(f"there are {table.column_names.count(name)} columns {name!r}: rename all but one")
    column = table[name]
    if pa.types.is_dictionary(column.type):
        # Nothing takes from views, which polars has for texts.
        kind = pa.string() if pa.types.is_string_view(column.type.value_type) else column.type.value_type
        chunks = [one.dictionary.cast(kind).take(one.indices) for one in column.chunks]
        column = pa.chunked_array(chunks, kind)
    bad = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    if pc.any(bad).as_py():
        row = pc.index(bad, True).as_py()
        raise InputError(f"the column {name!r} is empty or nan in row {row}: every row needs a value")
    return column


def _plain(name: str, column: pa.ChunkedArray, *, numeric: bool) -> pa.ChunkedArray:
    """A column as numbers; or as texts, whole numbers or booleans."""
    kind = column.type
    try:
        if isinstance(kind, pa.BaseExtensionType):
            raise pa.ArrowTypeError(str(kind))
        if numeric:
            return column.cast(pa.float64())
        if pa.types.is_temporal(kind):  # a day is written as one
            return pa.chunked_array(
                [[str(one).removesuffix(" 00:00:00") for one in column.to_pylist()]], pa.string()
            )
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            return column
        return column.cast(pa.int64() if pa.types.is_floating(kind) else pa.string())
    except pa.ArrowException as error:
        if pa.types.is_floating(kind):
            raise InputError(
                f"the column {name!r} has fractions: cut it into bands, and give each a name"
            ) from error
        wanted = "numbers" if numeric else "texts, whole numbers or booleans"
        raise InputError(f"the column {name!r} has the type {kind}: make it {wanted}") from error


def _check_keys(keys: list[Any], column: str) -> None:
    if len(set(keys)) < len(keys):
        repeated = min(str(one) for one, count in Counter(keys).items() if count > 1)
        raise InputError(f"the key {repeated!r} occurs more than once in {column!r}: keys must be unique")


def _coded(what: str, column: pa.ChunkedArray, names: Sequence[str] | None) -> tuple[tuple[str, ...], Array]:
    """The names, and the number of each row's."""
    spelled = column.cast(pa.string())
    present = pc.unique(spelled).to_pylist()
    if names is None:  # numbers in their order, not in that of their digits
        known = tuple(name for _, name in sorted(zip(pc.unique(column).to_pylist(), present, strict=True)))
    else:
        known = tuple(map(str, names))
    if len(set(known)) < len(known):
        raise InputError(f"a {what} is named twice in {', '.join(known)}: give each name once")
    values = known
    if column.type != pa.string() and not set(present) <= set(known):
        values = tuple(map(str, range(len(known))))
        spelled = column.cast(pa.int64()).cast(pa.string())
    for one in sorted(set(pc.unique(spelled).to_pylist()) - set(values)):
        raise not_found(what, one, values, "A row has it, and the names given do not.")
    codes: Array = pc.index_in(spelled, value_set=pa.array(values)).to_numpy().astype(np.int64)
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
