"""Write a Parquet dataset, or sets of its rows, in WebDataset format: tars, indices, README, manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import DatasetName, open_dataset
from shiftdata.data.exporting.sets import NamedSets
from shiftdata.data.exporting.webdataset.card import renderings
from shiftdata.data.exporting.webdataset.samples import Entry, Samples, entries_of, order_of
from shiftdata.data.exporting.webdataset.tar import BLOCK, Source, write_tar
from shiftdata.data.format.identity import dataset_content_id
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import ATTRIBUTION, MANIFEST, data_file, index_file, is_tar
from shiftdata.data.format.records import FileRecord
from shiftdata.data.format.schema import index_schema
from shiftdata.data.format.written import row_bytes, write_renderings
from shiftdata.errors import InputError
from shiftdata.files import make_folder, sha256_of, whole_file
from shiftdata.stable import content_hash
from shiftdata.untrusted.parquet import read_footer
from shiftdata.untrusted.texts import read_json

BYTES_PER_SHARD = 256 << 20
#: Nodes and their workers share a set by whole tars: 2 nodes of 8 workers find one each. A tar of fewer rows
#: is mostly the rest of its last block.
SHARDS, ROWS_PER_SHARD = 16, 8
BYTES_BESIDE = 7 * BLOCK  # of a sample, next to its example and texts: headers, label, rests of blocks
COPIED = ("preview.jpg", ATTRIBUTION)


def cut(order: IntArray, sizes: IntArray, shard_bytes: int) -> list[IntArray]:
    """Cut samples into tars of about equally many bytes, none with more than `shard_bytes`.

    Only one that is a single sample may be larger.
    """
    if not len(order):
        return []
    sizes = sizes[order] + BYTES_BESIDE
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    least = min(SHARDS, max(1, len(order) // ROWS_PER_SHARD))
    count = max(least, min(len(order), -(-total // shard_bytes)))
    starts = np.searchsorted(ends - sizes / 2, np.arange(1, count) * (total / count))
    parts = [part for part in np.split(np.arange(len(order)), starts) if len(part)]
    return [order[piece] for part in parts for piece in _pieces(part, sizes, shard_bytes)]


def _pieces(part: IntArray, sizes: IntArray, shard_bytes: int) -> list[IntArray]:
    """Halve a part until it has no more bytes than are allowed."""
    if len(part) < 2 or sizes[part].sum() <= shard_bytes:
        return [part]
    return [piece for half in np.array_split(part, 2) for piece in _pieces(half, sizes, shard_bytes)]


def export(
    dataset: DatasetName,
    out: Path,
    *,
    configs: Sequence[str] = (),
    tasks: Mapping[str, NamedSets] | None = None,
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
        configs: the bases to write.
        tasks: sets of rows, by the names that they get as configs. Without these and `configs`, all bases are
            written.
        shard_bytes: how large a tar becomes at most. A set has at least 16, by which readers share work, or
            fewer where one would have less than 8 rows.
        overwrite: replace an earlier export of other content.
        on_samples: called with how many more samples were written.

    """
    if shard_bytes < 1:
        raise InputError(f"shard_bytes must be at least 1, got {shard_bytes}")
    opened = open_dataset(dataset)
    opened.check_unchanged(force=True)
    opened.manifest.require_pixels(opened.manifest.name)
    if opened.manifest.is_webdataset:
        raise InputError(
            f"{opened.manifest.name} is in WebDataset format already: export the Parquet dataset"
        )
    copied = [name for name in COPIED if name in opened.manifest.files]
    entries = entries_of(opened, configs, tasks or {})
    manifest = _manifest_of_tars(opened.manifest, entries)
    if _is_there(out, manifest, overwrite):
        return out

    def write(work: Path) -> None:
        source = Source(opened, on_samples)
        for entry in entries:
            for name, samples in entry.load().items():
                _write_set(source, entry, name, samples, work, shard_bytes)
        for name in copied:
            (work / name).write_bytes(opened.read_file(name))
        sample = _sample(source, manifest, entries)
        opened.check_unchanged(force=True)
        for left in work.rglob(".*"):  # by a writer that was killed
            left.unlink()
        whole = replace(manifest, sample=sample, files=_file_records(work))
        write_renderings(work, whole, renderings(whole))

    identity = content_hash(manifest.to_json(), str(shard_bytes))
    make_folder(out, identity, MANIFEST, write, lambda: _is_there(out, manifest, overwrite))
    return out


