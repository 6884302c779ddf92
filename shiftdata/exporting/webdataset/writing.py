"""Write a Parquet dataset in WebDataset format: tars, an index of each, README, manifest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftdata.dataset import DatasetName, open_dataset
from shiftdata.errors import InputError
from shiftdata.exporting.webdataset.card import card
from shiftdata.exporting.webdataset.source import Indices, Members, Source, stratified_order, write_tar
from shiftdata.files import make_folder, sha256_of, whole_file
from shiftdata.format.identity import dataset_content_id
from shiftdata.format.manifest import Manifest
from shiftdata.format.paths import ATTRIBUTION, MANIFEST, README, RENDERINGS, data_file, index_file
from shiftdata.format.records import Base, FileRecord
from shiftdata.format.renderings import write_renderings
from shiftdata.format.schema import index_schema
from shiftdata.stable import content_hash

BYTES_PER_SHARD = 256 << 20
BYTES_BESIDE = 3 << 10  # of a sample in a tar: headers, padding, label and metadata
BESIDE = ("preview.jpg", ATTRIBUTION)  # files of the dataset that are copied


def export(
    dataset: DatasetName,
    out: Path,
    *,
    base: str | None = None,
    shard_bytes: int = BYTES_PER_SHARD,
    overwrite: bool = False,
    on_samples: Callable[[int], object] = lambda count: None,
) -> Path:
    """Write a dataset in WebDataset format into the folder `out`, and return it.

    Killed at any moment and called again, it goes on and ends in the same bytes; `out` appears whole. An
    export of the same content that is already there is left as it is. A dataset that changes meanwhile is
    refused (`ChangedError`).

    Args:
        dataset: an opened dataset, or its name, folder or URL.
        out: the folder to make, such as `build/shift/<name>_wds`.
        base: only this base; None is all of them.
        shard_bytes: about how large a tar becomes at most; readers share work by whole tars.
        overwrite: replace an earlier export of other content.
        on_samples: called with how many more samples were written.

    """
    if shard_bytes < 1:
        raise InputError(f"shard_bytes must be at least 1, got {shard_bytes}")
    opened = open_dataset(dataset)
    opened.check_unchanged(force=True)
    beside = [name for name in BESIDE if name in opened.manifest.files]
    manifest = _manifest_of_tars(opened.manifest, base)
    if not overwrite and _is_whole(out, manifest, beside):
        found = Manifest.read(out)  # the texts may have changed since
        _describe(out, replace(manifest, sample=found.sample, files=found.files))
        return out

    def write(work: Path) -> None:
        source = Source(opened, work / ".fetched", on_samples)
        sample: dict[str, Any] = {}
        for one in manifest.bases:
            rows = source.rows(one)
            for split in one.splits:
                order = _order(rows[split], manifest.roles.nuisance)
                _write_split(source, one, split, rows[split], order, work, shard_bytes)
                if one.name == manifest.default_base and not sample:
                    sample = _as_loaded(next(source.samples(one, split, rows[split], order[:1]))[1])
        for name in beside:
            (work / name).write_bytes(opened.read_file(name))
        opened.check_unchanged(force=True)
        shutil.rmtree(source.cache, ignore_errors=True)
        for left in work.rglob(".*"):  # by a writer that was killed
            left.unlink()
        _describe(work, replace(manifest, sample=sample, files=_file_records(work)))

    identity = content_hash(manifest.to_json(), str(shard_bytes))
    make_folder(out, identity, MANIFEST, write, lambda: _check_place(out, manifest, overwrite))
    return out


def _manifest_of_tars(manifest: Manifest, base: str | None) -> Manifest:
    """The manifest of the tars, without its files and sample: canonical splits are filters on Parquet."""
    manifest.require_pixels(manifest.name)
    if manifest.is_webdataset:
        raise InputError(f"{manifest.name} is in WebDataset format already: export the Parquet dataset")
    bases = [manifest.base(base)] if base else list(manifest.bases)
    kept = {one.name for one in bases}
    return replace(
        manifest,
        name=f"{manifest.name}_wds",
        bases=bases,
        default_base=manifest.default_base if manifest.default_base in kept else bases[0].name,
        content_id=dataset_content_id(bases),
        canonical_splits=[],
        sample={},
        files={},
    )


def _is_whole(folder: Path, manifest: Manifest, beside: Iterable[str]) -> bool:
    """Whether a folder is a whole export of this content, made with the same libraries."""
    if not (folder / MANIFEST).is_file():
        return False
    found = Manifest.read(folder)
    return (
        found.is_webdataset
        and set(beside) <= set(found.files)
        and all(
            getattr(found, name) == getattr(manifest, name)
            for name in ("content_id", "recipe_id", "versions")
        )
        and all(
            (folder / path).is_file() and (folder / path).stat().st_size == record.bytes
            for path, record in found.files.items()
            if path not in RENDERINGS  # they are written anew
        )
    )


def _check_place(out: Path, manifest: Manifest, overwrite: bool) -> None:
    """Refuse a place with anything in it, except an earlier export that may be overwritten."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / MANIFEST).is_file() or not Manifest.read(out).is_webdataset:
        raise InputError(f"{out} exists and is not a WebDataset export: give another folder, or move it away")
    if not overwrite:
        raise InputError(
            f"{out} is an export of other content than {manifest.name} {manifest.content_id[:12]}: "
            "give another folder, or overwrite it (--overwrite)"
        )


