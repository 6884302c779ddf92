"""The published numbers that ship with the package: one Parquet file a paper, and what each table is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftdata.errors import InputError
from shiftdata.papers.schema import KEY, SCHEMA
from shiftdata.stable import content_hash

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """One table of a paper: what it holds, and what its conversion to text has damaged.

    `facts` are what caption and header say; `sha256` covers every number as printed, with its place.
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
def published_tables() -> tuple[PublishedTable, ...]:
    """Every extracted table, in the order of the papers."""
    told = json.loads((DATA / "tables.json").read_text(encoding="utf-8"))
    return tuple(PublishedTable(**one | {"left_out": tuple(one["left_out"])}) for one in told)


@cache
def numbers(paper: str) -> pa.Table:
    """The numbers of one paper, as `SCHEMA` says."""
    return read_numbers(DATA / f"{paper}.parquet")


def read_numbers(path: Path | str) -> pa.Table:
    """A Parquet file of numbers, published or of one's own; columns in any order."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} is no readable Parquet file: {error}") from error
    missing = [name for name in SCHEMA.names if name not in table.column_names]
    if missing:
        raise InputError(
            f"{path} lacks the columns {', '.join(missing)}; results have {', '.join(SCHEMA.names)}"
        )
    try:
        return table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowInvalid, ValueError) as error:
        raise InputError(f"{path} does not hold results: {error}") from error


def fingerprint(rows: pa.Table, paper: str, table: str) -> str:
    """A hash over one table's numbers as printed, with their places, in any order."""
    chosen = rows.filter(pc.and_(pc.equal(rows["paper"], paper), pc.equal(rows["table"], table)))
    lines = sorted("\t".join(row.values()) for row in chosen.select([*KEY, "printed"]).to_pylist())
    return content_hash(*lines)
