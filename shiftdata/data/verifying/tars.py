"""Check a dataset in the WebDataset format: each sample against its index, each base by its identity."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

import pyarrow as pa

from shiftdata.data.format.identity import base_content_id, task_content_id
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import CROISSANT, data_files, index_file, is_tar
from shiftdata.data.format.records import Base
from shiftdata.data.format.schema import features_as_bytes, index_schema, json_columns
from shiftdata.data.verifying.files import Files, LocalFile, Problem
from shiftdata.data.verifying.manifest import rendering_problems
from shiftdata.data.verifying.tables import read_table
from shiftdata.untrusted.texts import read_json

#: The columns that samples of an unlabelled set must not have.
HIDDEN = ("label", "group", "origin")


def tar_problems(files: Files) -> Iterator[Problem]:
    """Check the files and samples of a dataset of tars."""
    manifest, done = files.dataset.manifest, set[str]()
    for base in manifest.bases:
        schema = index_schema(manifest.roles.nuisance, list(manifest.sample), task=base.task is not None)
        sets: dict[str, list[pa.Table]] = {}
        whole = True
        for name in base.splits:
            pairs = [
                path for tar in data_files(manifest.files, base.name, name) for path in (index_file(tar), tar)
            ]
            done |= set(pairs)
            tables = sets[name] = []
            for local in files.each(pairs):
                yield from local.problems
                if not is_tar(local.path):
                    table, problems = read_table(local, schema)
                    yield from problems
                    tables += [table] if table is not None else []
                elif local.file is not None and table is not None:
                    yield from _samples_problems(local, table, manifest, hidden=base.hides_labels(name))
                    files.progress.report("on_rows", len(table))
            whole = whole and len(tables) == len(pairs) // 2
        if whole and _content_id(sets, manifest, base) != base.content_id:
            text = f"has other rows than the content_id of {base.name} says: fetch or export it again"
            yield Problem(f"index/{base.name}", text, "content_id")
    for local in files.each(sorted(set(manifest.files) - done)):
        yield from local.problems
        if local.path == CROISSANT:
            yield from rendering_problems(manifest, local)


def _content_id(sets: Mapping[str, Sequence[pa.Table]], manifest: Manifest, base: Base) -> str:
    joined = {name: pa.concat_tables(tables) for name, tables in sets.items() if tables}
    if base.task is None:
        return base_content_id(pa.concat_tables(joined.values()), manifest, base)
    return task_content_id(joined, manifest, base.task.roles)


def _samples_problems(
    local: LocalFile, table: pa.Table, manifest: Manifest, *, hidden: bool
) -> Iterator[Problem]:
    """Compare each sample of a tar with its row in the index."""
    assert local.file is not None
    with local.file.open("rb") as tar:
        try:
            for row in table.to_pylist():
                yield from _sample_problems(local.path, tar, row, manifest, hidden=hidden)
        except (OSError, EOFError, MemoryError, TypeError, ValueError, OverflowError) as error:
            text = f"is not as its index says ({error}): fetch or export it again"
            yield Problem(local.path, text, "unreadable")


def _sample_problems(
    path: str, tar: BinaryIO, row: Mapping[str, Any], manifest: Manifest, *, hidden: bool
) -> Iterator[Problem]:
    members = {}
    for member in manifest.sample:
        if not (hidden and member == "cls"):
            tar.seek(row[f"{member}_offset"])
            members[member] = tar.read(row[f"{member}_length"])
    values: dict[str, Any] = {}
    with suppress(ValueError, TypeError):
        values = dict(read_json(members["json"]))
    example = next(iter(members.values()))
    if manifest.roles.modality == "table":
        example = features_as_bytes([values.get(name) for name in manifest.roles.example])
    names = json_columns(manifest.roles.nuisance)
    wrong = {
        "has another example than its index says": hashlib.sha256(example).digest() != row["sha256"],
        "has another label (.cls) than its index says": not hidden
        and members["cls"] != str(row["label"]).encode(),
        "has other metadata (.json) than its index says": any(
            values.get(name, ...) != row[name] for name in names
        ),
        "names its class": hidden and any(values.get(name) is not None for name in HIDDEN),
    }
    for text in (text for text, is_wrong in wrong.items() if is_wrong):
        yield Problem(path, f"{text}: fetch or export it again", text, row["key"])
