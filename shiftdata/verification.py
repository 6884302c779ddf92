"""Check a dataset in a folder against its manifest: files by hash, rows by meaning, images by their bytes."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from shiftdata import places
from shiftdata.errors import InputError
from shiftdata.identity import base_content_id, dataset_content_id
from shiftdata.manifest import FILE_NAME, FileRecord, Manifest
from shiftdata.protocols import rows_matching
from shiftdata.schema import KEY_PATTERN, POINTER_COLUMNS, SPLITS, columns

__all__ = ["Problem", "verify"]

#: Written from the manifest, so compared with a fresh rendering (`python -m builders check`), not by hash.
RENDERINGS = {FILE_NAME, "README.md", "croissant.json"}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is not as the manifest says; `path` is relative to the dataset's folder."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def verify(
    name: str | Path, *, deep: bool = True, on_file: Callable[[str], object] = lambda path: None
) -> list[Problem]:
    """Check every file of a dataset, and with `deep` every row and image; an empty list means all is well.

    `on_file` is called with the name of each file when it has been hashed.
    """
    place = places.find(name)
    if place.folder is None:
        raise InputError(
            f"{name} is not in a folder on this machine: download it first, then verify the folder"
        )
    manifest = place.manifest()
    problems = _check_files(place.folder, manifest, on_file)
    if deep and not problems:
        for base in manifest.bases:
            problems += _check_base(place.folder, manifest, base.name)
        problems += _check_configs(place.folder, manifest)
        if manifest.content_id != dataset_content_id({b.name: b.content_id for b in manifest.bases}):
            problems.append(
                Problem(path=FILE_NAME, what="content_id is not the hash of the bases' content_ids")
            )
    return problems


def _check_files(folder: Path, manifest: Manifest, on_file: Callable[[str], object]) -> list[Problem]:
    problems = []
    present = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() or p.is_symlink()}
    for path in sorted(present - set(manifest.files) - RENDERINGS):
        problems.append(Problem(path=path, what="is not in the manifest: an extra file"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        checks = pool.map(
            lambda item: (item[0], _file_problem(folder, *item)), sorted(manifest.files.items())
        )
        for path, what in checks:
            on_file(path)
            if what:
                problems.append(Problem(path=path, what=what))
    return problems


def _file_problem(folder: Path, path: str, record: FileRecord) -> str | None:
    file = folder / path
    if not file.resolve().is_relative_to(folder.resolve()):
        return "points out of the dataset's folder"
    if not file.is_file():
        return "is missing: fetch or build the dataset again"
    if file.stat().st_size != record.bytes:
        return f"has {file.stat().st_size} bytes, the manifest says {record.bytes}: fetch or build it again"
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != record.sha256:
        return f"has sha256 {found}, the manifest says {record.sha256}: fetch or build it again"
    return None


def _check_base(folder: Path, manifest: Manifest, base: str) -> Iterator[Problem]:
    """Rows against each other and against the manifest, for one base."""
    tables = {}
    for split, record in manifest.base(base).splits.items():
        path = f"metadata/{base}/{split}.parquet"
        tables[split] = table = pq.read_table(folder / path)
        if len(table) != record.rows:
            yield Problem(path=path, what=f"holds {len(table)} rows, the manifest says {record.rows}")
        yield from _check_shards(folder, manifest, base, split, table)
    rows = pa.concat_tables(tables.values())
    where = f"metadata/{base}"
    out_of_range = list(_range_problems(manifest, rows))
    yield from (Problem(path=where, what=what) for what in [*out_of_range, *_row_problems(manifest, rows)])
    if out_of_range:
        return  # rows without a name have no content_id
    found = base_content_id(rows, manifest.roles.nuisance, manifest.labels, manifest.nuisances)
    if found != manifest.base(base).content_id:
        yield Problem(
            path=where, what=f"content_id is {found}, the manifest says {manifest.base(base).content_id}"
        )


def _check_shards(
    folder: Path, manifest: Manifest, base: str, split: str, table: pa.Table
) -> Iterator[Problem]:
    """Metadata rows against the data files: same columns, same order, pointers that hold."""
    names = sorted(path for path in manifest.files if path.startswith(f"data/{base}/{split}-"))
    shared = list(columns(manifest.roles.nuisance))
    for number, name in enumerate(names):
        rows = table.filter(pc.field("shard") == number)
        data = pq.read_table(folder / name, columns=shared)
        if not data.equals(rows.select(shared)):
            yield Problem(
                path=name, what=f"differs from metadata/{base}/{split}.parquet in its columns or order"
            )
        if rows["row"].to_pylist() != list(range(len(data))):
            yield Problem(path=name, what="has rows that the metadata does not point to in order")
        if manifest.roles.modality != "image":
            continue
        with (folder / name).open("rb") as stream:
            yield from (Problem(path=name, what=what) for what in _image_problems(stream, rows))


def _image_problems(stream: BinaryIO, rows: pa.Table) -> Iterator[str]:
    """Read every image by its byte offset: right hash, and decodable."""
    for pointer in rows.select(["key", *POINTER_COLUMNS]).to_pylist():
        stream.seek(pointer["offset"])
        data = stream.read(pointer["length"])
        where = f"row {pointer['row']} ({pointer['key']})"
        if hashlib.sha256(data).digest() != pointer["sha256"]:
            yield f"{where}: the bytes at offset {pointer['offset']} have not the sha256 of the metadata"
            continue
        try:
            Image.open(io.BytesIO(data)).load()
        except Exception as error:  # Pillow raises many kinds for bad pictures
            yield f"{where}: the image cannot be decoded: {error}"


def _row_problems(manifest: Manifest, rows: pa.Table) -> Iterator[str]:
    nuisance = manifest.roles.nuisance
    keys = rows["key"].to_pylist()
    if len(set(keys)) != len(keys):
        yield "holds a key twice"
    yield from (
        f"has the key {key!r}, which is not {KEY_PATTERN.pattern}"
        for key in keys
        if not KEY_PATTERN.fullmatch(key)
    )
    expected = pc.add(pc.multiply(rows["label"], len(manifest.nuisances)), rows[nuisance])
    if not pc.all(pc.equal(expected, rows["group"]), min_count=0).as_py():
        yield f"has a group that is not label * {len(manifest.nuisances)} + {nuisance}"
    yield from _split_problems(rows)
    if not _quantiles_hold(rows):
        yield "has quantiles that are not 0/n ... (n-1)/n in each (split, group)"


def _range_problems(manifest: Manifest, rows: pa.Table) -> Iterator[str]:
    """Labels and nuisances that have no name."""
    for column, names in (("label", manifest.labels), (manifest.roles.nuisance, manifest.nuisances)):
        values = rows[column].drop_null()
        if len(values) and not 0 <= pc.min(values).as_py() <= pc.max(values).as_py() < len(names):
            yield f"has a {column} out of the range of its {len(names)} names"


def _split_problems(rows: pa.Table) -> Iterator[str]:
    """An origin has one label and one fold, and the fold gives the split: so no origin is in two splits."""
    per_origin = rows.group_by("origin").aggregate(
        [("split", "count_distinct"), ("label", "count_distinct"), ("fold", "count_distinct")]
    )
    for column in ("split", "label", "fold"):
        bad = per_origin.filter(pc.field(f"{column}_count_distinct") > 1)["origin"].to_pylist()
        if bad:
            yield f"has {len(bad)} origins with more than one {column}, such as {bad[0]}"
    firsts = np.array(list(SPLITS.values()))
    expected = np.array(list(SPLITS))[np.searchsorted(firsts, rows["fold"].to_numpy(), side="right") - 1]
    if not np.array_equal(expected, rows["split"].to_numpy().astype(expected.dtype)):
        yield f"has a split that its fold does not give ({SPLITS} are the first folds)"


def _quantiles_hold(rows: pa.Table) -> bool:
    """Whether quantiles are positions divided by sizes within each (split, label, nuisance)."""
    label = pc.cast(rows["label"], pa.string())
    group = pc.fill_null(pc.cast(rows["group"], pa.string()), "-")
    severity = pc.fill_null(pc.cast(rows["severity"], pa.string()), "-")
    cell = pc.binary_join_element_wise(rows["split"], label, group, severity, "/").combine_chunks()
    codes: NDArray[Any] = cell.dictionary_encode().indices.to_numpy()
    quantile = rows["quantile"].to_numpy()
    order = np.lexsort((quantile, codes))
    counts = np.bincount(codes)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    expected = (np.arange(len(codes)) - starts) / np.repeat(counts, counts)
    return bool(np.array_equal(quantile[order], expected))


def _check_configs(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Canonical splits: the filters give the promised counts and the frozen keys."""
    for config in manifest.configs:
        for split, promised in config.splits.items():
            table = pq.read_table(folder / f"metadata/{config.base}/{split}.parquet")
            rows = rows_matching(table, config.filters)
            where = f"protocols/{config.name}.parquet"
            frozen = pq.read_table(folder / where).filter(pc.field("split") == split)
            if len(rows) != promised.rows:
                what = f"the filters keep {len(rows)} rows of {split}, the manifest says {promised.rows}"
                yield Problem(path=where, what=what)
            if sorted(rows["key"].to_pylist()) != sorted(frozen["key"].to_pylist()):
                yield Problem(path=where, what=f"the filters keep other keys of {split} than the frozen ones")
