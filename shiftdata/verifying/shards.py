"""Check a data file: its footer and columns, each row against the metadata, each example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from shiftdata.format.manifest import Manifest
from shiftdata.format.schema import columns, data_schema
from shiftdata.verifying.align import Aligned, Aligner, Tally
from shiftdata.verifying.examples import Examples
from shiftdata.verifying.metadata import LONG, SplitRows, term_problems
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.repo import Held
from shiftdata.verifying.tables import Part, differing, footer, parts, schema_problems
from shiftdata.verifying.work import Work

#: Rows that are checked at a time: few where each is an image.
IMAGES_AT_A_TIME = 64
ROWS_AT_A_TIME = 5_000


@dataclass(frozen=True)
class ShardFound:
    """What a data file holds: problems, and its rows where there is no metadata to have them from."""

    problems: list[Problem]
    rows: pa.Table | None = None
    whole: bool = False


def check_shard(
    held: Held, manifest: Manifest, work: Work, metadata: SplitRows | None, first: int
) -> ShardFound:
    """Everything that is wrong with a data file; `first` is the metadata row of its first row."""
    fault = [held.fault] if held.fault else []
    if held.file is None:
        return ShardFound(fault)
    promised = manifest.files[held.path].rows or 0
    said = metadata.path if metadata else ""
    shard = _Shard(
        manifest,
        work,
        Examples(held.path, held.file, manifest.roles, said),
        metadata,
        Aligner(held.path, metadata, first, promised) if metadata else None,
    )
    read, problems = footer(held.path, held.file, promised)
    schema = data_schema(manifest.roles, manifest.labels, manifest.nuisances)
    if read is not None:
        found = read.schema.to_arrow_schema()
        problems += schema_problems(held.path, found, schema)
        if set(schema.names) <= set(found.names):
            size = IMAGES_AT_A_TIME if shard.examples.images else ROWS_AT_A_TIME
            tally, rows = shard.total(parts(held.file, read, schema, size))
            tally.others += shard.aligner.problems() if shard.aligner else []
            problems = [*shard.judged(tally, fault), *problems, *tally.others]
            return ShardFound(problems, rows, tally.unreadable == 0)
    tally, _ = shard.total([Part(0, promised, None)])
    return ShardFound([*fault, *problems, *tally.offsets, *tally.others])


@dataclass(frozen=True)
class _Shard:
    manifest: Manifest
    work: Work
    examples: Examples
    metadata: SplitRows | None
    aligner: Aligner | None

    def total(self, read: Iterable[Part]) -> tuple[Tally, pa.Table | None]:
        """Check all parts; without metadata, give the rows with the hash of each example."""
        total, kept = Tally(), []
        for tally, rows in self.work.flow(self._check, self._aligned(read)):
            total.add(tally)
            if rows is not None:
                kept.append(rows)
        return total, pa.concat_tables(kept) if kept else None

    def judged(self, tally: Tally, fault: Sequence[Problem]) -> list[Problem]:
        """What is wrong with the file as a whole, and offsets; both are one problem if another wrote it."""
        images = self.examples.images
        # Of a text nothing tells another writer from damage where no row is, but the size.
        moved = tally.offsets if images else [problem for problem in fault if problem.kind == "size"]
        mostly_moved = len(tally.offsets) > tally.rows // 2
        if not fault or not moved or tally.unreadable or (tally.others and not mostly_moved):
            return [*fault, *tally.offsets]
        same = f"same rows and {'images' if images else 'examples'}, other bytes"
        what = f"was written again by another writer: {'not the ' if tally.others else ''}{same}"
        if images:
            what += "; byte offsets in metadata do not hold, readers fall back to row groups"
        path = self.examples.path
        return [Problem(path=path, what=f"{what}; fetch it again for the original", kind="rewritten")]

    def _aligned(self, read: Iterable[Part]) -> Iterator[Aligned]:
        for part in read:
            tally = Tally(rows=part.count)
            if part.why:
                tally.unreadable = part.count
                last = part.first + part.count - 1
                what = f"rows {part.first} to {last} cannot be read ({part.why}): fetch or build it again"
                tally.others.append(Problem(path=self.examples.path, what=what, kind="unreadable"))
            yield self.aligner.align(part, tally) if self.aligner else _alone(part, tally)

    def _check(self, aligned: Aligned) -> tuple[Tally, pa.Table | None]:
        """Compare rows and examples; this runs in the threads for rows."""
        data, meta, tally = aligned.data, aligned.meta, aligned.tally
        if data is not None and meta is not None:
            tally.others += self._column_problems(data, meta)
            self.examples.compare(data, meta, tally)
        elif meta is not None:
            tally.others += self.examples.by_offset(meta)
        if aligned.loose is not None:
            self.examples.alone(aligned.loose, tally)
            tally.others += term_problems(self.examples.path, aligned.loose)
        self.work.rows(tally.rows)
        return tally, self._as_metadata(aligned.own) if aligned.own is not None else None

    def _column_problems(self, data: pa.Table, meta: pa.Table) -> Iterator[Problem]:
        path, said = self.examples.path, self.examples.metadata
        for name in columns(self.manifest.roles.nuisance):
            for row in differing(data[name], meta[name]):
                what = f"has the {name} {data[name][row].as_py()!r}, {said} says {meta[name][row].as_py()!r}"
                yield Problem(path=path, what=what, key=meta["key"][row].as_py(), kind=f"other {name}")

    def _as_metadata(self, data: pa.Table) -> pa.Table:
        """Rows as metadata would have them."""
        hashes = self.examples.hashes(data)
        names = [name for name in columns(self.manifest.roles.nuisance) if name not in LONG]
        return data.select(names).append_column("sha256", pa.array(hashes, pa.binary()))


def _alone(part: Part, tally: Tally) -> Aligned:
    return Aligned(tally, loose=part.table, own=part.table)
