"""Check what is in the files of a Parquet dataset: each base row by row, then what derives from all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import ATTRIBUTION, DROPPED, README, in_order, metadata_file, protocol_file
from shiftdata.data.format.records import Base
from shiftdata.data.format.schema import metadata_schema
from shiftdata.data.format.writer import Indices
from shiftdata.data.format.written import sizes_of
from shiftdata.data.metadata.rows import metadata_of
from shiftdata.data.verifying.bases import (
    base_problems,
    canonical_problems,
    dataset_problems,
    dropped_problems,
    origins_of,
)
from shiftdata.data.verifying.derived import (
    attribution_problems,
    card_problems,
    filter_problems,
    kept_by_filters,
    reads_params,
    sample_problems,
    split_problems,
)
from shiftdata.data.verifying.files import Files, LocalFile
from shiftdata.data.verifying.manifest import Shard, shards_of
from shiftdata.data.verifying.problem import Problem
from shiftdata.data.verifying.rows import TERMS, BaseRows, row_problems
from shiftdata.data.verifying.shards import shard_problems
from shiftdata.data.verifying.statistics import statistics_problems
from shiftdata.data.verifying.tables import read_table


def file_problems(files: Files, paths: Iterable[str]) -> Iterator[Problem]:
    """What is wrong with files as files: they are missing, or other than their hashes say."""
    manifest = files.dataset.manifest
    shards = {shard.path: shard for base in manifest.bases for shard in shards_of(manifest, base)}
    for local in files.each(sorted(paths)):
        yield from local.problems(shards[local.path].named() if local.path in shards else "")


def row_by_row(files: Files) -> Iterator[Problem]:
    """Everything that is wrong with the files, rows and examples of a Parquet dataset."""
    audit = _Audit(files)
    for base in files.dataset.manifest.bases:
        yield from audit.base(base)
    yield from audit.rest()


@dataclass
class _Audit:
    """What is known after some bases: their origins and terms, and which files are still to be checked."""

    files: Files
    left: set[str] = field(init=False)
    origins: list[pa.Table] = field(default_factory=list)
    terms: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)
    whole: bool = True  # every row was read

    def __post_init__(self) -> None:
        self.left = set(self.manifest.files)

    @property
    def manifest(self) -> Manifest:
        return self.files.dataset.manifest

    def base(self, base: Base) -> Iterator[Problem]:
        """The metadata, the data files and the canonical splits of a base."""
        read, tables, sizes, problems = self._metadata(base)
        shards = shards_of(self.manifest, base)
        problems += self._shards(base, shards, read, tables)
        if tables:
            rows = BaseRows(self.manifest, base, tables)
            shard_rows = {split: [one.rows for one in shards if one.split == split] for split in tables}
            problems += [*row_problems(rows, shard_rows), *base_problems(rows, sizes)]
            self.origins.append(origins_of(rows))
            self.terms += rows.terms
        self.whole &= len(tables) == len(base.splits)
        self.left -= {*(local.path for local in read.values()), *(shard.path for shard in shards)}
        yield from problems
        sound = not problems and self.manifest.part is None
        yield from self._canonical(base, tables, sizes if sound else {}, read)

    def _metadata(
        self, base: Base
    ) -> tuple[dict[str, LocalFile], dict[str, pa.Table], dict[str, Indices], list[Problem]]:
        """The metadata of each split, its rows and their bytes as far as it is intact, and what is wrong."""
        roles, labels, nuisances = self.manifest.roles, self.manifest.labels, self.manifest.nuisances
        schema = metadata_schema(roles, labels, nuisances)
        paths = [metadata_file(base.name, split) for split in base.splits]
        read = dict(zip(base.splits, self.files.each(paths, keep=True), strict=True))
        tables, sizes, problems = {}, {}, list[Problem]()
        for split, local in read.items():
            table, faults = read_table(local, schema, without="params", terms=TERMS)
            problems += [*local.problems("its rows were not checked"), *faults]
            if table is not None and local.file is not None:
                tables[split], sizes[split] = table, sizes_of(local.file, roles)
                problems += statistics_problems(local.path, local.file, table)
                self.files.progress.checked["rows"] += len(table)
        return read, tables, sizes, problems

    def _shards(
        self,
        base: Base,
        shards: Sequence[Shard],
        read: Mapping[str, LocalFile],
        tables: Mapping[str, pa.Table],
    ) -> Iterator[Problem]:
        """Every data file of a base: its rows, its examples, its statistics, and what filters keep of it."""
        manifest, kept, sound = self.manifest, Counter[tuple[str, str]](), True
        for shard, local in zip(shards, self.files.each([shard.path for shard in shards]), strict=True):
            rows = tables.get(shard.split)
            beside = None if rows is None else read[shard.split]
            problems = local.problems(shard.named(rows))
            problems += shard_problems(shard, local, beside, manifest, self.files.progress)
            sound &= not problems and local.file is not None and rows is not None
            if sound and local.file is not None and rows is not None:
                here = rows.slice(shard.first, shard.rows)
                problems += statistics_problems(shard.path, local.file, here)
                kept += kept_by_filters(manifest, base, shard.split, local.file, here)
                if base.name == manifest.default_base and shard is shards[0]:
                    problems += sample_problems(manifest, local.file)
                self.files.progress.checked["examples"] += shard.rows
            yield from problems
        if sound and shards and not manifest.withheld:
            yield from filter_problems(manifest, base, kept)

    def _canonical(
        self,
        base: Base,
        tables: Mapping[str, pa.Table],
        sizes: Mapping[str, Indices],
        read: Mapping[str, LocalFile],
    ) -> Iterator[Problem]:
        """The canonical splits of a base; with the `sizes` of its rows they are also made again."""
        splits = {
            protocol_file(split.name): split
            for split in self.manifest.canonical_splits
            if split.base == base.name
        }
        self.left -= set(splits)
        order = in_order(sizes)
        metadata = None
        if sizes and splits:
            rows = pa.concat_tables(tables[split] for split in order)
            if any(reads_params(split) for split in splits.values()):
                files = [str(read[split].file) for split in order]
                params = pa.concat_tables(pq.read_table(file, columns=["params"]) for file in files)
                rows = rows.append_column("params", params["params"])
            metadata = metadata_of(self.manifest, base.name, rows)
        for local in self.files.each(list(splits)):
            split = splits[local.path]
            problems = [*local.problems(), *canonical_problems(split, local, tables)]
            if metadata is not None and not problems:
                every = np.concatenate([sizes[one] for one in order])
                problems += split_problems(split, metadata, every, local)
                self.files.progress.checked["canonical splits made again"] += 1
            yield from problems

    def rest(self) -> Iterator[Problem]:
        """What derives from the rows of all bases, and every other file."""
        manifest, texts = self.manifest, {DROPPED, README, ATTRIBUTION}
        if self.origins:
            terms = self.terms.copy() if self.whole else None
            yield from dataset_problems(manifest, pa.concat_tables(self.origins), terms)
        for local in self.files.each(sorted(texts & self.left)):
            yield from local.problems()
            if local.path == DROPPED:
                yield from dropped_problems(manifest, local)
            elif local.path == README:
                yield from card_problems(manifest, local)
            elif self.whole:
                yield from attribution_problems(manifest, local, self.terms)
        yield from file_problems(self.files, self.left - texts)
