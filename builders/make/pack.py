"""Pack: the cheap half of a build. Spooled samples become shards, metadata and a manifest."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from builders.describe.contact_sheet import write_pictures
from builders.describe.renderings import describe, draft
from builders.make import row_groups
from builders.make.assign import Folds
from builders.make.canonical import freeze, parts_of_sets
from builders.make.equal import Listed
from builders.make.gather import EXAMPLES, Gathered, gather, reasons_of
from builders.make.packing.jobs import (
    AnyJob,
    Result,
    in_turn,
    jobs_left,
    join,
    missing,
    stages_left,
    worker,
)
from builders.make.packing.plan import Plan, plans_in
from builders.make.packing.planning import write_plan
from builders.make.packing.rows import Described, stretches
from builders.make.shortcuts import measure
from builders.recipe import Recipe, file_versions
from builders.spool import Spool
from shiftdata.data.arrays import IntArray
from shiftdata.data.executors import (
    ALONE,
    BARRIER,
    Barrier,
    Executor,
    Here,
    Pool,
    Rank,
    Ranks,
    Ray,
    Threads,
    alike,
)
from shiftdata.data.format.identity import dropped_id
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import protocol_file
from shiftdata.data.format.records import FileRecord
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.format.writer import write_dropped, write_metadata
from shiftdata.data.format.written import file_records, finished
from shiftdata.errors import InputError
from shiftdata.files import remove
from shiftdata.threads import available_cores

#: Bytes of a spool below which this process is done before others have started.
SMALL = 256 << 20
#: What a killed process has left in the dataset's folder that may be used again.
KEPT = ("data", "metadata")


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """The input of packing: a recipe, the album's content with its folds, the blocks of each base.

    Processes that pack together must agree on `versions`.
    """

    recipe: Recipe
    content: Listed
    fold_of: Folds
    spool: Spool
    blocks: Mapping[str, Sequence[str]]
    versions: Callable[[], Mapping[str, str]] = file_versions


def pack(
    rendered: Rendered,
    folder: Path,
    work: Path,
    *,
    executor: Executor | None = None,
    rank: Rank = ALONE,
    on_rows: Callable[[int], object] = lambda rows: None,
) -> Manifest:
    """Write every file of the dataset into a folder, the manifest last.

    What is unfinished lies in `work`, on the same disk. Called again after a kill, with both folders as they
    were left, it goes on. Other ranks may `help_to_pack` meanwhile.
    """
    recipe, plain = rendered.recipe, draft(rendered.recipe)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in KEPT:
            remove(path)
    is_small = rank == ALONE and _is_small(rendered)
    shared = _shared(rendered, executor or Here(), rank, is_small=is_small)
    plans, dropped = _do_jobs(rendered, plain, folder, work, shared, on_rows, in_memory=is_small)
    files, sizes = dict[str, FileRecord](), dict[str, IntArray]()
    for plan in plans:
        records, of_rows = join(plan, folder)
        files |= records
        sizes |= of_rows
    write_dropped(folder, dropped)
    bases = [
        replace(
            base,
            dropped=dict(sorted(Counter(reason for _, reason in dropped[base.name]).items())),
            dropped_id=dropped_id(dropped[base.name]),
        )
        for base in plain.bases
        if base.name in dropped
    ]
    described = replace(plain, bases=bases, versions=file_versions(), equal_content=rendered.content.counts)
    manifest = finished(folder, described, {base.name: list(SPLITS) for base in bases}, files, sizes)
    splits = freeze(recipe, manifest, folder, sizes)
    manifest = replace(manifest, canonical_splits=splits)
    shortcuts = measure(folder, manifest, recipe.album, rendered.content.items)
    manifest = replace(manifest, shortcuts=shortcuts)
    more = [protocol_file(split.name) for split in splits]
    more += [path.name for path in write_pictures(folder, manifest)]
    manifest = replace(manifest, files={**manifest.files, **file_records(folder, more)})
    return describe(folder, manifest)


def help_to_pack(rendered: Rendered, work: Path, executor: Executor, rank: Rank) -> None:
    """Do jobs for the process that packs, as another rank of the same build, while there are any."""
    with suppress(FileNotFoundError):  # it has finished meanwhile
        plain = draft(rendered.recipe)
        plans = [Plan(folder, plain) for folder in plans_in(work)]
        if stages := [stage for plan in plans for stage in stages_left(plan)]:
            deque(_done(rendered, plain, in_turn(stages), Ranks(executor, rank, missing)), maxlen=0)


def _is_small(rendered: Rendered) -> bool:
    """Return True if this process is done before others have started, with all examples in memory."""
    names = [name for of_base in rendered.blocks.values() for name in of_base]
    return not names or len(names) * rendered.spool.size(names[0]) < SMALL


def _shared(rendered: Rendered, executor: Executor, rank: Rank, *, is_small: bool) -> Executor:
    """The executor of packing."""
    if isinstance(executor, Ray) and rendered.spool.files.is_far:
        executor = Pool(available_cores())  # nodes that share an object store alone do not see these files
    if is_small:
        return Threads(executor.workers) if isinstance(executor, Pool) else Here()
    return executor if rank == ALONE else Ranks(executor, rank, missing)


def _do_jobs(
    rendered: Rendered,
    plain: Manifest,
    folder: Path,
    work: Path,
    executor: Executor,
    on_rows: Callable[[int], object],
    *,
    in_memory: bool,
) -> tuple[list[Plan], dict[str, Sequence[tuple[str, str]]]]:
    """Read the blocks, plan the bases, write their files; return the plans, and what each base dropped."""
    read = {name: dict[int, Described]() for name in rendered.blocks}
    plans, dropped = list[Plan](), dict[str, Sequence[tuple[str, str]]]()

    def jobs() -> Iterator[AnyJob | Barrier]:
        yield from stretches(rendered.blocks)
        yield BARRIER
        versions = rendered.versions()
        for name, parts in read.items():
            ordered = [parts.pop(number) for number in sorted(parts)]
            plan, dropped[name] = _plan(rendered, plain, name, ordered, folder, work, versions)
            plans.append(replace(plan, spool=rendered.spool) if in_memory else plan)
            for pool in (pa.default_memory_pool(), pa.system_memory_pool()):
                pool.release_unused()  # each of the two would keep what the other needs next
        _remove_stale(plans, folder, work)
        yield from jobs_left(plans, folder)

    for job, result in _done(rendered, plain, jobs(), executor, in_memory=in_memory):
        if isinstance(result, Described):
            read[job.base][job.number] = result
        else:
            on_rows(result)
    return plans, dropped


def _done(
    rendered: Rendered, plain: Manifest, jobs: Iterator[Any], executor: Executor, *, in_memory: bool = False
) -> Iterator[tuple[Any, Result]]:
    """Yield jobs of both kinds, of which mypy knows no union here, with their results."""
    filtered = rendered.recipe.filters is not None
    do = partial(worker, rendered.spool, plain, filtered=filtered, in_memory=in_memory)
    work = alike(do, rendered.versions)
    with closing(executor.run(work, jobs)) as done:
        yield from done


def _plan(
    rendered: Rendered,
    plain: Manifest,
    name: str,
    read: Sequence[Described],
    folder: Path,
    work: Path,
    versions: Mapping[str, str],
) -> tuple[Plan, Sequence[tuple[str, str]]]:
    """Plan the files of a base, none with rows of two sets; return what was dropped too."""
    recipe, content = rendered.recipe, rendered.content
    gathered = gather(recipe, content.items, rendered.fold_of, rendered.spool, read)
    part_of = np.zeros(len(gathered.rows), np.int64)
    if name == recipe.default_base:
        part_of = parts_of_sets(recipe, content.items, rendered.fold_of, gathered)
    if gathered.judged is not None:
        write_metadata(folder / f"filters/{name}.parquet", [gathered.judged])
    groups, blocks = _row_groups(gathered, part_of, name), rendered.blocks[name]
    plan, is_new = write_plan(work, plain, name, blocks, gathered, groups, part_of, versions)
    for kept in KEPT if is_new else ():
        remove(folder / kept / name)
    return plan, gathered.dropped


def _remove_stale(plans: Sequence[Plan], folder: Path, work: Path) -> None:
    """Remove what processes have left that packed something else."""
    for stale in {*plans_in(work)} - {plan.folder for plan in plans}:
        remove(stale)
    bases = {plan.base for plan in plans}
    for path in (path for kept in KEPT for path in folder.glob(f"{kept}/*")):
        if path.name not in bases:
            remove(path)


def _row_groups(gathered: Gathered, part_of: IntArray, base: str) -> dict[str, list[IntArray]]:
    """The row groups of each split, one set after the other, as indices into the gathered rows."""
    modality = gathered.recipe.encoding.modality
    arrange = row_groups.row_groups if modality == "image" else row_groups.shuffled_row_groups
    split_of, label_of = gathered.of_items("split"), gathered.of_items("label")
    groups: dict[str, list[IntArray]] = {}
    for number, split in enumerate(SPLITS):
        members = np.flatnonzero(split_of == number)
        if not len(members):
            raise InputError(
                f"the base {base!r} has no row in {split}: too few {EXAMPLES[modality]} can "
                f"be used. Dropped: {reasons_of(gathered.dropped)}"
            )
        groups[split] = []
        for of in np.unique(part_of[members]):
            within = members[part_of[members] == of]
            mine = gathered.rows.select(["key", "quantile", "size"]).take(pa.array(within))
            rows = row_groups.Rows(
                keys=mine["key"].combine_chunks(),
                cells=gathered.cells[within],
                labels=label_of[within],
                quantiles=mine["quantile"].to_numpy(),
                sizes=mine["size"].to_numpy().astype(np.int64),
            )
            groups[split] += [within[group] for group in arrange(rows)]
    return groups
