"""One number a row: the form of published results, and of results of one's own."""

from __future__ import annotations

import re

import pyarrow as pa

from shiftdata.errors import InputError

#: Where a number stands. No two rows of a table share these.
KEY = ("paper", "table", "part", "row", "column")

SCHEMA = pa.schema(
    [
        pa.field("paper", pa.string(), nullable=False),  # or the name of a project of one's own
        pa.field("table", pa.string(), nullable=False),  # "5", "figure 12", "text", or the name of a run
        pa.field("part", pa.string(), nullable=False),  # a block of the table: a dataset, a split, a setting
        pa.field("row", pa.string(), nullable=False),
        pa.field("column", pa.string(), nullable=False),
        pa.field("method", pa.string()),  # whose result it is: the row's or the column's name, or null
        pa.field("metric", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("spread", pa.float64()),  # what follows the sign ±
        pa.field("unit", pa.string(), nullable=False),
        pa.field("printed", pa.string(), nullable=False),  # the digits as printed: they say how exact it is
        pa.field("section", pa.string(), nullable=False),
        pa.field("line", pa.int32()),  # of the paper's text; null for results of one's own
    ]
)

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e-?\d+)?")


def read_number(printed: str) -> tuple[float, float | None]:
    """The value and the spread of a printed number.

    >>> read_number("77.19±2.04"), read_number("-0.167"), read_number("202599"), read_number("5e-5")
    ((77.19, 2.04), (-0.167, None), (202599.0, None), (5e-05, None))
    """
    value, sign, spread = printed.partition("±")
    if not _NUMBER.fullmatch(value) or (sign and not _NUMBER.fullmatch(spread)):
        raise InputError(f"{printed!r} is no printed number: write 77.19, or 77.19±2.04")
    return float(value), float(spread) if sign else None
