"""Write a Parquet dataset in WebDataset format: tars, an index of each, README, manifest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
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
from shiftdata.exporting.webdataset.order import Indices, stratified_order
from shiftdata.exporting.webdataset.source import Source
from shiftdata.exporting.webdataset.tars import Members, index_path, index_schema, tar_path, write_tar
from shiftdata.files import finish_export, sha256_of, whole_file, work_folder, write_text
from shiftdata.format.attribution import ATTRIBUTION
from shiftdata.format.identity import dataset_content_id
from shiftdata.format.manifest import FILE_NAME, Base, FileRecord, Manifest
from shiftdata.stable import content_hash

BYTES_PER_SHARD = 256 << 20
BYTES_BESIDE = 3 << 10  # of a sample in a tar: headers, padding, label and metadata
README = "README.md"
BESIDE = ("preview.jpg", ATTRIBUTION)  # files of the dataset that its tars take along


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
    export of the same content that is already there is left as it is.

    Args:
        dataset: a name, `shift/<name>`, a folder, or a URL that fsspec reads.
        out: the folder to make, such as `build/shift/<name>_wds`.
        base: only this base; None is all of them.
        shard_bytes: about how large a tar becomes at most; readers share work by whole tars.
        overwrite: put it into the place of an earlier export, whatever that holds.
        on_samples: called with how many more samples were written.

    """
    if shard_bytes < 1:
        raise InputError(f"shard_bytes must be at least 1, got {shard_bytes}")
    opened = open_dataset(dataset)
    opened.check_unchanged()
    whole = opened.manifest
    manifest = _manifest_of_tars(whole, base)
    beside = [name for name in BESIDE if name in whole.files]
    if not overwrite and _is_export_of(out, manifest, beside):
        _mend(out, manifest)
        return out
    _check_target(out, manifest, overwrite)
    work = work_folder(out, content_hash(manifest.to_json(), str(shard_bytes)))
    if not (work / FILE_NAME).is_file():  # else it was killed just before its last move
        source = Source(opened, work / ".fetched")
        for one in manifest.bases:
            rows = source.rows(one)
            for split in one.splits:
                _write_split(source, one, split, rows[split], work, shard_bytes, on_samples)
        for name in beside:
            shutil.copyfile(source.file(name), work / name)
        sample = _sample(work, manifest, source)
        shutil.rmtree(source.cache, ignore_errors=True)
        _finish(work, replace(manifest, sample=sample, files=_file_records(work)))
    finish_export(work, out)
    return out


def _is_export_of(folder: Path, manifest: Manifest, beside: Sequence[str]) -> bool:
    """Whether a folder holds a whole export of this content, made with the same libraries."""
    if not (folder / FILE_NAME).is_file():
        return False
    found = Manifest.read(folder)
    same = ("content_id", "recipe_id", "versions")
    return (
        found.is_webdataset
        and set(beside) <= set(found.files)
        and all(getattr(found, name) == getattr(manifest, name) for name in same)
        and all(
            (folder / path).is_file() and (folder / path).stat().st_size == record.bytes
            for path, record in found.files.items()
        )
    )


def _mend(out: Path, manifest: Manifest) -> None:
    """Bring the words of a finished export to what its dataset says today."""
    found = Manifest.read(out)
    wanted = replace(manifest, sample=found.sample, files=found.files)
    readme = out / README
    same = readme.is_file() and readme.read_bytes() == card(wanted).encode()
    if not same or wanted.to_json() != found.to_json():
        _finish(out, wanted)


