"""Check the manifest by itself, and what is derived from rows: card, credits, sample, what was dropped."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.addresses import relative
from shiftdata.data.format.attribution import Terms, added, attribution_text, credits_of, terms
from shiftdata.data.format.benchmark import render_benchmark
from shiftdata.data.format.croissant import render_croissant
from shiftdata.data.format.front_matter import loading_entries, yaml_lines
from shiftdata.data.format.identity import dataset_content_id
from shiftdata.data.format.licenses import conjuncts
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import (
    BENCHMARK,
    CROISSANT,
    DROPPED,
    NAMES,
    data_file,
    data_files,
    index_file,
    is_tar,
    metadata_file,
    protocol_file,
)
from shiftdata.data.format.schema import columns
from shiftdata.data.format.written import names_text, sample_of
from shiftdata.data.places.store import MOST_SMALL
from shiftdata.data.verifying.files import LocalFile, Problem
from shiftdata.data.verifying.tables import read_table
from shiftdata.stable import hash_of_parts
from shiftdata.untrusted.texts import read_json


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


FRONT = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)
KEY = re.compile(r"[a-z_]+(?=:)")
DROPPED_ROWS = pa.schema([(name, pa.string()) for name in ("base", "key", "reason")])


def card_problems(manifest: Manifest, card: LocalFile) -> Iterator[Problem]:
    """Check that the card makes `datasets` load the configs that the manifest has."""
    listed = manifest.default_base in {base.name for base in manifest.bases}
    if card.file is None or manifest.is_webdataset or not listed:
        return
    match = FRONT.match(_start(card.file).decode(errors="replace"))
    front = _by_key(match[1] if match else "")
    for key, wanted in _by_key("\n".join([*yaml_lines(loading_entries(manifest)), ""])).items():
        if front.get(key) != wanted:
            text = f"has other {key} than the manifest: fetch it again, or build the dataset again"
            yield Problem(card.path, text, "card")


def _start(file: Path, most: int = MOST_SMALL) -> bytes:
    with file.open("rb") as stream:
        return stream.read(most)


def _by_key(front: str) -> dict[str, str]:
    """Return the lines of each key of a front matter; none if YAML could read one in another way."""
    lines: dict[str, str] = {}
    key = ""
    for line in front.splitlines(keepends=True):
        if not line.startswith(("-", " ")):
            named = KEY.match(line)
            key = named[0] if named and named[0] not in lines else "?"
        lines[key] = lines.get(key, "") + line
    return {} if "?" in lines else lines


#: The renderings for machines, which have no word that the manifest does not determine.
RENDERED = {CROISSANT: render_croissant, BENCHMARK: render_benchmark, NAMES: names_text}


def rendering_problems(manifest: Manifest, local: LocalFile) -> Iterator[Problem]:
    """Check that a description for machines is the one that the manifest gives."""
    if local.file is None:
        return
    try:
        same = relative(_start(local.file)) == RENDERED[local.path](manifest).encode()
    except Exception:  # a manifest can contradict itself in many ways
        same = False
    if not same:
        kind = local.path.partition(".")[0]
        yield Problem(local.path, "does not describe the manifest: build the dataset again", kind)


def attribution_problems(manifest: Manifest, local: LocalFile, rows: Counter[Terms]) -> Iterator[Problem]:
    """Check that ATTRIBUTION.md and the licence of the whole are those of the rows."""
    for text, _, nuisance in rows:
        if lacking := set(added(manifest.materials, nuisance)) - set(conjuncts(text or "")):
            fault = f"has rows of {nuisance} under {text}, which lacks {', '.join(sorted(lacking))}"
            yield Problem(FILE_NAME, fault, "licence")
    everyone, materials = credits_of(rows, manifest.materials)
    license_ = terms(everyone, materials, manifest.compilation)["license"]
    if manifest.license != license_:
        text = f"has the licence {manifest.license!r}, its rows have {license_!r}"
        yield Problem(FILE_NAME, text, "licence")
    wanted = attribution_text(manifest, everyone, materials).encode()
    if local.file is not None and _start(local.file, len(wanted) + 1) != wanted:
        yield Problem(local.path, "does not have the credits of the rows: build the dataset again", "credits")


def sample_problems(manifest: Manifest, file: Path) -> Iterator[Problem]:
    """Check that the sample in the manifest is the first row of a data file."""
    if manifest.sample != read_json(json.dumps(sample_of(manifest, file)), constants=True):
        yield Problem(FILE_NAME, "has a sample that is not the first row: build the dataset again", "sample")


def dropped_problems(manifest: Manifest, local: LocalFile) -> Iterator[Problem]:
    """Check the names of what was dropped against the counts and hashes of each base."""
    rows, problems = read_table(local, DROPPED_ROWS)
    yield from problems
    if rows is None:
        return
    for base in manifest.bases:
        mine = rows.filter(pc.equal(rows["base"], base.name)).select(["key", "reason"])
        counts = pc.value_counts(mine["reason"])
        same = len(counts) == len(base.dropped)  # before millions of texts become Python's
        same = same and {each["values"]: each["counts"] for each in counts.to_pylist()} == base.dropped
        if not same or _dropped_id(mine) != base.dropped_id:
            text = f"does not name what was dropped from {base.name}: fetch it or build the dataset again"
            yield Problem(local.path, text, "dropped")


def _dropped_id(rows: pa.Table) -> str:
    """Return the `dropped_id` of rows; as Python's texts, all would take gigabytes."""
    rows = rows.drop_null().sort_by([("key", "ascending"), ("reason", "ascending")])
    batches = (batch.to_pydict().values() for batch in rows.to_batches(max_chunksize=10_000))
    texts = (text for columns in batches for pair in zip(*columns, strict=True) for text in pair)
    return hash_of_parts(texts) if len(rows) else ""
