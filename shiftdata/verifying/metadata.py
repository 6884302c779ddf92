"""Read `metadata/` files: the rows of a split without their examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.format.manifest import Manifest
from shiftdata.format.schema import metadata_schema
from shiftdata.verifying import tables
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.repo import Held

#: Texts that would fill the memory; all other columns of a split are kept while its base is checked.
LONG = ("license", "attribution", "params")
BATCH_ROWS = 20_000


@dataclass(frozen=True)
class SplitRows:
    """The rows of a split, without long texts. `at` is the row of each in its file.

    `path` and `file` say where they were read, and `whole` whether all could be. `terms` counts licences with
    attributions.
    """

    split: str
    path: str
    table: pa.Table
    at: NDArray[np.int64]
    whole: bool
    file: Path | None = None
    terms: Counter[tuple[str, str]] = field(default_factory=Counter)


def read_metadata(held: Held, split: str, manifest: Manifest) -> tuple[SplitRows | None, list[Problem]]:
    """The rows of a metadata file, as many as can be read, and what is wrong with the file or its terms."""
    if held.file is None:
        return None, []
    read, problems = tables.footer(held.path, held.file, manifest.files[held.path].rows)
    if read is None:
        return None, problems
    schema = metadata_schema(manifest.roles, manifest.labels, manifest.nuisances)
    found = read.schema.to_arrow_schema()
    problems += tables.schema_problems(held.path, found, schema)
    if not set(schema.names) <= set(found.names):
        return None, problems
    kept: list[pa.Table] = [schema.empty_table().drop_columns(list(LONG))]
    at: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    terms: Counter[tuple[str, str]] = Counter()
    for part in tables.parts(held.file, read, schema, BATCH_ROWS):
        if part.table is None:
            last = part.first + part.count - 1
            what = f"rows {part.first} to {last} cannot be read ({part.why}): fetch or build it again"
            problems.append(Problem(path=held.path, what=what, kind="unreadable"))
            continue
        problems += term_problems(held.path, part.table)
        terms.update(_terms(part.table))
        kept.append(part.table.drop_columns(list(LONG)))
        at.append(np.arange(part.first, part.first + part.count))
    rows = pa.concat_tables(kept)
    whole = len(rows) == read.num_rows
    return SplitRows(split, held.path, rows, np.concatenate(at), whole, held.file, terms), problems


def term_problems(path: str, rows: pa.Table) -> Iterator[Problem]:
    """Rows without a licence or an attribution."""
    for column, name in (("license", "licence"), ("attribution", "attribution")):
        stripped = pc.utf8_trim_whitespace(pc.fill_null(rows[column], ""))
        for row in np.flatnonzero(pc.equal(stripped, "").to_numpy()):
            what = f"has no {name}: every row needs one"
            yield Problem(path=path, what=what, key=rows["key"][row].as_py(), kind=column)


def long_columns(rows: SplitRows) -> Callable[[NDArray[np.int64]], pa.Table]:
    """A function that gives the long texts of some rows of the file; rows that stand together come fast."""
    if rows.file is None:
        raise ValueError(f"{rows.path} was not read from one file")
    opened = pq.ParquetFile(rows.file)
    counts = [opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]
    starts = np.cumsum([0, *counts])

    @lru_cache(2)
    def of_group(group: int) -> pa.Table:
        types = dict.fromkeys(LONG, pa.string())
        return opened.read_row_group(group, list(LONG), use_threads=False).select(LONG).cast(pa.schema(types))

    def take(at: NDArray[np.int64]) -> pa.Table:
        group_of = np.searchsorted(starts, at, side="right") - 1
        pieces, order = [], []
        for group in np.unique(group_of):
            members = np.flatnonzero(group_of == group)
            pieces.append(of_group(int(group)).take(at[members] - starts[group]))
            order.append(members)
        if len(pieces) == 1:
            return pieces[0]
        empty = pa.schema(dict.fromkeys(LONG, pa.string())).empty_table()
        return pa.concat_tables([empty, *pieces]).take(np.argsort(np.concatenate([*order, []])))

    return take


def _terms(rows: pa.Table) -> dict[tuple[str, str], int]:
    counted = rows.group_by(["license", "attribution"]).aggregate([([], "count_all")])
    columns: Sequence[Any] = [counted[name].to_pylist() for name in ("license", "attribution", "count_all")]
    return {(name, who): count for name, who, count in zip(*columns, strict=True)}
