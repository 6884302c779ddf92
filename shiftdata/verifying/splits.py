"""Check what the manifest counts and identifies: splits, canonical splits, licences, content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftdata.format.conditions import rows_matching
from shiftdata.format.identity import base_content_id, dataset_content_id
from shiftdata.format.manifest import FILE_NAME, Config, Manifest, Split
from shiftdata.verifying import tables
from shiftdata.verifying.metadata import LONG, SplitRows
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.repo import Held
from shiftdata.verifying.rows import BaseRows

FROZEN = pa.schema({"key": pa.string(), "split": pa.string(), "count": pa.int32()})
BATCH_ROWS = 100_000
TERMS = ["license", "attribution"]


def count_problems(path: str, what: str, rows: pa.Table, promised: Split) -> Iterator[Problem]:
    """Where rows, groups and their sizes are not as many as the manifest says."""
    sizes = pc.value_counts(rows["group"].drop_null()).field("counts").to_numpy()
    found = {
        "rows": len(rows),
        "groups": len(sizes),
        "smallest": int(sizes.min()) if len(sizes) else 0,
        "largest": int(sizes.max()) if len(sizes) else 0,
    }
    words = {"rows": "rows", "groups": "groups", "smallest": "rows in the smallest group"}
    for name, count in found.items():
        said = getattr(promised, name)
        if count != said:
            told = f"{what} {count} {words.get(name, 'rows in the largest group')}, the manifest says {said}"
            yield Problem(path=path, what=told, kind="counts")


def content_problems(rows: BaseRows, named: bool) -> Iterator[Problem]:
    """Where the identity of a base is not the one in the manifest.

    Rows whose label or nuisance is not `named`, or that have no key or hash, have none.
    """
    empty = sum(rows.table[name].null_count for name in ("key", "sha256"))
    files = [split.file for split in rows.splits if split.file is not None]
    if not rows.whole or not named or empty or len(files) < len(rows.splits):
        return
    manifest, said, table = rows.manifest, rows.base.content_id, rows.table
    terms = pa.concat_tables(pq.read_table(file, columns=TERMS, read_dictionary=TERMS) for file in files)
    for name in TERMS:
        table = table.append_column(name, terms[name])
    found = base_content_id(table, manifest, rows.base)
    if found != said:
        what = f"has the content_id {found}, the manifest says {said}: other content under the same names"
        yield Problem(path=f"metadata/{rows.base.name}", what=what, kind="content_id")


def dataset_problems(manifest: Manifest, terms: Counter[tuple[str, str]] | None) -> Iterator[Problem]:
    """What the manifest says of the whole: its identity and, where all rows were read, its licences."""
    if manifest.content_id != dataset_content_id(manifest.bases):
        what = "content_id is not the hash of the bases' content_ids"
        yield Problem(path=FILE_NAME, what=what, kind="content_id")
    if terms is None:
        return
    for credit in manifest.credits:
        count = terms.pop((credit.license, credit.attribution), 0)
        if count != credit.rows:
            what = f"credits {credit.rows} rows to {credit.attribution!r} ({credit.license}), {count} are"
            yield Problem(path=FILE_NAME, what=what, kind="credits")
    if len(terms) != manifest.more_credits:
        what = f"says that {manifest.more_credits} credits are not listed, {len(terms)} are not"
        yield Problem(path=FILE_NAME, what=what, kind="credits")


def config_problems(
    config: Config, held: Held, splits: Sequence[SplitRows], manifest: Manifest
) -> Iterator[Problem]:
    """A canonical split: its filters give the promised counts and the frozen keys."""
    if held.file is None:
        return
    read, problems = tables.footer(held.path, held.file, manifest.files[held.path].rows)
    yield from problems
    if read is None:
        return
    problems = tables.schema_problems(held.path, read.schema.to_arrow_schema(), FROZEN)
    yield from problems
    if not set(FROZEN.names) <= set(read.schema.to_arrow_schema().names):
        return
    found = list(tables.parts(held.file, read, FROZEN, BATCH_ROWS))
    bad = [part for part in found if part.table is None]
    for part in bad:
        what = f"rows {part.first} to {part.first + part.count - 1} cannot be read ({part.why})"
        yield Problem(path=held.path, what=f"{what}: fetch or build it again", kind="unreadable")
    if not bad:
        frozen = pa.concat_tables([FROZEN.empty_table(), *(part.table for part in found)])
        yield from _frozen_problems(held.path, frozen, config)
        for split in splits:
            if split.whole and split.split in config.splits:
                yield from _kept_problems(held.path, config, split, frozen)


def _frozen_problems(path: str, frozen: pa.Table, config: Config) -> Iterator[Problem]:
    """Frozen rows that can be of no split, and counts other than one: filters keep a row or not."""
    known = pc.is_in(frozen["split"], value_set=pa.array(list(config.splits), pa.string())).to_numpy()
    for row in np.flatnonzero(~known).tolist():
        what = (
            f"has the split {frozen['split'][row].as_py()!r}; the manifest lists {', '.join(config.splits)}"
        )
        yield Problem(path=path, what=what, key=frozen["key"][row].as_py(), kind="split")
    for row in np.flatnonzero(~pc.fill_null(pc.equal(frozen["count"], 1), False).to_numpy()).tolist():
        what = f"has the count {frozen['count'][row].as_py()}, and filters keep a row once"
        yield Problem(path=path, what=what, key=frozen["key"][row].as_py(), kind="count")


def _kept_problems(path: str, config: Config, split: SplitRows, frozen: pa.Table) -> Iterator[Problem]:
    """The rows that the filters keep of one split, against the promised counts and the frozen keys."""
    try:
        rows = rows_matching(_with_long(split, config), config.filters) if config.filters else None
    except Exception as error:  # Arrow's word for a filter that is none
        what = f"the filters of {config.name} cannot be used ({tables.first_line(error)})"
        yield Problem(path=FILE_NAME, what=what, kind="filters")
        return
    keys = frozen.filter(pc.equal(frozen["split"], split.split))["key"]
    if rows is None:
        rows = split.table.filter(pc.is_in(split.table["key"], value_set=keys.combine_chunks()))
    yield from count_problems(path, f"keeps in {split.split}", rows, config.splits[split.split])
    told = {
        "is frozen twice": pc.value_counts(keys)
        .filter(pc.greater(pc.value_counts(keys).field(1), 1))
        .field(0),
        f"is frozen in {split.split}, where the filters do not keep it": _without(keys, rows["key"]),
        f"is kept by the filters in {split.split}, and not frozen": _without(rows["key"], keys),
    }
    for what, found in told.items():
        for key in found.to_pylist():
            yield Problem(path=path, what=what, key=key, kind=what)


def _without(keys: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others.combine_chunks())))


def _with_long(split: SplitRows, config: Config) -> pa.Table:
    """The rows with every column that the filters name."""
    table = split.table
    for name in sorted({column for clause in config.filters for column, _, _ in clause} & set(LONG)):
        if split.file is not None:
            table = table.append_column(name, pq.read_table(split.file, columns=[name])[name])
    return table
