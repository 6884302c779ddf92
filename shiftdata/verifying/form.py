"""Check the manifest itself: whether it is written as shiftdata writes it, and lists every file it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import get_args

from shiftdata.errors import IntegrityError
from shiftdata.format.manifest import FILE_NAME, Manifest
from shiftdata.format.paths import index_file
from shiftdata.format.schema import FEATURE_TYPES, SPLITS, Modality, columns
from shiftdata.verifying.problem import Problem

#: The columns of examples, where their modality fixes them.
EXAMPLES = {"image": {"image": "image"}, "text": {"text": "string"}}
SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.parquet")


def refuse(manifest: Manifest) -> None:
    """Refuse a manifest by which no row can be read."""
    for fault in _faults(manifest):
        raise IntegrityError(f"{FILE_NAME} {fault}: fetch or build it again")


def _faults(manifest: Manifest) -> Iterator[str]:
    modality, allowed = manifest.roles.modality, get_args(Modality)
    if modality not in allowed:
        yield f"names the modality {modality!r}; it is one of {', '.join(allowed)}"
    example = dict(manifest.roles.example)
    if example != EXAMPLES.get(modality, example):
        wanted = EXAMPLES[modality]
        yield f"gives examples the columns {example}; of the modality {modality} they are {wanted}"
    for name, feature in example.items():
        if isinstance(feature, str) and feature not in FEATURE_TYPES:
            known = ", ".join(FEATURE_TYPES)
            yield f"gives the column {name!r} the type {feature!r}; it is one of {known}, or a list of names"
    for base in manifest.bases:
        held = set(base.splits)
        if held != set(SPLITS) and (manifest.part is None or not held or not held <= set(SPLITS)):
            given = _listed(base.splits)
            yield f"gives the base {base.name!r} the splits {given}; they are {_listed(SPLITS)}"
    for config in manifest.configs:
        if not set(config.splits) <= set(SPLITS):
            given = _listed(config.splits)
            yield f"gives the config {config.name!r} the splits {given}; they are of {_listed(SPLITS)}"


def manifest_problems(manifest: Manifest, written: bytes) -> Iterator[Problem]:
    """The manifest is written in one way, so that equal datasets have equal manifests."""
    if written != manifest.to_json().encode():
        what = "is not as shiftdata writes it: edited, or its line endings converted; fetch or build it again"
        yield Problem(path=FILE_NAME, what=what, kind="form")
    roles = manifest.roles
    for name in sorted({roles.label, roles.origin} - set(columns(roles.nuisance))):
        what = f"gives a role to the column {name!r}, which rows do not have"
        yield Problem(path=FILE_NAME, what=what, kind="roles")
    bases = {base.name for base in manifest.bases}
    if manifest.default_base not in bases:
        what = f"has the default base {manifest.default_base!r} that it does not list"
        yield Problem(path=FILE_NAME, what=what, kind="files")
    yield from _tar_problems(manifest) if manifest.is_webdataset else _base_problems(manifest)
    for config in manifest.configs:
        if f"protocols/{config.name}.parquet" not in manifest.files:
            what = f"does not list protocols/{config.name}.parquet, which the split {config.name!r} needs"
            yield Problem(path=FILE_NAME, what=what, kind="files")
        if config.base not in bases:
            what = f"has the split {config.name!r} of a base {config.base!r} that it does not list"
            yield Problem(path=FILE_NAME, what=what, kind="files")


def _base_problems(manifest: Manifest) -> Iterator[Problem]:
    """Each split of a base needs a metadata file, and data files for all of its rows."""
    for base in manifest.bases:
        for split, record in base.splits.items():
            paths = [f"metadata/{base.name}/{split}.parquet", *shard_paths(manifest, base.name, split)]
            for path in paths:
                if path not in manifest.all_files:
                    what = f"does not list {path}, which the base {base.name!r} needs"
                    yield Problem(path=FILE_NAME, what=what, kind="files")
            listed = [manifest.all_files[path] for path in paths[1:] if path in manifest.all_files]
            rows = sum(record.rows or 0 for record in listed)
            if rows != record.rows:
                what = (
                    f"lists data files of {base.name}/{split} with {rows} rows, and {record.rows} rows in it"
                )
                yield Problem(path=FILE_NAME, what=what, kind="files")


def shard_paths(manifest: Manifest, base: str, split: str) -> list[str]:
    """The data files that a split must have, by the number that the listed ones give."""
    start = f"data/{base}/{split}"
    matches = [match for path in manifest.all_files if (match := SHARD.fullmatch(path)) and match[1] == start]
    total = max((int(match[3]) for match in matches), default=1)
    return [f"{start}-{number:05d}-of-{total:05d}.parquet" for number in range(total)]


def _tar_problems(manifest: Manifest) -> Iterator[Problem]:
    """Each tar of a WebDataset repo needs an index, and the tars of a split hold all of its rows."""
    for base in manifest.bases:
        for split, record in base.splits.items():
            tars = tar_paths(manifest, base.name, split)
            for path in (index_file(tar) for tar in tars):
                if path not in manifest.files:
                    what = f"does not list {path}, which the base {base.name!r} needs"
                    yield Problem(path=FILE_NAME, what=what, kind="files")
            rows = sum(manifest.files[tar].rows or 0 for tar in tars)
            if rows != record.rows:
                what = f"lists tars of {base.name}/{split} with {rows} samples, and {record.rows} rows in it"
                yield Problem(path=FILE_NAME, what=what, kind="files")


def tar_paths(manifest: Manifest, base: str, split: str) -> list[str]:
    """The tars of a split that are listed."""
    start = f"data/{base}/{split}-"
    return sorted(path for path in manifest.files if path.startswith(start) and path.endswith(".tar"))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
