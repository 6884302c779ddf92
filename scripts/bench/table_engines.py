"""Joins by key, order and ranks of rows: shiftdata's against Arrow, NumPy, duckdb and polars.

pip install duckdb polars
python scripts/bench/table_engines.py [--rows 3000000 30000000] [--only join]

Keys are 32 characters, in a drawn order; 4,800 groups. Each engine gets one thread and its tables in memory;
the result is an array. Printed is processor time.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator

os.environ |= {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.data.arrays import by_code_and_key, counted
from shiftdata.data.metadata.texts import positions, text_order

GROUPS = 4800
Measured = tuple[str, Callable[[], object]]


def joins(rows: int, db: duckdb.DuckDBPyConnection) -> Iterator[Measured]:
    """Yield joins of predictions in another order than the keys."""
    draw = np.random.default_rng(0)
    keys, predicted = keys_of(rows), pa.array(draw.integers(240, size=rows).astype(np.int32))
    given = keys.take(pa.array(draw.permutation(rows)))
    yield "join: shiftdata", lambda: predicted.take(pa.array(positions(keys, given)))
    yield "join: pyarrow", lambda: predicted.take(pc.index_in(keys, value_set=given))
    task = pa.table({"key": keys, "row": np.arange(rows)})
    table = pa.table({"key": given, "predicted": predicted})
    db.register("task", task)
    db.register("given", table)

    def by_duckdb() -> object:
        # Asked for in the order of rows it would sort them.
        joined = db.sql("select row, predicted from task join given using (key)").to_arrow_table()
        result = np.empty(rows, np.int32)
        result[joined["row"].to_numpy()] = joined["predicted"].to_numpy()
        return result

    yield "join: duckdb", by_duckdb
    left, right = pl.from_arrow(task), pl.from_arrow(table)
    assert isinstance(left, pl.DataFrame)
    assert isinstance(right, pl.DataFrame)
    yield "join: polars", lambda: left.join(right, on="key", how="left", maintain_order="left")


def orders(rows: int, db: duckdb.DuckDBPyConnection) -> Iterator[Measured]:
    """Yield sorts of keys."""
    keys = keys_of(rows)
    yield "sorted keys: shiftdata", lambda: text_order(keys)
    yield "sorted keys: pyarrow", lambda: pc.sort_indices(keys)
    db.register("keys", pa.table({"key": keys, "row": np.arange(rows)}))
    yield "sorted keys: duckdb", lambda: db.sql("select row from keys order by key").to_arrow_table()
    series = pl.Series(keys)
    yield "sorted keys: polars", series.arg_sort


def ranks(rows: int, db: duckdb.DuckDBPyConnection) -> Iterator[Measured]:
    """Yield the order of rows by hash within their group, and the number of rows of each group."""
    draw = np.random.default_rng(0)
    group = draw.integers(GROUPS, size=rows).astype(np.int32)
    hashes = draw.integers(2**64, size=rows, dtype=np.uint64)
    yield "order in groups: shiftdata", lambda: by_code_and_key(group, hashes, GROUPS)
    yield "order in groups: numpy", lambda: np.lexsort((hashes, group.astype(np.uint16)))
    table = pa.table({"row": np.arange(rows), "group": group, "hash": hashes})
    db.register("grouped", table)
    ranked = 'select row, row_number() over (partition by "group" order by hash) from grouped'
    yield "order in groups: duckdb", lambda: db.sql(ranked).to_arrow_table()
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    yield "order in groups: polars", lambda: frame.select(pl.col("hash").rank("ordinal").over("group"))
    yield "counts of groups: shiftdata", lambda: counted(group, GROUPS)
    counts = 'select "group", count(*) from grouped group by "group"'
    yield "counts of groups: duckdb", lambda: db.sql(counts).to_arrow_table()
    yield "counts of groups: polars", lambda: frame.group_by("group").agg(pl.len())


def keys_of(rows: int) -> pa.Array:
    """Return distinct keys in a drawn order."""
    kind = pa.large_string()
    numbers = pc.utf8_lpad(pa.array(np.random.default_rng(1).permutation(rows)).cast(kind), 8, "0")
    begin, between, end = (pa.scalar(text, kind) for text in ("label-content-image-", "-style", ""))
    return pc.binary_join_element_wise(begin, numbers, between, end)


def main() -> None:
    """Measure every operation at each size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[3_000_000, 30_000_000])
    parser.add_argument("--only", default="", help="operations whose names contain this")
    given = parser.parse_args()
    for rows in given.rows:
        for family in (joins, orders, ranks):
            db = duckdb.connect(config={"threads": 1, "memory_limit": "8GB"})
            for name, operation in family(rows, db):
                if given.only in name:
                    started = time.process_time()
                    operation()
                    seconds = time.process_time() - started
                    print(
                        f"{rows:>12,} {name:<28} {seconds:7.2f} s {1e9 * seconds / rows:7.0f} ns/row",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
