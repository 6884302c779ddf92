"""Check the manifest by itself: it is written as shiftdata writes it, and lists every file that it needs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.identity import dataset_content_id
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import (
    DROPPED,
    data_file,
    data_files,
    index_file,
    is_tar,
    metadata_file,
    protocol_file,
)
from shiftdata.data.format.records import Base
from shiftdata.data.format.schema import columns
from shiftdata.data.verifying.files import Problem

TOTAL = re.compile(r"-of-(\d{5})\.parquet$")


def manifest_problems(dataset: OpenDataset) -> Iterator[Problem]:
    """Check a manifest by itself."""
    manifest = dataset.manifest
    # It is written in one way, so that equal datasets have equal manifests.
    if hashlib.sha256(manifest.to_json().encode()).hexdigest() != dataset.sha256:
        text = "is not as shiftdata writes it: it was edited, or its line endings were converted"
        yield Problem(FILE_NAME, f"{text}; fetch or build it again", "form")
    roles = manifest.roles
    for name in sorted({roles.label, roles.origin} - set(columns(roles.nuisance))):
        yield Problem(FILE_NAME, f"gives a role to the column {name!r}, which rows do not have", "roles")
    if manifest.content_id != dataset_content_id(manifest.bases):
        text = "has a content_id that is not the hash of those of its bases: fetch or build it again"
        yield Problem(FILE_NAME, text, "content_id")
    for text in [*_name_faults(manifest), *_file_faults(manifest)]:
        yield Problem(FILE_NAME, text, "files")


def _name_faults(manifest: Manifest) -> Iterator[str]:
    bases = {base.name for base in manifest.bases}
    if manifest.default_base not in bases:
        yield f"has the default base {manifest.default_base!r}, which it does not list"
    built = manifest.part is None and not manifest.is_webdataset
    if built and any(base.dropped for base in manifest.bases) and DROPPED not in manifest.files:
        yield f"does not list {DROPPED}, which names what was dropped"
    for split in manifest.canonical_splits:
        if protocol_file(split.name) not in manifest.files:
            yield f"does not list {protocol_file(split.name)}, which the split {split.name!r} needs"
        if split.base not in bases:
            yield f"has the split {split.name!r} of the base {split.base!r}, which it does not list"


def _file_faults(manifest: Manifest) -> Iterator[str]:
    """Check that each split has metadata, or an index for each tar, and data files for all of its rows."""
    files = manifest.all_files
    for path, file in files.items():
        if file.rows is not None and not (path.endswith(".parquet") or is_tar(path)):
            yield f"gives {path} {file.rows} rows, which only Parquet files and tars have"
    for base in manifest.bases:
        needed = [metadata_file(base.name, split) for split in base.splits]
        needed += [shard.path for shard in shards_of(manifest, base)]
        if manifest.is_webdataset:
            needed = [index_file(tar) for split in base.splits for tar in tar_paths(manifest, base, split)]
        for path in needed:
            if path not in files:
                yield f"does not list {path}, which the base {base.name!r} needs"
        for split, record in base.splits.items():
            rows = sum(files[path].rows or 0 for path in data_files(files, base.name, split))
            if rows != record.rows:
                yield f"lists data files of {base.name}/{split} with {rows} rows, and {record.rows} in it"


@dataclass(frozen=True)
class Shard:
    """A Parquet file of examples; `first` is the number of its first row in its split."""

    path: str
    base: str
    split: str
    first: int
    rows: int

    @property
    def contents(self) -> str:
        return f"it contains rows {self.first} to {self.first + self.rows - 1} of {self.base}/{self.split}"


def shards_of(manifest: Manifest, base: Base) -> list[Shard]:
    """Return the Parquet files that the splits of a base must have, by the total in their names."""
    shards, files = [], manifest.all_files
    for split in base.splits:
        totals = [TOTAL.search(path) for path in data_files(files, base.name, split)]
        total, first = max((int(match[1]) for match in totals if match), default=1), 0
        for number in range(total):
            path = data_file(base.name, split, number, total)
            rows = (files[path].rows or 0) if path in files else 0
            shards.append(Shard(path, base.name, split, first, rows))
            first += rows
    return shards


def tar_paths(manifest: Manifest, base: Base, split: str) -> list[str]:
    """Return the listed tars of a split."""
    return [path for path in data_files(manifest.files, base.name, split) if is_tar(path)]