def _order(rows: pa.Table, nuisance: str) -> Indices:
    severity = pc.fill_null(rows["severity"], -1.0).to_numpy()
    kinds = pc.fill_null(rows[nuisance], -1).to_numpy()
    return stratified_order(rows["key"].to_pylist(), rows["label"].to_numpy(), kinds, severity)


def _write_split(
    source: Source,
    base: Base,
    split: str,
    rows: pa.Table,
    order: Indices,
    work: Path,
    shard_bytes: int,
) -> None:
    """Write the tars of a split; those with an index are whole already."""
    shards = _cut(order, rows["length"].to_numpy(), shard_bytes)
    for number, members in enumerate(shards):
        path = data_file(base.name, split, number, len(shards), "tar")
        index = work / index_file(path)
        if index.is_file():
            source.on_samples(len(members))
            continue
        places = write_tar(work / path, source.samples(base, split, rows, members))
        _write_index(index, source.dataset.manifest.roles.nuisance, rows.take(members), places)


def _cut(order: Indices, lengths: Indices, shard_bytes: int) -> list[Indices]:
    """Consecutive samples, about equally many bytes per tar."""
    sizes = lengths[order].astype(np.int64) + BYTES_BESIDE
    shards = min(len(order), -(-int(sizes.sum()) // shard_bytes))
    middles = np.cumsum(sizes) - sizes / 2
    starts = np.searchsorted(middles, np.arange(1, shards) * (sizes.sum() / shards))
    return [part for part in np.split(order, starts) if len(part)]


def _write_index(path: Path, nuisance: str, rows: pa.Table, places: dict[str, list[int]]) -> None:
    """Write the index of a whole tar; the index marks the tar as whole."""
    schema = index_schema(nuisance, [name.removesuffix("_offset") for name in places if "_offset" in name])
    table = {name: rows[name] for name in rows.column_names} | places
    with whole_file(path) as temporary:
        columns = {name: table[name] for name in schema.names}
        pq.write_table(pa.table(columns, schema=schema), temporary, compression="zstd")


def _as_loaded(members: Members) -> dict[str, Any]:
    """The members of a sample as they are loaded; a picture is None."""
    read: dict[str, Callable[[bytes], Any]] = {"cls": json.loads, "json": json.loads, "txt": bytes.decode}
    return {name: read[name](data) if name in read else None for name, data in members.items()}


def _file_records(work: Path) -> dict[str, FileRecord]:
    """The hash of every published file; what an interrupted writer left beside them is ignored."""
    records = {}
    beside = [path for path in map(work.joinpath, BESIDE) if path.is_file()]
    for path in sorted([*work.glob("data/*/*.tar"), *work.glob("index/*/[!.]*"), *beside]):
        name = path.relative_to(work).as_posix()
        index = None if name in BESIDE else work / (index_file(name) if path.suffix == ".tar" else name)
        rows = pq.read_metadata(index).num_rows if index else None
        records[name] = FileRecord(bytes=path.stat().st_size, sha256=sha256_of(path), rows=rows)
    return records


def _describe(folder: Path, manifest: Manifest) -> None:
    write_renderings(folder, manifest, {README: card(manifest)})
