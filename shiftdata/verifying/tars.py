"""Check a dataset in the WebDataset format: each sample against its index, each base by its identity."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

import pyarrow as pa

from shiftdata.format.identity import base_content_id
from shiftdata.format.manifest import Manifest
from shiftdata.format.paths import index_file
from shiftdata.format.schema import columns, features_as_bytes, index_schema
from shiftdata.format.typed import read_json
from shiftdata.verifying.files import Files
from shiftdata.verifying.manifest import tar_paths
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.tables import read_table


def tar_problems(files: Files) -> Iterator[Problem]:
    """Everything that is wrong with the files and samples of a dataset of tars."""
    manifest, done = files.dataset.manifest, set[str]()
    schema = index_schema(manifest.roles.nuisance, list(manifest.sample))
    for base in manifest.bases:
        tars = [tar for split in base.splits for tar in tar_paths(manifest, base, split)]
        pairs = [path for tar in tars for path in (index_file(tar), tar)]
        done |= set(pairs)
        tables, table = [], None
        for local in files.each(pairs):
            yield from local.problems()
            if not local.path.endswith(".tar"):
                table, problems = read_table(local, schema)
                yield from problems
                tables += [table] if table is not None else []
            elif local.file is not None and table is not None:
                with local.file.open("rb") as opened:
                    for row in table.to_pylist():
                        yield from _sample_problems(local.path, opened, row, manifest)
                files.progress.report(files.progress.on_rows, len(table))
        if (
            len(tables) == len(tars)
            and base_content_id(pa.concat_tables(tables), manifest, base) != base.content_id
        ):
            what = f"has other rows than the content_id of {base.name} says: fetch or export it again"
            yield Problem(f"index/{base.name}", what, "content_id")
    for local in files.each(sorted(set(manifest.files) - done)):
        yield from local.problems()


def _sample_problems(
    path: str, tar: BinaryIO, row: Mapping[str, Any], manifest: Manifest
) -> Iterator[Problem]:
    members = {}
    for member in manifest.sample:
        tar.seek(row[f"{member}_offset"])
        members[member] = tar.read(row[f"{member}_length"])
    values: dict[str, Any] = {}
    with suppress(ValueError, TypeError):
        values = dict(read_json(members["json"]))
    example = next(iter(members.values()))
    if manifest.roles.modality == "table":
        example = features_as_bytes([values.get(name) for name in manifest.roles.example])
    plain = columns(manifest.roles.nuisance)
    wrong = {
        "has another example than its index says": hashlib.sha256(example).digest() != row["sha256"],
        "has another label (.cls) than its index says": members["cls"] != str(row["label"]).encode(),
        "has other metadata (.json) than its index says": any(
            values.get(name, ...) != row[name] for name in plain
        ),
    }
    for what in (what for what, is_wrong in wrong.items() if is_wrong):
        yield Problem(path, f"{what}: fetch or export it again", what, row["key"])
