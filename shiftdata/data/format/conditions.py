"""Conditions on columns: how filters are written, which rows they keep, and how they are joined.

Filters are alternatives of clauses, a clause is conditions that all hold, as `pyarrow` and `datasets` read
them: `[[("split", "==", "train"), ("quantile", "<", 0.1)], ...]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.format.records import Clause, Condition, Filters
from shiftdata.data.format.schema import SPLITS
from shiftdata.errors import InputError, not_found

Array = NDArray[Any]
#: The columns that are compared with numbers, and those that are matched as text.
NUMBERS = ("severity", "quantile", "fold")
TEXTS = ("key", "origin", "license", "attribution")

_TEXT = re.compile(r"\s*([\w.-]+)\s*(<=|>=|==|!=|=|<|>)\s*(.*?)\s*")
_SIGNS = {"in": "=", "==": "=", "not in": "!="}
_COMPARE = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def parse_condition(text: str) -> Condition:
    """Read a condition as people write it; names stay names until `resolve`.

    >>> parse_condition("style=amber,embers"), parse_condition("severity <= 1.5")
    (('style', 'in', ['amber', 'embers']), ('severity', '<=', 1.5))
    """
    match = _TEXT.fullmatch(text)
    values = [one.strip() for one in match[3].split(",") if one.strip()] if match else []
    if not match or not values:
        raise InputError(
            f"{text!r} is not a condition: write COLUMN=VALUE,VALUE or COLUMN!=VALUE, "
            f"or compare {', '.join(NUMBERS)} with a number, as in severity<=1.5"
        )
    if match[2] in ("=", "==", "!="):
        return match[1], "not in" if match[2] == "!=" else "in", values
    return match[1], match[2], _number(match[1], match[3])


def condition_text(condition: Condition, names: Mapping[str, Sequence[str]] = {}) -> str:
    """Write a condition as people do; `names` are those of columns whose values are numbers of names.

    >>> condition_text(("style", "in", [0, 2]), {"style": ["ink", "oil", "rust"]})
    'style=ink,rust'
    """
    column, operator, value = condition
    values = value if isinstance(value, list | tuple) else [value]
    values = [one for one in values if str(one) != "-0.0"]
    shown = [names[column][one] if column in names else str(one).removesuffix(".0") for one in values]
    return f"{column}{_SIGNS.get(operator, operator)}{','.join(shown)}"


def resolve(
    condition: Condition, *, labels: Sequence[str], nuisance: str, nuisances: Sequence[str]
) -> Condition:
    """Write a condition as filters do: names as numbers and sorted, so that equal conditions are equal."""
    column, operator, value = condition
    column = nuisance if column == "nuisance" else column
    named = {"label": labels, nuisance: nuisances}
    if column not in (allowed := [*named, *NUMBERS, *TEXTS]):
        raise not_found("column", column, allowed)
    if operator in ("<", "<=", ">", ">="):
        if column not in NUMBERS:
            raise InputError(f"{column}{operator}{value}: only {', '.join(NUMBERS)} can be compared")
        return column, operator, _number(column, value)
    values = [value] if operator in ("==", "!=") else list(value)
    if not values:
        raise InputError(f"{column} is given no value")
    excluded = operator in ("!=", "not in")
    if column in named:
        chosen = {number_of(column, one, named[column]) for one in values}
        # Said by the names that stay, since filters disagree on whether a missing value is "not in" a list.
        return column, "in", sorted(set(range(len(named[column]))) - chosen if excluded else chosen)
    numeric = column in NUMBERS
    operator = "not in" if excluded else "in"
    if numeric:
        return column, operator, numbers_in([_number(column, one) for one in values])
    return column, operator, sorted({str(one) for one in values})


def numbers_in(values: Iterable[float]) -> list[float]:
    """Numbers as the values of "in", each once and in their order.

    Statistics give a row group of zeros the range -0.0 to 0.0, and Arrow then skips it unless it is asked
    for -0.0 too.

    >>> numbers_in([0.5, 0.0]), numbers_in([2, 1])
    ([-0.0, 0.0, 0.5], [1, 2])
    """
    ordered = sorted(set(values))
    return [-0.0, *ordered] if any(isinstance(one, float) and one == 0 for one in ordered) else ordered


def number_of(column: str, value: Any, names: Sequence[str], hint: str = "") -> int:
    """Look up a label or nuisance by name or number; case does not count, nor does space, `-` or `_`."""
    plain = {_plain(name): number for number, name in enumerate(names)}
    found = plain.get(_plain(str(value)))
    if found is None and str(value).isdigit() and int(value) < len(names):
        found = int(value)
    if found is None:
        raise not_found(column, str(value), names, hint)
    return found


def _plain(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")


def _number(column: str, value: Any) -> float:
    try:
        return int(value) if column == "fold" else float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{column} is compared with a number, and {value!r} is not one") from error


def matches(
    columns: Mapping[str, Array | _Texts], filters: Filters, among: Array | None = None
) -> NDArray[np.bool_]:
    """Which rows, all or those among some, filters keep; conditions on columns that are not given hold.

    A split is the number of its name, a missing number is -1 or nan.
    """
    kept = np.zeros(len(next(iter(columns.values())) if among is None else among), dtype=bool)
    for clause in filters:
        mine: Array | slice = slice(None)  # then the rows that are left: few, after the first condition
        for name, operator, value in clause:
            if name in columns:
                column = columns[name][mine if among is None else among[mine]]
                left = np.flatnonzero(_holds(column, name, operator, value))
                mine = left if isinstance(mine, slice) else mine[left]
        kept[mine] = True
    return kept


def rows_matching(table: pa.Table, filters: Filters) -> pa.Table:
    """The rows of a metadata table that the filters keep, in table order."""
    names = {name for clause in filters for name, _, _ in clause}
    columns = {name: _array(table[name], name) for name in sorted(names)}
    if not columns:
        return table if filters else table.slice(0, 0)
    return table.filter(pa.array(matches(columns, filters)))


def _array(column: pa.ChunkedArray, name: str) -> Array | _Texts:
    if name == "split":
        column = pc.index_in(column, value_set=pa.array(list(SPLITS)))
    missing = np.nan if pa.types.is_floating(column.type) else -1
    if pa.types.is_string(column.type):
        return _Texts(column.cast(pa.large_string()).combine_chunks())
    array: Array = (column if pa.types.is_boolean(column.type) else pc.fill_null(column, missing)).to_numpy()
    return array


@dataclass(frozen=True)
class _Texts:
    """Texts as a column, which never become objects of Python."""

    texts: pa.Array

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: Array | slice) -> _Texts:
        return self if isinstance(rows, slice) else _Texts(self.texts.take(pa.array(rows)))

    def holds(self, operator: str, value: Any) -> Array:
        """Which are among the values, or not among them; a missing text is neither."""
        values = [value] if operator in ("==", "!=") else list(value)
        found = pc.is_in(self.texts, value_set=pa.array(values, pa.large_string()))
        if operator in ("!=", "not in"):
            found = pc.and_(pc.invert(found), pc.is_valid(self.texts))
        result: Array = found.to_numpy(zero_copy_only=False)
        return result


def _holds(column: Array | _Texts, name: str, operator: str, value: Any) -> Array:
    if isinstance(column, _Texts):
        return column.holds(operator, value)
    if name == "split":
        value = [list(SPLITS).index(one) for one in ([value] if isinstance(value, str) else value)]
        operator = {"==": "in", "!=": "not in"}.get(operator, operator)
    if operator in ("in", "not in"):
        found = np.isin(column, list(value)) == (operator == "in")
    else:
        found = _COMPARE[operator](column, value)
    # A missing value is never kept, as in Arrow.
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


def pinned(filters: Filters, splits: Sequence[str]) -> Filters:
    """The filters with a condition on `split` in every clause, which keeps only some splits.

    >>> pinned([[("fold", "<", 60)], [("split", "==", "test")]], ["train", "validation"])
    [[('split', 'in', ['train', 'validation']), ('fold', '<', 60)]]
    """
    kept = both(filters, [[("split", "in", list(splits))]])
    every: Clause = [("split", "in", list(SPLITS))]
    return [clause if clause and clause[0][0] == "split" else every + clause for clause in kept]
