"""Read the rows of a spool, all but their examples and params, in few bytes each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from builders.spool import Spool
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.metadata.folds import hashes64

#: About 20,000 rows.
BLOCKS_AT_ONCE = 125


@dataclass(frozen=True)
class Stretch:
    """A job: to read some blocks of a base, all but their examples and params."""

    base: str
    number: int
    blocks: Sequence[str]

    def __str__(self) -> str:
        return f"reading {len(self.blocks)} blocks from {self.blocks[0]} on"


@dataclass(frozen=True)
class Described:
    """The rows of some blocks in compact form; how many each block has; what was dropped.

    `judging` has the rows of each block as they are, if filters are to judge them.
    """

    rows: pa.Table
    counts: Sequence[int]
    drops: Sequence[tuple[str, str]]
    judging: Mapping[str, pa.Table]


def stretches(blocks: Mapping[str, Sequence[str]]) -> Iterator[Stretch]:
    """Cut the blocks of each base into jobs."""
    for base, names in blocks.items():
        for number, start in enumerate(range(0, len(names), BLOCKS_AT_ONCE)):
            yield Stretch(base, number, names[start : start + BLOCKS_AT_ONCE])


def described(spool: Spool, manifest: Manifest, stretch: Stretch, *, filtered: bool) -> Described:
    """Read some blocks; `manifest` says which nuisances and severities there are."""
    tables, drops, judging = list[pa.Table](), list[tuple[str, str]](), dict[str, pa.Table]()
    for block, (table, reasons) in zip(stretch.blocks, spool.rows(stretch.blocks), strict=True):
        drops.extend(reasons.items())
        tables.append(table.drop_columns(["params"]))
        if filtered:
            judging[block] = tables[-1]
    rows = _compact(manifest, pa.concat_tables(tables))
    return Described(rows, list(map(len, tables)), drops, judging)


def _compact(manifest: Manifest, rows: pa.Table) -> pa.Table:
    """Return rows in compact form: numbers for repeated names, where possible hashes of trajectories."""
    described = {
        "key": rows["key"].cast(pa.large_string()),
        "item": rows["item"].combine_chunks().dictionary_encode(),
        "nuisance": pc.index_in(rows["nuisance"], value_set=pa.array(manifest.nuisances, pa.string())),
        "hash": pa.array(hashes64(rows["trajectory"], "quantile")),
    }
    names = ["severity", "size", "sha256", *(["trajectory"] if len(manifest.severities) > 1 else [])]
    return pa.table(described | {name: rows[name] for name in names}).combine_chunks()
