"""The published numbers that ship with the package: five papers, one number, or cell of words, per row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from shiftdata.errors import InputError, IntegrityError, not_found
from shiftdata.untrusted.parquet import read_footer, read_parquet
from shiftdata.untrusted.texts import read_json

DATA = Path(__file__).parent / "data"

#: The place of a number: unique within the numbers.
KEY = ("paper", "table", "part", "row", "column")

SCHEMA = pa.schema(
    [
        pa.field("paper", pa.string(), nullable=False),  # or the name of your own project
        pa.field("table", pa.string(), nullable=False),  # "5", "figure 12", "text", or the name of a run
        pa.field("part", pa.string(), nullable=False),  # a block of the table: a dataset, a split, a setting
        pa.field("row", pa.string(), nullable=False),
        pa.field("column", pa.string(), nullable=False),
        pa.field("method", pa.string()),  # the row's or the column's name, or null
        pa.field("metric", pa.string(), nullable=False),
        pa.field("value", pa.float64()),  # null where the cell has words, of the unit TEXT
        pa.field("spread", pa.float64()),  # the number after ±
        pa.field("unit", pa.string(), nullable=False),
        pa.field("printed", pa.string(), nullable=False),  # the digits as printed, which show its precision
        pa.field("section", pa.string(), nullable=False),
        pa.field("line", pa.int32()),  # of the paper's text; null for your own results
    ]
)

#: The unit of cells that have words, such as the names of layers.
TEXT = "text"

#: The papers whose numbers ship.
PAPERS = ("sma", "nico++", "cns-bench", "domainbed-v2", "rlsbench")

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e-?\d+)?")


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """One table of a paper, and the places that its conversion to text has damaged.

    `facts` are from caption and header; `sha256` covers every number as printed, with its place.
    """

    paper: str
    table: str
    title: str
    section: str
    figure: str | None
    numbers: int
    sha256: str
    facts: Mapping[str, str]
    left_out: tuple[Mapping[str, str | int], ...]


@cache
def published_tables(paper: str | None = None) -> tuple[PublishedTable, ...]:
    """The extracted tables of one paper, or of all."""
    if paper is not None and paper not in PAPERS:
        raise not_found("paper", paper, PAPERS)
    listed = read_json(DATA / "tables.json")
    tables = [PublishedTable(**of | {"left_out": tuple(of["left_out"])}) for of in listed]
    return tuple(table for table in tables if paper in (None, table.paper))


@cache
def numbers(paper: str) -> pa.Table:
    """The numbers of one paper, in the columns of `SCHEMA`."""
    if paper not in PAPERS:
        raise not_found("paper", paper, PAPERS)
    return read_numbers(DATA / f"{paper}.parquet")


def citation(paper: str) -> str:
    """Authors, title and place of one of the papers."""
    return str(read_footer(DATA / f"{paper}.parquet").metadata[b"citation"], "utf-8")


def read_numbers(path: Path | str) -> pa.Table:
    """Read a Parquet file of numbers, published or your own; columns in any order."""
    try:
        table = read_parquet(Path(path))
    except (OSError, IntegrityError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {error}") from error
    if missing := [name for name in SCHEMA.names if name not in table.column_names]:
        raise InputError(
            f"{path} lacks the columns {', '.join(missing)}; results have {', '.join(SCHEMA.names)}"
        )
    try:
        return table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowInvalid, ValueError) as error:
        raise InputError(f"{path} does not contain results: {error}") from error


def read_number(printed: str) -> tuple[float, float | None]:
    """The value and the spread of a printed number.

    >>> read_number("77.19±2.04"), read_number("-0.167"), read_number("202599"), read_number("5e-5")
    ((77.19, 2.04), (-0.167, None), (202599.0, None), (5e-05, None))
    """
    value, sign, spread = printed.partition("±")
    if not _NUMBER.fullmatch(value) or (sign and not _NUMBER.fullmatch(spread)):
        raise InputError(f"{printed!r} is not a printed number: write 77.19, or 77.19±2.04")
    return float(value), float(spread) if sign else None
