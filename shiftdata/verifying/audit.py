"""Check a whole dataset: its manifest, every file, and at depth every row of every base."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa

from shiftdata.dataset import DatasetName, open_dataset
from shiftdata.format.manifest import FILE_NAME, Manifest
from shiftdata.format.paths import DROPPED, metadata_file, protocol_file
from shiftdata.format.schema import metadata_schema
from shiftdata.verifying.bases import (
    base_problems,
    canonical_problems,
    dataset_problems,
    dropped_problems,
    origins_of,
)
from shiftdata.verifying.files import Files, Progress
from shiftdata.verifying.manifest import manifest_problems, shards_of
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.rows import TERMS, BaseRows, row_problems
from shiftdata.verifying.shards import shard_problems
from shiftdata.verifying.tables import read_table
from shiftdata.verifying.tars import tar_problems


def verify(
    name: DatasetName,
    *,
    deep: bool = True,
    against: DatasetName | None = None,
    on_file: Callable[[str], object] = lambda path: None,
    on_bytes: Callable[[int], object] = lambda count: None,
    on_rows: Callable[[int], object] = lambda count: None,
    on_note: Callable[[str], object] = lambda text: None,
) -> list[Problem]:
    """Check every file of a dataset, and with `deep` every row and image; an empty list means all is well.

    A file with another size or hash is one problem, which names the rows in it. Rows and images are checked
    in files that are intact. Files at a URL or on the Hub are fetched once each, a few at a time, and deleted
    when they are checked.

    Args:
        name: a name, `shift/<name>`, a folder, a URL that fsspec reads, or an opened dataset.
        deep: check rows and examples, not only the hashes of files.
        against: another place with the same dataset, such as one that was published without its examples:
            the files of both must be equal.
        on_file: called with the name of each file when it has been hashed.
        on_bytes: called with how many more bytes were fetched or hashed; a negative number takes some back.
        on_rows: called with how many more rows were checked.
        on_note: called with what could not be checked, such as extra files where no list is given.

    """
    dataset = open_dataset(name)
    dataset.check_unchanged()
    progress = Progress(on_file, on_bytes, on_rows, on_note)
    folder = dataset.folder
    with (
        nullcontext(str(folder))
        if folder is not None
        else tempfile.TemporaryDirectory(prefix="shiftdata-verify-", ignore_cleanup_errors=True)
    ) as scratch:
        files = Files(dataset, Path(scratch), progress)
        try:
            problems = [*manifest_problems(dataset), *_extra_files(files)]
            in_depth = tar_problems if dataset.manifest.is_webdataset else _row_problems
            problems += in_depth(files) if deep else _file_problems(files, dataset.manifest.files)
        except BaseException:
            progress.stopped = True
            raise
    dataset.check_unchanged()
    if against is not None:
        problems += _differences(dataset.manifest, open_dataset(against).manifest)
    return sorted(problems, key=lambda problem: problem.path)


def _differences(manifest: Manifest, other: Manifest) -> Iterator[Problem]:
    """Where a dataset is not the one of another place."""
    for name in ("recipe_id", "content_id"):
        mine, wanted = getattr(manifest, name), getattr(other, name)
        if mine != wanted:
            what = f"has the {name} {mine[:12]}, and {wanted[:12]} was published"
            yield Problem(FILE_NAME, what, "against")
    versions = ", ".join(f"{name} {version}" for name, version in other.versions.items())
    for path, record in other.all_files.items():
        if manifest.all_files.get(path) != record:
            yield Problem(path, f"is not as it was published; that was built with {versions}", "against")


def _extra_files(files: Files) -> Iterator[Problem]:
    """Files that the manifest does not list, and a manifest that is elsewhere."""
    names, known = files.dataset.store.names(), {*files.dataset.manifest.files, FILE_NAME}
    if names is None:
        note = "extra files could not be looked for: the place gives no list of its files"
        files.progress.report(files.progress.on_note, note)
        return
    for path in sorted(names - known):
        # A link to a folder of known files is not extra: each of them is refused if it leads out.
        if not any(name.startswith(f"{path}/") for name in known):
            what = "is not in the manifest: an extra file; delete it, or build the dataset again"
            yield Problem(path, what, "extra")
    if files.leads_out(FILE_NAME):
        yield Problem(FILE_NAME, "points out of the dataset's folder: put the file itself there", "link")


def _file_problems(files: Files, paths: Iterable[str]) -> Iterator[Problem]:
    manifest = files.dataset.manifest
    shards = {shard.path: shard for base in manifest.bases for shard in shards_of(manifest, base)}
    for local in files.each(sorted(paths)):
        yield from local.problems(shards[local.path].named() if local.path in shards else "")


def _row_problems(files: Files) -> Iterator[Problem]:
    manifest, others = files.dataset.manifest, set(files.dataset.manifest.files)
    schema = metadata_schema(manifest.roles, manifest.labels, manifest.nuisances)
    origins, terms, whole = list[pa.Table](), Counter[tuple[str | None, str | None]](), True
    for base in manifest.bases:
        metadata = [metadata_file(base.name, split) for split in base.splits]
        shards = shards_of(manifest, base)
        canonical = [split for split in manifest.canonical_splits if split.base == base.name]
        frozen = {protocol_file(split.name): split for split in canonical}
        others -= {*metadata, *frozen, *(shard.path for shard in shards)}
        read = dict(zip(base.splits, files.each(metadata, keep=True), strict=True))
        tables: dict[str, pa.Table] = {}
        for split, local in read.items():
            table, problems = read_table(local, schema, without="params", terms=TERMS)
            yield from [*local.problems("its rows were not checked"), *problems]
            tables |= {split: table} if table is not None else {}
        for shard, local in zip(shards, files.each([shard.path for shard in shards]), strict=True):
            yield from local.problems(shard.named(tables.get(shard.split)))
            beside = read[shard.split] if shard.split in tables else None
            yield from shard_problems(shard, local, beside, manifest, files.progress)
        if tables:
            rows = BaseRows(manifest, base, tables)
            shard_rows = {split: [one.rows for one in shards if one.split == split] for split in tables}
            yield from [*row_problems(rows, shard_rows), *base_problems(rows)]
            origins.append(origins_of(rows))
            terms += rows.terms
        whole &= len(tables) == len(base.splits)
        for local in files.each(list(frozen)):
            yield from [*local.problems(), *canonical_problems(frozen[local.path], local, tables)]
    for local in files.each(sorted({DROPPED} & others)):
        yield from [*local.problems(), *dropped_problems(manifest, local)]
    yield from _file_problems(files, others - {DROPPED})
    if origins:
        yield from dataset_problems(manifest, pa.concat_tables(origins), terms if whole else None)
