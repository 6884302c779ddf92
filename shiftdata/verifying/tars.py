"""Check a dataset in WebDataset format: each file by hash, each sample against its index."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.format.identity import base_content_id, dataset_content_id
from shiftdata.format.manifest import FILE_NAME, Base, Manifest
from shiftdata.format.paths import index_file
from shiftdata.format.schema import columns, features_as_bytes, index_schema
from shiftdata.verifying.base import Site
from shiftdata.verifying.form import tar_paths
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.tables import first_line


def tar_problems(site: Site) -> Iterator[Problem]:
    """Everything that is wrong with the files and samples of a dataset in WebDataset format."""
    manifest = site.manifest
    done: set[str] = set()
    for base in manifest.bases:
        tars = [tar for split in base.splits for tar in tar_paths(manifest, base.name, split)]
        tars = [tar for tar in tars if index_file(tar) in manifest.files]
        checked = site.work.each(lambda tar: _check_tar(site, tar), tars)
        done |= {*tars, *map(index_file, tars)}
        for problems, _ in checked:
            yield from problems
        tables = [table for _, table in checked if table is not None]
        if tables and len(tables) == len(tars):
            yield from _identity_problems(manifest, base, pa.concat_tables(tables))
    if dataset_content_id(manifest.bases) != manifest.content_id:
        what = "gives a content_id that is not that of its bases: fetch or build it again"
        yield Problem(path=FILE_NAME, what=what, kind="content_id")
    for path in sorted(set(manifest.files) - done):
        held = site.hold(path)
        held.release()
        if held.fault:
            yield held.fault


def _check_tar(site: Site, path: str) -> tuple[list[Problem], pa.Table | None]:
    """The problems of a tar and its index; the rows of the index, where it can be read."""
    tar, index = site.hold(path), site.hold(index_file(path))
    try:
        problems = [held.fault for held in (tar, index) if held.fault]
        if index.file is None:
            return problems, None
        schema = index_schema(site.manifest.roles.nuisance, list(site.manifest.sample))
        try:
            table = pq.read_table(index.file).cast(schema)
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            what = f"is no readable index ({first_line(error)}): fetch or export it again"
            return [*problems, Problem(path=index.path, what=what, kind="columns")], None
        if tar.file is not None:
            with tar.file.open("rb") as opened:
                for row in table.to_pylist():
                    problems += _sample_problems(path, opened, row, site.manifest)
                    site.work.rows(1)
        return problems, table
    finally:
        tar.release()
        index.release()


def _sample_problems(
    path: str, tar: BinaryIO, row: Mapping[str, Any], manifest: Manifest
) -> Iterator[Problem]:
    """What the members of one sample hold, against its row of the index."""
    held = {}
    for member in manifest.sample:
        tar.seek(row[f"{member}_offset"])
        held[member] = tar.read(row[f"{member}_length"])
    told: dict[str, Any] = {}
    with suppress(ValueError):
        told = dict(json.loads(held["json"]))
    example = next(iter(held.values()))
    if manifest.roles.modality == "table":
        example = features_as_bytes([told.get(name) for name in manifest.roles.example])
    plain = columns(manifest.roles.nuisance)
    wrong = {
        "has another example than its index says": hashlib.sha256(example).digest() != row["sha256"],
        "has another label (.cls) than its index says": held["cls"] != str(row["label"]).encode(),
        "has other metadata (.json) than its index says": any(
            told.get(name, ...) != row[name] for name in plain
        ),
    }
    for what in (what for what, found in wrong.items() if found):
        yield Problem(path=path, what=f"{what}: fetch or export it again", key=row["key"], kind=what)


def _identity_problems(manifest: Manifest, base: Base, rows: pa.Table) -> Iterator[Problem]:
    if base_content_id(rows, manifest, base) != base.content_id:
        what = f"holds other rows than the content_id of {base.name} says: fetch or export it again"
        yield Problem(path=f"index/{base.name}", what=what, kind="content_id")
