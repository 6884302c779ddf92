"""Check a whole dataset: its manifest, every file, and at depth every row of every base."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias, Unpack

import numpy as np
import pyarrow as pa

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import DatasetName, OpenDataset, check_origin, open_dataset
from shiftdata.data.format.attribution import Terms, credits_of
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import (
    ATTRIBUTION,
    DROPPED,
    README,
    RENDERINGS,
    in_order,
    metadata_file,
    protocol_file,
)
from shiftdata.data.format.records import Base, CanonicalSplit
from shiftdata.data.format.schema import metadata_schema, name_columns
from shiftdata.data.format.written import leak_warnings, sizes_of
from shiftdata.data.loading.byte_ranges.layout import shards_of
from shiftdata.data.metadata.rows import Metadata, metadata_of
from shiftdata.data.places.signatures import MOST_BYTES, SIGNATURE, Keys, signer_of
from shiftdata.data.places.store import MissingFileError, Store
from shiftdata.data.verifying.files import Files, Listeners, LocalFile, Problem, Progress
from shiftdata.data.verifying.manifest import (
    RENDERED,
    attribution_problems,
    card_problems,
    dropped_problems,
    manifest_problems,
    rendering_problems,
    sample_problems,
)
from shiftdata.data.verifying.rows import (
    TERMS,
    BaseRows,
    base_problems,
    canonical_problems,
    dataset_problems,
    origins_of,
    row_problems,
)
from shiftdata.data.verifying.tables import read_table, shard_problems, statistics_problems, unreadable
from shiftdata.data.verifying.tars import tar_problems
from shiftdata.errors import IntegrityError, ShiftdataError
from shiftdata.untrusted.parquet import read_parquet

#: Checks a canonical split, given its rows (with `params` if asked), their bytes in memory, and its key file.
SplitCheck: TypeAlias = Callable[
    [CanonicalSplit, Callable[[bool], Metadata], IntArray, LocalFile], Iterator[Problem]
]


#: The file that the Hub puts into each repo, and its lines: which files it keeps outside of git.
ATTRIBUTES = ".gitattributes"
LFS = re.compile(rb"((#.*|\S+ filter=lfs diff=lfs merge=lfs -text|)\r?\n)*")


def verify(
    name: DatasetName,
    *,
    deep: bool = True,
    against: DatasetName | None = None,
    keys: Keys = (),
    check_split: SplitCheck | None = None,
    **listeners: Unpack[Listeners],
) -> list[Problem]:
    """Check a dataset as `shiftdata.evaluation.verify` does; canonical splits are left to `check_split`."""
    dataset = open_dataset(name)
    dataset.check_unchanged()
    progress = Progress(listeners)
    folder = dataset.folder
    with (
        nullcontext(str(folder))
        if folder is not None
        else tempfile.TemporaryDirectory(prefix="shiftdata-verify-", ignore_cleanup_errors=True)
    ) as scratch:
        files = Files(dataset, Path(scratch), progress)
        try:
            problems = [*manifest_problems(dataset), *_origin(files, keys), *_extra_files(files)]
            if not deep:
                for local in files.each(sorted(dataset.manifest.files)):
                    problems += local.problems
            elif dataset.manifest.is_webdataset:
                problems += tar_problems(files)
            else:
                problems += _Audit(files, check_split).problems()
        except BaseException:
            progress.stopped = True
            raise
    dataset.check_unchanged()
    for line in _summary(dataset, progress.checked, deep=deep):
        progress.report("on_note", line)
    if against is not None:
        problems += _differences(dataset.manifest, open_dataset(against).manifest)
    return sorted(problems, key=lambda problem: problem.path)


def _summary(dataset: OpenDataset, checked: Counter[str], *, deep: bool) -> Iterator[str]:
    counts = ", ".join(f"{count:,} {unit}" for unit, count in checked.items())
    yield f"checked: {counts}" if deep else f"checked: {counts}; rows and examples were not read"
    if deep and dataset.manifest.part is not None:
        yield "not checked: whether the part has every row of its whole that it should have; fetch it again"
    if deep and dataset.manifest.hidden is not None:
        yield "not checked: canonical splits by their protocols; some labels are hidden"
    yield from leak_warnings(dataset.manifest)
    yield (
        f"manifest.json has the sha256 {dataset.sha256}: compare it with a catalog or the publisher's, since "
        "version, citation, datasheet and the like rest on it alone"
    )


def _origin(files: Files, keys: Keys) -> Iterator[Problem]:
    """Report a manifest that none of the keys has signed, and a signature that is none."""
    dataset = files.dataset
    try:
        if keys:
            written = dataset.store.read(FILE_NAME)
            if hashlib.sha256(written).hexdigest() == dataset.sha256:  # else it changed, which is reported
                check_origin(dataset, written, keys)
        elif signer := signer_of(dataset.store.read(SIGNATURE, MOST_BYTES)):
            text = f"{SIGNATURE} was not checked: it names the key {signer}, whose owner gives it for --key"
            files.progress.report("on_note", text)
        else:
            raise IntegrityError("is not a signature of minisign: delete it, or publish with --sign")
    except MissingFileError:
        pass
    except IntegrityError as error:
        yield Problem(SIGNATURE, str(error), "signature")


def _differences(manifest: Manifest, published: Manifest) -> Iterator[Problem]:
    for name in ("recipe_id", "content_id"):
        mine, wanted = getattr(manifest, name), getattr(published, name)
        if mine != wanted:
            yield Problem(FILE_NAME, f"has the {name} {mine[:12]}; {wanted[:12]} was published", "against")
    versions = ", ".join(f"{name} {version}" for name, version in published.versions.items())
    # A card says whether the examples are included.
    skipped = RENDERINGS if manifest.pixels_included != published.pixels_included else ()
    for path, record in published.all_files.items():
        if path not in skipped and manifest.all_files.get(path) != record:
            yield Problem(path, f"is not as it was published; that was built with {versions}", "against")


def _extra_files(files: Files) -> Iterator[Problem]:
    """Report files that the manifest does not list, and a manifest that lies elsewhere."""
    store, listed = files.dataset.store, {*files.dataset.manifest.files, FILE_NAME, SIGNATURE}
    names = store.listing()
    if names is None:
        text = "extra files could not be looked for: the place gives no list of its files"
        files.progress.report("on_note", text)
        return
    for path in sorted(set(names) - listed):
        # A link to a folder of listed files is not extra: each of them is refused if it leads out.
        leads_to_listed = any(name.startswith(f"{path}/") for name in listed)
        if not leads_to_listed and not _is_of_hub(store, path):
            text = "is not in the manifest: an extra file; delete it, or build the dataset again"
            yield Problem(path, text, "extra")
    if files.leads_out(FILE_NAME):
        yield Problem(FILE_NAME, "points out of the dataset's folder: put the file itself there", "link")


def _is_of_hub(store: Store, path: str) -> bool:
    with suppress(ShiftdataError):
        return path == ATTRIBUTES and LFS.fullmatch(store.read(path)) is not None
    return False


class _Audit:
    """A check of a Parquet dataset: the origins and terms read so far, and the files still to be checked."""

    def __init__(self, files: Files, check_split: SplitCheck | None) -> None:
        self.files, self.check_split = files, check_split
        self.manifest = files.dataset.manifest
        self.left = set(self.manifest.files)
        self.origins: list[pa.Table] = []
        self.terms = Counter[Terms]()
        self.whole = True  # every row was read

    def problems(self) -> Iterator[Problem]:
        """Check every base, what derives from the rows of all bases, and every other file."""
        for base in self.manifest.bases:
            yield from self._base(base)
        if self.origins:
            everyone = credits_of(self.terms, self.manifest.materials)[0] if self.whole else None
            yield from dataset_problems(self.manifest, pa.concat_tables(self.origins), everyone)
        for local in self.files.each(sorted(self.left)):
            yield from local.problems
            if local.path == DROPPED:
                yield from dropped_problems(self.manifest, local)
            elif local.path in RENDERED:
                yield from rendering_problems(self.manifest, local)
            elif local.path == README:
                yield from card_problems(self.manifest, local)
            elif local.path == ATTRIBUTION and self.whole:
                yield from attribution_problems(self.manifest, local, self.terms)

    def _base(self, base: Base) -> Iterator[Problem]:
        """Check the metadata, the data files and the canonical splits of a base."""
        manifest, progress = self.manifest, self.files.progress
        paths = {metadata_file(base.name, split): split for split in base.splits}
        problems = list[Problem]()
        tables, sizes, sources = dict[str, pa.Table](), dict[str, IntArray](), dict[str, Path]()
        schema = metadata_schema(manifest.roles, manifest.labels, manifest.nuisances)
        coded = [*TERMS, *name_columns(manifest.roles.nuisance)]
        for local in self.files.each(list(paths), keep=True):
            table, faults = read_table(local, schema, without="params", terms=coded)
            problems += [*local.problems, *faults]
            if table is not None and local.file is not None:
                split = paths[local.path]
                try:
                    sizes[split] = sizes_of(local.file, manifest.roles)
                except IntegrityError as error:  # of `params`, which are read here first
                    problems.append(unreadable(local, error))
                    continue
                tables[split], sources[split] = table, local.file
                problems += statistics_problems(local.path, local.file, table)
                progress.checked["rows"] += len(table)
        files = manifest.all_files  # withheld ones too
        shards = [shard for split in base.splits for shard in shards_of(files, base.name, [split])]
        for shard, local in zip(shards, self.files.each([shard.path for shard in shards]), strict=True):
            source = sources.get(shard.split)
            faults = [*local.problems, *shard_problems(shard, local, source, manifest, progress)]
            if not faults and local.file is not None and source is not None:
                part = tables[shard.split].slice(shard.first, shard.rows)
                faults += statistics_problems(shard.path, local.file, part)
                if base.name == manifest.default_base and shard is shards[0]:
                    faults += sample_problems(manifest, local.file)
                progress.checked["examples"] += shard.rows
            problems += faults
        if tables:
            rows = BaseRows(manifest, base, tables)
            shard_rows = {split: [shard.rows for shard in shards if shard.split == split] for split in tables}
            problems += [*row_problems(rows, shard_rows), *base_problems(rows, sizes)]
            self.origins.append(origins_of(rows))
            self.terms += rows.terms
        self.whole &= len(tables) == len(base.splits)
        self.left -= {*paths, *(shard.path for shard in shards)}
        yield from problems
        sound = not problems and manifest.part is None and manifest.hidden is None
        yield from self._canonical(base, tables, sizes if sound else {}, sources)

    def _canonical(
        self,
        base: Base,
        tables: Mapping[str, pa.Table],
        sizes: Mapping[str, IntArray],
        sources: Mapping[str, Path],
    ) -> Iterator[Problem]:
        """Check the canonical splits of a base; with the `sizes` of its rows they are also recomputed."""
        mine = [split for split in self.manifest.canonical_splits if split.base == base.name]
        splits = {protocol_file(split.name): split for split in mine}
        self.left -= set(splits)
        order = in_order(sizes)

        @cache
        def rows_of(with_params: bool) -> Metadata:
            rows = pa.concat_tables(tables[split] for split in order)
            if with_params:
                params = pa.concat_tables(read_parquet(sources[split], ["params"]) for split in order)
                rows = rows.append_column("params", params["params"])
            return metadata_of(self.manifest, base.name, rows)

        for local in self.files.each(list(splits)):
            problems = [*local.problems, *canonical_problems(splits[local.path], local, tables)]
            if self.check_split is not None and sizes and not problems:
                every = np.concatenate([sizes[split] for split in order])
                problems += self.check_split(splits[local.path], rows_of, every, local)
                self.files.progress.checked["canonical splits recomputed"] += 1
            yield from problems