def _check_target(out: Path, manifest: Manifest, overwrite: bool) -> None:
    """Refuse a place that holds anything, but for an earlier export that may be overwritten."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / FILE_NAME).is_file() or not Manifest.read(out).is_webdataset:
        raise InputError(f"{out} exists and is no WebDataset export: give another folder, or move it away")
    if not overwrite:
        raise InputError(
            f"{out} is an export of other content than {manifest.name} {manifest.content_id[:12]}: "
            "give another folder, or overwrite it (--overwrite)"
        )


def _manifest_of_tars(manifest: Manifest, base: str | None) -> Manifest:
    """The manifest of the tars, without its files and sample: canonical splits are filters on Parquet."""
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
        configs=[],
        sample={},
        files={},
    )


def _write_split(
    source: Source,
    base: Base,
    split: str,
    rows: pa.Table,
    work: Path,
    shard_bytes: int,
    on_samples: Callable[[int], object],
) -> None:
    """Write the tars of a split; those with an index are whole already."""
    severity = pc.fill_null(rows["severity"], -1.0).to_numpy()
    nuisance = pc.fill_null(rows[source.manifest.roles.nuisance], -1).to_numpy()
    order = stratified_order(rows["key"].to_pylist(), rows["label"].to_numpy(), nuisance, severity)
    shards = _cut(order, rows["length"].to_numpy(), shard_bytes)
    for number, members in enumerate(shards):
        path = tar_path(base.name, split, number, len(shards))
        index = work / index_path(path)
        if index.is_file():
            on_samples(len(members))
            continue
        samples = _told(source.samples(base, split, rows, members), on_samples)
        places = write_tar(work / path, samples)
        _write_index(index, source, rows.take(members), places)


def _told(
    samples: Iterator[tuple[str, Members]], on_samples: Callable[[int], object]
) -> Iterator[tuple[str, Members]]:
    for sample in samples:
        yield sample
        on_samples(1)


def _cut(order: Indices, lengths: Indices, shard_bytes: int) -> list[Indices]:
    """Consecutive samples, about equally many bytes a tar."""
    sizes = lengths[order].astype(np.int64) + BYTES_BESIDE
    shards = min(len(order), -(-int(sizes.sum()) // shard_bytes))
    middles = np.cumsum(sizes) - sizes / 2
    starts = np.searchsorted(middles, np.arange(1, shards) * (sizes.sum() / shards))
    return [part for part in np.split(order, starts) if len(part)]


def _write_index(path: Path, source: Source, rows: pa.Table, places: dict[str, list[int]]) -> None:
    """Write the index of a whole tar; that it is there marks the tar as whole."""
    schema = index_schema(source.manifest.roles.nuisance, source.members)
    held = {name: rows[name] for name in rows.column_names} | places
    table = pa.table({name: held[name] for name in schema.names}, schema=schema)
    with whole_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _sample(work: Path, manifest: Manifest, source: Source) -> dict[str, Any]:
    """The members of the first sample, as they are loaded; of a picture only that it is there."""
    split = next(iter(manifest.base(manifest.default_base).splits))  # a part may have no training rows
    path = min(work.glob(f"data/{manifest.default_base}/{split}-*.tar"))
    (row,) = pq.read_table(work / index_path(path.relative_to(work).as_posix())).slice(0, 1).to_pylist()
    sample: dict[str, Any] = {}
    with path.open("rb") as tar:
        for member in source.members:
            tar.seek(row[f"{member}_offset"])
            data = tar.read(row[f"{member}_length"])
            pixels = member not in ("txt", "cls", "json")
            sample[member] = None if pixels else data.decode() if member == "txt" else json.loads(data)
    return sample


def _file_records(work: Path) -> dict[str, FileRecord]:
    """The hash of every published file; what an interrupted writer left beside them is not looked at."""
    records = {}
    for path in sorted([*work.glob("data/*/*.tar"), *work.glob("index/*/[!.]*"), *_beside(work)]):
        name = path.relative_to(work).as_posix()
        index = None if name in BESIDE else work / (index_path(name) if path.suffix == ".tar" else name)
        rows = pq.read_metadata(index).num_rows if index else None
        records[name] = FileRecord(bytes=path.stat().st_size, sha256=sha256_of(path), rows=rows)
    return records


def _beside(work: Path) -> list[Path]:
    return [work / name for name in BESIDE if (work / name).is_file()]


def _finish(work: Path, manifest: Manifest) -> None:
    """Write the card and, last, the manifest: an export with a manifest is whole."""
    for left in work.rglob(".*"):  # by a writer that was killed
        left.unlink()
    for name, text in ((README, card(manifest)), (FILE_NAME, manifest.to_json())):
        write_text(work / name, text)
