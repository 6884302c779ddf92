"""Rows of a table as features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import FloatArray

#: Values by column: numbers, booleans, texts.
Row: TypeAlias = Mapping[str, bool | int | float | str]


def features_of_rows(source: Sequence[Row], target: Sequence[Row]) -> tuple[FloatArray, FloatArray]:
    """Features of two lists of rows, such as `table.to_pylist()` gives: the same columns for both.

    A number stays as it is; a text becomes one column a value, over the values of both lists.

    >>> features_of_rows([{"age": 3, "sex": "f"}], [{"age": 4, "sex": "m"}])
    (array([[3., 1., 0.]]), array([[4., 0., 1.]]))
    """
    rows = [*source, *target]
    if not source or not target or not rows[0]:
        raise InputError("give at least one row with at least one column on either side")
    columns = sorted(rows[0])
    for at, row in enumerate(rows):
        if sorted(row) != columns:
            place = f"source row {at}" if at < len(source) else f"target row {at - len(source)}"
            raise InputError(
                f"{place} has the columns {sorted(row)}, source row 0 {columns}: give every row the same"
            )
    features = np.concatenate([_column(name, [row[name] for row in rows]) for name in columns], axis=1)
    return features[: len(source)], features[len(source) :]


def _column(name: str, values: list[bool | int | float | str]) -> FloatArray:
    """One number a row, or for texts one indicator a value."""
    missing = [value is None or (isinstance(value, float) and math.isnan(value)) for value in values]
    if any(missing):
        raise InputError(
            f"column {name!r}: {sum(missing)} of {len(values)} values are missing; "
            "drop these rows or fill them in"
        )
    texts = {value for value in values if isinstance(value, str)}
    if not texts and all(isinstance(value, (bool, int, float)) for value in values):
        return np.array(values, dtype=np.float64)[:, None]
    if len(texts) and all(isinstance(value, str) for value in values):
        return np.array([[float(value == text) for text in sorted(texts)] for value in values])
    kinds = sorted({type(value).__name__ for value in values})
    raise InputError(f"column {name!r} holds {', '.join(kinds)}: give only numbers, or only texts")