def _manifest_of_tars(manifest: Manifest, entries: Sequence[Entry]) -> Manifest:
    """Make the manifest of the tars, without its files and sample: filters and key files are for Parquet."""
    bases = [entry.record for entry in entries]
    names = {base.name for base in bases}
    return replace(
        manifest,
        name=f"{manifest.name}_wds",
        bases=bases,
        default_base=manifest.default_base if manifest.default_base in names else bases[0].name,
        content_id=dataset_content_id(bases),
        canonical_splits=[],
        sample={},
        files={},
    )


def _is_there(out: Path, manifest: Manifest, overwrite: bool) -> bool:
    """Return True if this export is in its place already, whole; refuse a place that has anything else."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return False
    earlier = Manifest.read(out) if (out / MANIFEST).is_file() else None
    if earlier is None or not earlier.is_webdataset:
        raise InputError(f"{out} exists and is not a WebDataset export: give another folder, or move it away")
    if overwrite:
        return False
    same = replace(manifest, sample=earlier.sample, files=earlier.files).to_json() == earlier.to_json()
    places = {out / path: record.bytes for path, record in earlier.files.items()}
    if same and all(path.is_file() and path.stat().st_size == size for path, size in places.items()):
        return True
    raise InputError(
        f"{out} is an export of other content than {manifest.name} {manifest.content_id[:12]}, or damaged: "
        "give another folder, or overwrite it (--overwrite)"
    )


def _write_set(
    source: Source, entry: Entry, name: str, samples: Samples, work: Path, shard_bytes: int
) -> None:
    """Write the tars of a set; those with an index are whole already."""
    roles, base = source.dataset.manifest.roles, entry.record
    schema = index_schema(roles.nuisance, source.members, task=base.task is not None)
    parts = cut(order_of(samples, roles.nuisance), row_bytes(samples.rows, roles), shard_bytes)
    paths = [data_file(base.name, name, number, len(parts), "tar") for number in range(len(parts))]
    missing = [at for at, path in enumerate(paths) if not (work / index_file(path)).is_file()]
    source.on_samples(len(samples.at) - sum(len(parts[at]) for at in missing))
    if not missing:
        return
    with source.reader(entry.base.name) as reader:
        for at in missing:
            part = samples.take(parts[at])
            places = write_tar(work / paths[at], source.read(reader, part))
            _write_index(work / index_file(paths[at]), schema, part.rows, places)
            source.on_samples(len(part.at))


def _write_index(
    path: Path, schema: pa.Schema, rows: pa.Table, places: Mapping[str, Sequence[int | None]]
) -> None:
    """Write the index of a whole tar; the index marks the tar as whole."""
    lacking = [None] * len(rows)
    with whole_file(path) as temporary:
        values = [
            rows[name] if name in rows.column_names else places.get(name, lacking) for name in schema.names
        ]
        table = pa.table(dict(zip(schema.names, values, strict=True)), schema=schema)
        pq.write_table(table, temporary, compression="zstd")


def _sample(source: Source, manifest: Manifest, entries: Sequence[Entry]) -> dict[str, Any]:
    """Read the first sample of the default config, of a set with labels where there is one."""
    (entry,) = (entry for entry in entries if entry.record.name == manifest.default_base)
    sets = entry.load()
    name = next((name for name in sets if not entry.record.hides_labels(name)), next(iter(sets)))
    first = sets[name].take(np.zeros(1, np.int64))
    with source.reader(entry.base.name) as reader:
        ((_, members),) = source.read(reader, first)
    read: dict[str, Callable[[bytes], Any]] = {"cls": read_json, "json": read_json, "txt": bytes.decode}
    return {
        member: read[member](members[member]) if member in read and member in members else None
        for member in source.members
    }


def _file_records(work: Path) -> dict[str, FileRecord]:
    """Hash every published file; what an interrupted writer left next to them is ignored."""
    records = {}
    copied = [path for path in map(work.joinpath, COPIED) if path.is_file()]
    for path in sorted([*work.glob("data/*/[!.]*.tar"), *work.glob("index/*/[!.]*"), *copied]):
        name = path.relative_to(work).as_posix()
        index = None if name in COPIED else work / (index_file(name) if is_tar(name) else name)
        rows = read_footer(index).num_rows if index else None
        records[name] = FileRecord(bytes=path.stat().st_size, sha256=sha256_of(path), rows=rows)
    return records
