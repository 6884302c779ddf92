"""Check the manifest by itself: it is written as shiftdata writes it, and lists every file that it needs."""

from __future__ import annotations

import hashlib
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
    for path, user in _needed_files(manifest):
        if path not in manifest.all_files:
            yield Problem(FILE_NAME, f"does not list {path}, which {user} needs", "files")
    for text in _faults(manifest):
        yield Problem(FILE_NAME, text, "files")


def _needed_files(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield each file that a manifest must list, with what needs it."""
    for base in manifest.bases:
        user = f"the base {base.name!r}"
        if base.dropped and manifest.part is None and not manifest.is_webdataset:
            yield DROPPED, user
        for split in base.splits:
            paths = data_files(manifest.all_files, base.name, split)
            if manifest.is_webdataset:
                yield from ((index_file(path), user) for path in paths)
                continue
            yield metadata_file(base.name, split), user
            count = max(1, len(paths))
            yield from ((data_file(base.name, split, number, count), user) for number in range(count))
    for canonical in manifest.canonical_splits:
        yield protocol_file(canonical.name), f"the split {canonical.name!r}"


def _faults(manifest: Manifest) -> Iterator[str]:
    """Check the names of bases, and the rows of files."""
    bases, files = {base.name for base in manifest.bases}, manifest.all_files
    if manifest.default_base not in bases:
        yield f"has the default base {manifest.default_base!r}, which it does not list"
    for canonical in manifest.canonical_splits:
        if canonical.base not in bases:
            yield f"has the split {canonical.name!r} of the base {canonical.base!r}, which it does not list"
    for path, file in files.items():
        if file.rows is not None and not (path.endswith(".parquet") or is_tar(path)):
            yield f"gives {path} {file.rows} rows, which only Parquet files and tars have"
    for base in manifest.bases:
        for split, record in base.splits.items():
            rows = sum(files[path].rows or 0 for path in data_files(files, base.name, split))
            if rows != record.rows:
                yield f"lists data files of {base.name}/{split} with {rows} rows, and {record.rows} in it"


@dataclass(frozen=True)
class Shard:
    """A Parquet file of examples; `first` is the number of its first row in its split."""

    path: str
    split: str
    first: int
    rows: int


def shards_of(manifest: Manifest, base: Base) -> list[Shard]:
    """Return the data files of the splits of a base, withheld ones too."""
    shards, files = [], manifest.all_files
    for split in base.splits:
        first = 0
        for path in data_files(files, base.name, split):
            shards.append(Shard(path, split, first, files[path].rows or 0))
            first += shards[-1].rows
    return shards
