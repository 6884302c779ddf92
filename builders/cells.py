"""Read cells of a table by the type that the recipe declares, never by their looks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from shiftdata.data.format.schema import Feature

#: A cell as a file stores it, or as it was read.
Cell: TypeAlias = bool | int | float | str | None

#: How files write that a number, a boolean or a category is not known; in texts, only an empty cell does.
MISSING = frozenset(("", "#n/a", "n/a", "na", "nan", "none", "null", "<na>", "?", ".", "-"))

YES, NO = ("1", "yes", "y", "t"), ("0", "no", "n", "f")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
INT64 = range(-(2**63), 2**63)
EXACT = 2**53  # above it, a number that is not written in whole digits may have lost some

MOST_VALUES = 3  # of those that a reason names
MOST_CATEGORIES = 8
LONGEST = 40


def read_cell(feature: Feature, cell: Cell, *, decimal: str = ".") -> Cell:
    """A cell as its feature's type; None where it is not known; ValueError where it is something else.

    `1`, `1.0` and `true` are one value, as are `0`, `0.0` and `false`; a category is given by its name.

    >>> read_cell(("0", "1"), "True"), read_cell("int64", "3.0"), read_cell("bool", 0), read_cell("string", 7)
    ('1', 3, False, '7')
    """
    if cell is None or cell != cell:  # NaN
        return None
    if type(cell) is float and feature == "float64" and math.isfinite(cell):
        return cell
    text = str(cell)
    if feature == "string":
        return (_plain(text) if isinstance(cell, float) else text) or None
    if not isinstance(feature, str):
        return _category(feature, text)
    if text.strip().lower() in MISSING:
        return None
    if decimal == "," and isinstance(cell, str):
        text = text.translate({ord(","): ".", ord("."): ","})
    return _READERS[feature](_plain(text))


def misfit(name: str, feature: Feature, values: Sequence[str] = ()) -> str:
    """The reason for leaving out rows whose feature cannot be read, with some of the values.

    It is counted and published, so that it is one reason for a column, however many values there are.
    """
    if isinstance(feature, str):
        reason = f"{name} is not of the type {feature}"
    else:
        listed = ", ".join(feature[:MOST_CATEGORIES]) + (", ..." if len(feature) > MOST_CATEGORIES else "")
        reason = f"{name} is not one of its categories ({listed})"
    if feature == "float64" and any(re.fullmatch(r"[0-9.]+,[0-9]+", value) for value in values):
        reason += ' with a decimal point (give decimal="," for commas)'
    if values:
        shown = [repr(value if len(value) <= LONGEST else f"{value[:LONGEST]}...") for value in values]
        reason += f": the file has {', '.join(shown[:MOST_VALUES])}"
    return reason + (f" and {len(values) - MOST_VALUES:,} others" if len(values) > MOST_VALUES else "")


def _plain(text: str) -> str:
    """One spelling of equal values."""
    text = text.strip()
    if text[:1] in "tTfF" and text.lower() in ("true", "false"):
        return "1" if text.lower() == "true" else "0"
    whole, _, rest = text.partition(".")
    return whole if not rest.strip("0") and re.fullmatch(r"[+-]?[0-9]+", whole) else text


def _category(names: Sequence[str], text: str) -> str | None:
    plain = _plain(text)
    for name in (text, text.strip()):
        if name in names:
            return name
    if plain.lower() in MISSING:
        return None
    alike = [name for name in names if _plain(name) == plain]
    if len(alike) != 1:
        raise ValueError(text)
    return alike[0]


def _bool(text: str) -> bool:
    if text.lower() not in (*YES, *NO):
        raise ValueError(text)
    return text.lower() in YES


def _int(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]+", text):
        number = int(text)
    elif (read := _float(text)).is_integer() and abs(read) <= EXACT:
        number = int(read)
    else:
        raise ValueError(text)
    if number not in INT64:
        raise ValueError(text)
    return number


def _float(text: str) -> float:
    number = float(text) if NUMBER.fullmatch(text) else math.inf
    if math.isinf(number):
        raise ValueError(text)
    return number


_READERS: Mapping[str, Callable[[str], Cell]] = {"bool": _bool, "int64": _int, "float64": _float}
