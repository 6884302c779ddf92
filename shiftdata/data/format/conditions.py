"""Conditions on columns: parse, write, apply and join filters; rows by the values of their columns.

Filters are alternatives of clauses, a clause is conditions that all hold, as `pyarrow` and `datasets` read
them: `[[("split", "==", "train"), ("quantile", "<", 0.1)], ...]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.arrays import stretches
from shiftdata.data.format.licenses import rights
from shiftdata.data.format.records import Clause, Condition, Filters
from shiftdata.data.format.schema import SPLITS
from shiftdata.errors import InputError, not_found

Array = NDArray[Any]
#: The columns that are compared with numbers, and those that are matched as text.
NUMBERS = ("severity", "quantile", "fold")
TEXTS = ("key", "origin", "license", "attribution")
#: A condition on what the licence of a row allows, such as use=commercial; what is not known is not allowed.
USE, USES = "use", ("commercial", "derivatives")

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
    """Parse a condition as people write it; names stay names until `resolve`.

    >>> parse_condition("style=amber,embers"), parse_condition("severity <= 1.5")
    (('style', 'in', ['amber', 'embers']), ('severity', '<=', 1.5))
    """
    match = _TEXT.fullmatch(text)
    values = [text for part in match[3].split(",") if (text := part.strip())] if match else []
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
    values = [item for item in values if str(item) != "-0.0"]
    shown = [names[column][item] if column in names else str(item).removesuffix(".0") for item in values]
    return f"{column}{_SIGNS.get(operator, operator)}{','.join(shown)}"


def resolve(
    condition: Condition, *, labels: Sequence[str], nuisance: str, nuisances: Sequence[str]
) -> Condition:
    """Write a condition as filters do: names as numbers and sorted, so that equal conditions are equal."""
    column, operator, value = condition
    column = nuisance if column == "nuisance" else column
    named = {"label": labels, nuisance: nuisances}
    if column not in (allowed := [*named, *NUMBERS, *TEXTS, USE]):
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
        chosen = {number_of(column, item, named[column]) for item in values}
        # As the names that stay: filters disagree on whether a missing value is "not in" a list.
        return column, "in", sorted(set(range(len(named[column]))) - chosen if excluded else chosen)
    if column == USE and (unknown := set(values) - set(USES)):
        raise not_found("use", str(min(unknown)), USES)
    operator = "not in" if excluded else "in"
    if column in NUMBERS:
        return column, operator, numbers_in([_number(column, item) for item in values])
    return column, operator, sorted(set(map(str, values)))


def numbered(filters: Sequence[Any], columns: Collection[str], names: Mapping[str, Sequence[str]]) -> Filters:
    """Write filters by name as filters by number; `names` are those of columns of numbers, and the splits.

    >>> numbered([("style", "!=", "ink")], ["style"], {"style": ["ink", "oil", "rust"]})
    [[('style', 'in', [1, 2])]]
    """
    clauses = [filters] if filters and isinstance(filters[0][0], str) else filters
    return [[_numbered(condition, columns, names) for condition in clause] for clause in clauses]


def _numbered(
    condition: Condition, columns: Collection[str], names: Mapping[str, Sequence[str]]
) -> Condition:
    column, operator, value = condition
    if column not in columns:
        raise not_found("column", column, columns)
    if column not in names or operator not in ("=", "==", "!=", "in", "not in"):
        return column, operator, value
    values = [value] if isinstance(value, str | Integral) else list(value)
    chosen = {int(of) if isinstance(of, Integral) else number_of(column, of, names[column]) for of in values}
    if operator in ("!=", "not in"):
        chosen = set(range(len(names[column]))) - chosen
    return column, "in", [names[column][of] if column == "split" else of for of in sorted(chosen)]


def numbers_in(values: Iterable[int | float]) -> list[int | float]:
    """Return numbers as the values of "in", each once and in their order.

    Statistics give a row group of zeros the range -0.0 to 0.0, and Arrow skips it unless -0.0 is listed too.

    >>> numbers_in([0.5, 0.0]), numbers_in([2, 1])
    ([-0.0, 0.0, 0.5], [1, 2])
    """
    ordered = sorted(set(values))
    return (
        [-0.0, *ordered] if any(isinstance(number, float) and number == 0 for number in ordered) else ordered
    )


def number_of(column: str, value: Any, names: Sequence[str], hint: str = "") -> int:
    """Look up a label or nuisance by name or number; case does not count, nor does space, `-` or `_`."""

    def plain(name: str) -> str:
        return name.lower().replace(" ", "_").replace("-", "_")

    numbers = {plain(name): number for number, name in enumerate(names)}
    number = numbers.get(plain(str(value)))
    if number is None and str(value).isdigit() and int(value) < len(names):
        number = int(value)
    if number is None:
        raise not_found(column, str(value), names, hint)
    return number


def _number(column: str, value: Any) -> float:
    try:
        return int(value) if column == "fold" else float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{column} is compared with a number, and {value!r} is not one") from error


def matches(columns: Mapping[str, Array], filters: Filters, among: Array | None = None) -> NDArray[np.bool_]:
    """Return the mask of rows, all or those `among`, that filters keep; missing columns meet every condition.

    A split is the number of its name, a missing number is -1 or nan.
    """
    mask = np.zeros(len(next(iter(columns.values())) if among is None else among), dtype=bool)
    for at in stretches(len(mask)):
        for clause in filters:
            mask[at][_kept(columns, clause, at if among is None else among[at])] = True
    return mask


def _kept(columns: Mapping[str, Array], clause: Clause, rows: Array | slice) -> Array | slice:
    """Return which of some rows a clause keeps; after the first condition only those left are compared."""
    kept: Array | slice = slice(None)
    for name, operator, value in clause:
        if name in columns:
            column = columns[name][rows][kept] if isinstance(rows, slice) else columns[name][rows[kept]]
            left = np.flatnonzero(_holds(column, name, operator, value))
            kept = left if isinstance(kept, slice) else kept[left]
    return kept


def _holds(column: Array, name: str, operator: str, value: Any) -> Array:
    if name == "split":
        value = [list(SPLITS).index(name) for name in ([value] if isinstance(value, str) else value)]
        operator = {"==": "in", "!=": "not in"}.get(operator, operator)
    if operator in ("in", "not in"):
        mask = np.isin(column, list(value)) == (operator == "in")
    else:
        mask = _COMPARE[operator](column, value)
    # A missing value is never kept, as in Arrow.
    result: Array = mask & (~np.isnan(column) if column.dtype.kind == "f" else column >= 0)
    return result


def rows_matching(table: pa.Table, filters: Filters) -> pa.Table:
    """Return the rows of a metadata table that the filters keep, in table order."""
    mask = np.zeros(len(table), dtype=bool)
    for clause in filters:
        matching = np.ones(len(table), dtype=bool)
        for name, operator, value in clause:
            if name == USE and USE not in table.column_names:
                allowed = {text: rights(text or "") for text in pc.unique(table["license"]).to_pylist()}
                name, uses = "license", list(value)
                value = [text for text, may in allowed.items() if any(may[use] == "yes" for use in uses)]
            matching &= pc.fill_null(_in_arrow(table[name], operator, value), False).to_numpy()
        mask |= matching
    return table.filter(pa.array(mask))


def _in_arrow(column: pa.ChunkedArray, operator: str, value: Any) -> pa.ChunkedArray:
    if operator not in ("in", "not in"):
        return pc.call_function(_COMPARE[operator].__name__, [column, pa.scalar(value)])
    mask = pc.is_in(column, value_set=pa.array(list(value), column.type))
    return mask if operator == "in" else pc.and_(pc.invert(mask), pc.is_valid(column))


def both(left: Filters, right: Filters) -> Filters:
    """Return the filters that keep what both keep; clauses that keep nothing are left out.

    >>> both([[("split", "==", "train")]], [[("split", "in", ["train", "test"]), ("fold", "<", 9)]])
    [[('split', '==', 'train'), ('fold', '<', 9)]]
    """
    merged = [_merged(*pair) for pair in product(left, right)]
    return [clause for clause in merged if clause is not None] or [[("split", "in", [])]]


def _merged(left: Clause, right: Clause) -> Clause | None:
    splits, rest = list(SPLITS), Clause()
    for condition in [*left, *right]:
        if condition[0] == "split":
            names = [condition[2]] if condition[1] == "==" else condition[2]
            splits = [name for name in splits if name in names]
        elif condition not in rest:
            rest.append(condition)
    if not splits:
        return None
    if len(splits) == len(SPLITS):
        return rest
    return [("split", "==", splits[0]) if len(splits) == 1 else ("split", "in", splits), *rest]


def either(parts: Sequence[Filters | None]) -> Filters | None:
    """Return the filters that keep what any part keeps; whole splits are joined into one clause."""
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
    """Return the filters with a condition on `split` in every clause, which keeps only these splits.

    >>> pinned([[("fold", "<", 60)], [("split", "==", "test")]], ["train", "validation"])
    [[('split', 'in', ['train', 'validation']), ('fold', '<', 60)]]
    """
    every: Clause = [("split", "in", list(SPLITS))]
    pinned_ = both(filters, [[("split", "in", list(splits))]])
    return [clause if clause and clause[0][0] == "split" else every + clause for clause in pinned_]


def chosen_rows(
    table: pa.Table, chosen: Mapping[str, str | int | Iterable[str | int]], names: Collection[str]
) -> pa.Table:
    """Return the rows with the given values of columns; a value that no row has is refused.

    `names` are the columns by which rows may be chosen.
    """
    for name, wanted in chosen.items():
        if name not in names:
            raise not_found("name to choose by", name, names)
        column = table[name]
        values = [str(value) for value in ([wanted] if isinstance(wanted, str | int) else wanted)]
        present = {str(value) for value in column.to_pylist() if value is not None}
        for value in values:
            if value not in present:
                raise not_found(name, value, present)
        table = table.filter(pc.is_in(column.cast(pa.string()), pa.array(values, pa.string())))
    return table
