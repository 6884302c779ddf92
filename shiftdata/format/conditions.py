"""Filters as pyarrow and `datasets` read them, applied to arrays and joined with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.format.manifest import Filters
from shiftdata.format.schema import SPLITS
from shiftdata.metadata.folds import Clause

Array = NDArray[Any]

_COMPARE = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def matches(columns: Mapping[str, Array], filters: Filters) -> NDArray[np.bool_]:
    """Which rows some filters keep; conditions on columns that are not given are taken to hold."""
    size = len(next(iter(columns.values())))
    kept = np.zeros(size, dtype=bool)
    for clause in filters:
        mine = np.ones(size, dtype=bool)
        for name, operator, value in clause:
            if name in columns:
                mine &= _holds(columns[name], name, operator, value)
        kept |= mine
    return kept


def _holds(column: Array, name: str, operator: str, value: Any) -> Array:
    if name == "split":
        value = [list(SPLITS).index(one) for one in ([value] if isinstance(value, str) else value)]
        operator = {"==": "in", "!=": "not in"}.get(operator, operator)
    if operator == "in":
        found = np.isin(column, value)
    elif operator == "not in":
        found = ~np.isin(column, value)
    else:
        found = _COMPARE[operator](column, value)
    # A missing value is never kept, as in Arrow; here it is nan in a column of fractions, else -1.
    result: Array = found & (~np.isnan(column) if column.dtype.kind == "f" else column >= 0)
    return result


def both(left: Filters, right: Filters) -> Filters:
    """The filters that keep what two others both keep; those that can keep nothing are left out.

    >>> both([[("split", "==", "train")]], [[("split", "in", ["train", "test"]), ("fold", "<", 9)]])
    [[('split', '==', 'train'), ('fold', '<', 9)]]
    """
    merged = [_merged(one, other) for one in left for other in right]
    return [clause for clause in merged if clause is not None] or [[("split", "in", [])]]


def _merged(left: Clause, right: Clause) -> Clause | None:
    splits, others = set(SPLITS), []
    for condition in [*left, *right]:
        if condition[0] == "split":
            names = [condition[2]] if condition[1] == "==" else condition[2]
            splits &= set(names)
        elif condition not in others:
            others.append(condition)
    kept = [name for name in SPLITS if name in splits]
    if not kept:
        return None
    if len(kept) == len(SPLITS):
        return others
    return [("split", "==", kept[0]) if len(kept) == 1 else ("split", "in", kept), *others]


def either(parts: Sequence[Filters | None]) -> Filters | None:
    """The filters that keep what any of some others keep; whole splits are joined into one clause."""
    clauses: Filters = []
    for part in parts:
        if part is None:
            return None
        clauses += part
    whole = [clause[0][2] for clause in clauses if len(clause) == 1 and clause[0][:2] == ("split", "==")]
    if len(whole) < len(clauses):
        return clauses
    return [[("split", "in", whole)]] if len(set(whole)) < len(SPLITS) else [[]]
