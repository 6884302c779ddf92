"""Check one base: its metadata, its data files, its rows against each other, and its canonical splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pyarrow as pa

from shiftdata.format.manifest import Base, Manifest
from shiftdata.verifying.form import shard_paths
from shiftdata.verifying.metadata import SplitRows, read_metadata
from shiftdata.verifying.order import origins, quantile_problems, trajectory_problems
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.repo import Held, Repo
from shiftdata.verifying.rows import BaseRows, pointer_problems, row_problems
from shiftdata.verifying.shards import ShardFound, check_shard
from shiftdata.verifying.splits import config_problems, content_problems, count_problems
from shiftdata.verifying.work import Work


@dataclass(frozen=True)
class Site:
    """What a verification works with: the manifest, where the files come from, and threads."""

    manifest: Manifest
    repo: Repo
    work: Work

    def hold(self, path: str) -> Held:
        """A file of the manifest, compared with it as a whole."""
        held = self.repo.hold(path, self.manifest.files[path])
        self.work.hashed(path)
        return held


@dataclass
class BaseFound:
    """What a base holds: problems, the files looked at, and what is compared over all bases."""

    problems: list[Problem] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    origins: pa.Table | None = None
    terms: Counter[tuple[str, str]] = field(default_factory=Counter)
    whole: bool = False


def check_base(site: Site, base: Base) -> BaseFound:
    """Everything that is wrong with the files and rows of a base."""
    found = BaseFound()
    read = site.work.each(lambda split: _metadata(site, base, split), base.splits)
    held = [one for one, _, _ in read]
    try:
        found.paths |= {one.path for one in held}
        found.problems += [problem for _, _, problems in read for problem in problems]
        metadata = {rows.split: rows for _, rows, _ in read if rows is not None}
        splits = _with_data(site, base, metadata, found)
        if splits:
            _check_rows(site, base, splits, found)
        _check_configs(site, base, splits, found)
    finally:
        for one in held:
            one.release()
    return found


def _metadata(site: Site, base: Base, split: str) -> tuple[Held, SplitRows | None, list[Problem]]:
    path = f"metadata/{base.name}/{split}.parquet"
    if path not in site.manifest.files:
        return Held(path, None), None, []
    held = site.hold(path)
    rows, problems = read_metadata(held, split, site.manifest)
    return held, rows, [*([held.fault] if held.fault else []), *problems]


def _with_data(site: Site, base: Base, metadata: dict[str, SplitRows], found: BaseFound) -> list[SplitRows]:
    """Check the data files; the rows of each split are its metadata, or else what the data files hold."""
    files = {split: _data_files(site, base.name, split) for split in base.splits}
    here = {} if site.manifest.withheld else files
    tasks = [(split, path, first) for split, of_split in here.items() for path, first, _ in of_split]

    def check(task: tuple[str, str, int]) -> ShardFound:
        split, path, first = task
        held = site.hold(path)
        try:
            return check_shard(held, site.manifest, site.work, metadata.get(split), first)
        finally:
            held.release()

    shards = dict(zip(tasks, site.work.each(check, tasks), strict=True))
    found.paths |= {path for _, path, _ in tasks}
    found.problems += [problem for shard in shards.values() for problem in shard.problems]
    splits = []
    for split, of_split in files.items():
        counts = [(path, rows) for path, _, rows in of_split]
        images = site.manifest.roles.modality == "image"
        rows = metadata.get(split)
        if rows is not None:
            found.problems += pointer_problems(rows, counts, images)
        if rows is None or not rows.whole:
            mine = [shard for (name, _, _), shard in shards.items() if name == split]
            own = _from_data(split, mine, of_split)
            rows = own if rows is None or (own is not None and own.whole) else rows
        splits += [rows] if rows is not None else []
    return splits


def _data_files(site: Site, base: str, split: str) -> list[tuple[str, int, int]]:
    """The data files of a split: path, number of its first row in the split, number of rows."""
    files = site.manifest.all_files
    paths = [path for path in shard_paths(site.manifest, base, split) if path in files]
    counts = [files[path].rows or 0 for path in paths]
    return list(zip(paths, accumulate(counts, initial=0), counts, strict=False))


def _from_data(
    split: str, shards: Sequence[ShardFound], files: Sequence[tuple[str, int, int]]
) -> SplitRows | None:
    """The rows of a split whose metadata cannot be read, from its data files."""
    kept = [shard.rows for shard in shards if shard.rows is not None]
    if not kept:
        return None
    rows = pa.concat_tables(kept)
    whole = len(kept) == len(files) and all(shard.whole for shard in shards)
    return SplitRows(split, files[0][0], rows, np.arange(len(rows)), whole)


def _check_rows(site: Site, base: Base, splits: Sequence[SplitRows], found: BaseFound) -> None:
    rows = BaseRows.of(site.manifest, base, splits)
    problems = list(row_problems(rows))
    for split in splits:
        if split.whole:
            problems += count_problems(split.path, "holds", split.table, base.splits[split.split])
    named = not any(problem.kind in ("label", rows.nuisance) for problem in problems)
    problems += [*quantile_problems(rows), *trajectory_problems(rows), *content_problems(rows, named)]
    found.problems += problems
    found.origins = origins(rows)
    found.terms = sum((split.terms for split in splits), Counter[tuple[str, str]]())
    found.whole = rows.whole and all(split.file is not None for split in splits)


def _check_configs(site: Site, base: Base, splits: Sequence[SplitRows], found: BaseFound) -> None:
    configs = {
        f"protocols/{config.name}.parquet": config
        for config in site.manifest.configs
        if config.base == base.name and f"protocols/{config.name}.parquet" in site.manifest.files
    }

    def check(path: str) -> list[Problem]:
        held = site.hold(path)
        try:
            faults = [held.fault] if held.fault else []
            return [*faults, *config_problems(configs[path], held, splits, site.manifest)]
        finally:
            held.release()

    found.problems += [problem for faults in site.work.each(check, configs) for problem in faults]
    found.paths |= set(configs)
