"""A selection of rows, which the view gives as SQL: as filters of `load_dataset`, or else as keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: Columns that `load_dataset` filters by; the nuisance comes under its own name.
NUMBERS = ("severity", "quantile")
FILTERED = ("key", "label", "split", "group", "severity", "license", "origin", "quantile")
UNTOUCHED = "untouched"
#: Keys that are written into the code; of more, the code reads them from the file of keys.
MOST_KEYS = 50
_OPERATORS = {
    "COMPARE_EQUAL": "==",
    "COMPARE_NOT_DISTINCT_FROM": "==",
    "COMPARE_DISTINCT_FROM": "!=",
    "COMPARE_NOTEQUAL": "!=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_LITERALS: Mapping[str, Callable[[str], Any]] = {"STRING": str, "INTEGER": int, "NUMERIC": float}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}

Clause = tuple[str, str, Any]


class NoFilterError(Exception):
    """A condition that filters cannot say: of a place on the map, of predictions, of a part of a text."""


def filters_of(tree: Mapping[str, Any], columns: Sequence[str]) -> list[Clause]:
    """Return the clauses, all of which must hold, of a query as DuckDB's `json_serialize_sql` gives it."""
    where = tree["statements"][0]["node"]["where_clause"]
    return _conditions(where, columns) if where else []


def _conditions(node: Mapping[str, Any], columns: Sequence[str]) -> list[Clause]:
    kind = node["type"]
    if kind == "CONJUNCTION_AND":
        return [clause for child in node["children"] for clause in _conditions(child, columns)]
    if kind in _OPERATORS:
        operator, left, right = _OPERATORS[kind], node["left"], node["right"]
        if _plain(left)["class"] == "CONSTANT":
            left, right, operator = right, left, _MIRRORED[operator]
        return [_clause(left, operator, _value(right), columns)]
    if kind == "COMPARE_BETWEEN":
        ends = {">=": node["lower"], "<=": node["upper"]}
        return [_clause(node["input"], operator, _value(end), columns) for operator, end in ends.items()]
    if kind == "COMPARE_IN":
        return [_membership(node, "in", columns)]
    if kind == "OPERATOR_NOT" and node["children"][0]["type"] == "COMPARE_IN":
        return [_membership(node["children"][0], "not in", columns)]
    if kind == "CONJUNCTION_OR":
        return [_either([_conditions(child, columns) for child in node["children"]])]
    raise NoFilterError(kind)


def _membership(node: Mapping[str, Any], operator: str, columns: Sequence[str]) -> Clause:
    subject, *values = node["children"]
    return _clause(subject, operator, [*map(_value, values)], columns)


def _clause(node: Mapping[str, Any], operator: str, value: Any, columns: Sequence[str]) -> Clause:
    """Return a clause; the view compares numbers as texts too."""
    name = _column(node, columns)
    if name in NUMBERS:
        value = [*map(float, value)] if isinstance(value, list) else float(value)
    if UNTOUCHED in (value if isinstance(value, list) else [value]):  # rows without a nuisance have no name
        raise NoFilterError(UNTOUCHED)
    return name, operator, value


def _either(parts: Sequence[Sequence[Clause]]) -> Clause:
    """Write `a = 1 or a = 2` as `a in [1, 2]`, which is what a click on two bars of a chart means."""
    if any(len(part) != 1 or part[0][1] not in ("==", "in") for part in parts):
        raise NoFilterError("OR")
    names = {part[0][0] for part in parts}
    if len(names) > 1:
        raise NoFilterError("OR")
    values = [value for part in parts for value in (part[0][2] if part[0][1] == "in" else [part[0][2]])]
    return names.pop(), "in", values


def _plain(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Look through a cast to text, which the view puts around names."""
    while node["class"] == "CAST":
        node = node["child"]
    return node


def _column(node: Mapping[str, Any], columns: Sequence[str]) -> str:
    node = _plain(node)
    name = str(node["column_names"][-1]) if node["class"] == "COLUMN_REF" else ""
    if name not in columns:
        raise NoFilterError(name)
    return name


def _value(node: Mapping[str, Any]) -> Any:
    literal = _plain(node).get("literal")
    if literal is None or literal["kind"] not in _LITERALS:
        raise NoFilterError(node["type"])
    return _LITERALS[literal["kind"]](literal["text"])


def code(name: str, base: str, filters: Sequence[Clause] | None, keys: Callable[[int], Sequence[str]]) -> str:
    """Return Python that loads a selection; `keys` gives its first keys where filters cannot say it."""
    call = f'ds = sd.load_dataset({json.dumps(name)}, "{base}", split="all"'
    if filters is not None:
        lines = "".join(f"\n    {clause!r}," for clause in filters)
        return f"import shiftdata as sd\n\n{call}{f', filters=[{lines}{chr(10)}]' if filters else ''})\n"
    listed = list(keys(MOST_KEYS + 1))
    if len(listed) <= MOST_KEYS:
        return f'import shiftdata as sd\n\nkeys = {listed!r}\n{call}, filters=[("key", "in", keys)])\n'
    return (
        "import shiftdata as sd\n\n"
        '# the button "Keys" writes this file\n'
        f'keys = open("keys.txt").read().split("\\n")\n{call}, filters=[("key", "in", keys)])\n'
    )
