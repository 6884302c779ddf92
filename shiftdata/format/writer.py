"""Write a dataset's files, and what its manifest says of them. The only writer, for both halves of shiftdata.

A build (`builders.make.pack`) and a fetched part (`shiftdata.fetching.part`) do the same::

    tables = {split: write_split(folder, draft, "mini", split, rows, groups, read) for split in SPLITS}
    manifest = finished(folder, draft, {"mini": tables})

`rows` are the columns of the metadata with the `length` and `sha256` of each example, in any order. `groups`
says which rows share a row group, in the order of the file. `read` gives the encoded examples of some rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.errors import IntegrityError
from shiftdata.files import sha256_of, whole_file, write_text
from shiftdata.format.attribution import ATTRIBUTION, attribution_text, credited, terms
from shiftdata.format.bounds import text_lengths
from shiftdata.format.identity import base_content_id, dataset_content_id
from shiftdata.format.manifest import FileRecord, Manifest, Split, Untouched
from shiftdata.format.paths import DROPPED, data_file, data_prefix, metadata_file
from shiftdata.format.schema import (
    FEATURE_TYPES,
    POINTER_COLUMNS,
    Roles,
    columns,
    data_schema,
    example_type,
    metadata_schema,
)

#: A row group holds a stretch of one group, so that a filter skips the others: at most so much of it ...
ROWS_PER_GROUP = 40
BYTES_PER_GROUP = 1 << 20
#: ... and shorter stretches than this share one.
SMALL_STRETCH = 16
BYTES_PER_SHARD = 256 << 20
METADATA_ROWS_PER_GROUP = 20_000
BYTES_AT_ONCE = 16 << 20  # of examples that are asked of `read` at once
OFFSET_BYTES = 4  # Arrow keeps a 32-bit offset beside each text or image
SUFFIXES = {b"\xff\xd8": ".jpg", b"\x89P": ".png"}

#: Nobody filters by these: statistics on them would only make the footer longer.
UNFILTERED = {"license", "attribution", "params", "image", "text", *POINTER_COLUMNS}
#: Nearly every row has its own value: a dictionary would only repeat them.
DISTINCT = {"key", "quantile", "params", "image", "text", "sha256", "offset"}
#: In metadata, neighbours differ by little: these take fewer bytes as differences.
DIFFERENCES = dict.fromkeys(("row", "offset", "length"), "DELTA_BINARY_PACKED")

Indices = NDArray[np.int64]


def write_split(
    folder: Path,
    manifest: Manifest,
    base: str,
    split: str,
    rows: pa.Table,
    groups: Sequence[Indices],
    read: Callable[[Indices], Sequence[bytes]],
    on_rows: Callable[[int], object] = lambda count: None,
) -> pa.Table:
    """Write the data files and the metadata of a split; give its metadata in the order of the files.

    `manifest` may be a draft: only its roles, labels and nuisances count. `on_rows` is called with how many
    more rows were written.
    """
    described = (manifest.roles, manifest.labels, manifest.nuisances)
    shards = cut_into_shards(groups, rows["length"].to_numpy().astype(np.int64))
    order = np.concatenate(groups)
    ordered = rows.take(pa.array(order)).combine_chunks()
    plain = ordered.select(list(columns(manifest.roles.nuisance)))
    lengths = ordered["length"].to_numpy()
    where: list[int | None] = []
    counts: list[int] = []
    for number, shard in enumerate(shards):
        path = folder / data_file(base, split, number, len(shards))
        start, count = sum(counts), sum(map(len, shard))
        mine = slice(start, start + count)
        examples = _in_pieces(order[mine], lengths[mine], read)
        tables = _row_groups(
            plain.slice(start, count), shard, examples, data_schema(*described), manifest.roles
        )
        where += write_shard(path, data_schema(*described), tables, on_rows)
        counts.append(count)
    pointers = {
        "shard": pa.array(np.repeat(np.arange(len(shards)), counts), pa.int32()),
        "row": pa.array(np.concatenate([np.arange(count) for count in counts]), pa.int32()),
        "offset": pa.array(where, pa.int64()),
        "length": ordered["length"].cast(pa.int32()),
        "sha256": ordered["sha256"].cast(pa.binary()),
    }
    arrays = [*plain.columns, *(pointers[name] for name in POINTER_COLUMNS)]
    table = pa.table(arrays, schema=metadata_schema(*described))
    write_metadata(folder / metadata_file(base, split), table)
    return table


def finished(folder: Path, manifest: Manifest, tables: Mapping[str, Mapping[str, pa.Table]]) -> Manifest:
    """The manifest of what was written: identities, counts, credits, a sample row and the hash of every file.

    `tables` holds the metadata of each split of each base; of `manifest`, the other bases are left out.
    Writes ATTRIBUTION.md. `canonical_splits` are for the caller, who knows which rows they need.
    """
    rows = {name: pa.concat_tables(splits.values()) for name, splits in tables.items()}
    nuisance = manifest.roles.nuisance
    bases = [
        replace(
            base,
            content_id=base_content_id(rows[base.name], manifest, base),
            splits={split: counted(table, manifest.roles) for split, table in tables[base.name].items()},
            untouched=untouched(rows[base.name]),
        )
        for base in manifest.bases
        if base.name in tables
    ]
    every = pa.concat_tables(rows.values())
    everyone = credited(_terms_of_rows(every))
    default = manifest.default_base
    first = min(folder.glob(f"{data_prefix(default, next(iter(tables[default])))}*.parquet"))
    write_text(folder / ATTRIBUTION, attribution_text(manifest.name, manifest.version, everyone))
    return replace(
        manifest,
        **terms(everyone),
        content_id=dataset_content_id(bases),
        origins_shared=_origins_shared(every, nuisance),
        bases=bases,
        sample=first_row(first),
        files=file_records(folder, [*_parquet_files(folder), ATTRIBUTION]),
    )


def write_dropped(folder: Path, dropped: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Write base, key and reason of everything that could not be used, if there is anything."""
    rows = [(base, *pair) for base, pairs in dropped.items() for pair in sorted(pairs)]
    if rows:
        columns_ = zip(*rows, strict=True)
        names = ("base", "key", "reason")
        table = pa.table(
            {name: pa.array(column, pa.string()) for name, column in zip(names, columns_, strict=True)}
        )
        write_metadata(folder / DROPPED, table)


def counted(rows: pa.Table, roles: Roles) -> Split:
    """How much some rows of metadata are, and how evenly they lie in their groups."""
    return size_of(groups_of(rows), row_bytes(rows, roles))


def untouched(rows: pa.Table) -> Untouched | None:
    """The untouched starts of trajectories among some rows of metadata; None where all rows are different."""
    starts = rows.filter(pc.and_(pc.equal(rows["severity"], 0.0), pc.is_valid(rows["group"])))
    lengths = starts.group_by("sha256").aggregate([("length", "min")])["length_min"]
    if len(lengths) == len(starts):
        return None
    copied = pc.sum(starts["length"]).as_py() - pc.sum(lengths).as_py()
    return Untouched(rows=len(starts), examples=len(lengths), bytes=copied)


def size_of(groups: Indices, sizes: Indices) -> Split:
    """How much some rows are, from the group (-1 for none) and the bytes of each."""
    counts = np.unique(groups[groups >= 0], return_counts=True)[1]
    return Split(
        rows=len(groups),
        bytes=int(sizes.sum()),
        groups=len(counts),
        smallest=int(counts.min(initial=len(groups))) if len(counts) else 0,
        largest=int(counts.max(initial=0)),
    )


def groups_of(rows: pa.Table) -> Indices:
    """The group of each row of metadata, -1 for none."""
    groups: Indices = pc.fill_null(rows["group"], -1).to_numpy().astype(np.int64)
    return groups


def row_bytes(rows: pa.Table, roles: Roles) -> Indices:
    """The bytes of each row as `datasets` counts them: fixed widths, and texts with an offset."""
    total: Indices = pc.fill_null(rows["length"], 0).to_numpy().astype(np.int64)
    if roles.modality == "image":
        total += text_lengths(rows["key"]) + len(".jpg") + 2 * OFFSET_BYTES
    else:
        texts = sum(feature == "string" for feature in roles.example.values())
        total = total + texts * OFFSET_BYTES if texts else np.full(len(rows), 8 * len(roles.example))
    for name in columns(roles.nuisance):
        column = rows[name]
        if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
            total += text_lengths(column) + OFFSET_BYTES
        else:
            total += column.type.bit_width // 8
    return total


def file_records(folder: Path, names: Sequence[str]) -> dict[str, FileRecord]:
    """The manifest's record of some files in a folder."""
    return {
        name: FileRecord(
            bytes=(folder / name).stat().st_size,
            sha256=sha256_of(folder / name),
            rows=rows_in(folder / name) if name.endswith(".parquet") else None,
        )
        for name in names
    }


def _parquet_files(folder: Path) -> list[str]:
    """Every Parquet file in a folder, hidden ones left out."""
    paths = [path.relative_to(folder) for path in folder.rglob("*.parquet")]
    return sorted(path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))


def within_limits(rows: Indices, sizes: Indices, most_rows: int) -> list[Indices]:
    """Cut rows into stretches of about equal length below the limits of rows and bytes."""
    count = max(1, -(-len(rows) // most_rows))
    while True:
        pieces = np.array_split(rows, count)
        if count >= len(rows) or max(sizes[piece].sum() for piece in pieces) <= BYTES_PER_GROUP:
            return pieces
        count += 1


def cut_into_shards(groups: Sequence[Indices], sizes: Indices) -> list[list[Indices]]:
    """Consecutive row groups, about equally many bytes a shard."""
    weights = np.array([sizes[group].sum() for group in groups], dtype=np.int64)
    shards = max(1, -(-int(weights.sum()) // BYTES_PER_SHARD))
    ends = np.cumsum(weights) - weights / 2
    number = np.minimum((ends * shards // max(1, weights.sum())).astype(int), shards - 1)
    return [[group for group, n in zip(groups, number, strict=True) if n == shard] for shard in range(shards)]


def write_shard(
    path: Path,
    schema: pa.Schema,
    groups: Iterator[pa.Table],
    on_rows: Callable[[int], object] = lambda count: None,
) -> list[int | None]:
    """Write one data file, a row group a table; give the offset of each image, None where there are none.

    Images stay as they are, all else is compressed.
    """
    compression = dict.fromkeys(schema.names, "zstd")
    name = schema.names[-1]
    images = schema.field(-1).type == FEATURE_TYPES["image"]
    if images:
        del compression[name]
        compression |= {f"{name}.bytes": "none", f"{name}.path": "zstd"}
    offsets: list[int | None] = []
    with (
        whole_file(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pq.ParquetWriter(
            sink,
            schema,
            compression=compression,
            **_options(schema),
            use_content_defined_chunking=True,
        ) as writer,
        temporary.open("rb") as written,
    ):
        for group in groups:
            start = sink.tell()
            writer.write_table(group, row_group_size=len(group))
            if images:
                written.seek(start)
                of_group = group[name].combine_chunks().field("bytes")
                offsets += _offsets(path, start, written.read(sink.tell() - start), of_group)
            else:
                offsets += [None] * len(group)
            on_rows(len(group))
    return offsets


def write_metadata(path: Path, table: pa.Table) -> None:
    """Write one metadata file."""
    with whole_file(path) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            row_group_size=METADATA_ROWS_PER_GROUP,
            **_options(table.schema, DIFFERENCES),
        )


def write_keys(path: Path, table: pa.Table) -> None:
    """Write one frozen canonical split: key, split, count."""
    with whole_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", use_dictionary=["split", "count"])


def rows_in(path: Path) -> int:
    """How many rows a Parquet file has."""
    rows: int = pq.read_metadata(path).num_rows
    return rows


def _in_pieces(
    order: Indices, lengths: Indices, read: Callable[[Indices], Sequence[bytes]]
) -> Iterator[bytes]:
    """The examples of rows in that order, read in pieces that fit into memory."""
    ends = np.cumsum(lengths, dtype=np.int64)
    cuts = np.flatnonzero(np.diff(ends // BYTES_AT_ONCE)) + 1
    for piece in np.split(order, cuts):
        yield from read(piece)


def _row_groups(
    plain: pa.Table, shard: Sequence[Indices], examples: Iterator[bytes], schema: pa.Schema, roles: Roles
) -> Iterator[pa.Table]:
    start = 0
    for group in shard:
        part = plain.slice(start, len(group))
        start += len(group)
        arrays = _example_columns(roles, part["key"].to_pylist(), [next(examples) for _ in group])
        yield pa.table([*part.columns, *arrays], schema=schema)


def _example_columns(roles: Roles, keys: Sequence[str], encoded: Sequence[bytes]) -> list[pa.Array]:
    """The columns of some encoded examples."""
    if roles.modality == "text":
        return [pa.array([data.decode() for data in encoded], pa.string())]
    if roles.modality == "table":
        values = [json.loads(data) for data in encoded]
        types = [example_type(feature) for feature in roles.example.values()]
        return [pa.array([row[number] for row in values], kind) for number, kind in enumerate(types)]
    names = [f"{key}{_suffix(data)}" for key, data in zip(keys, encoded, strict=True)]
    parts = [pa.array(encoded, pa.binary()), pa.array(names, pa.string())]
    return [pa.StructArray.from_arrays(parts, fields=list(FEATURE_TYPES["image"]))]


def _suffix(image: bytes) -> str:
    """The ending of an image's file name, by how its bytes begin."""
    if image[:2] not in SUFFIXES:
        raise IntegrityError("an image is neither JPEG nor PNG, the only formats that shiftdata writes")
    return SUFFIXES[image[:2]]


def _offsets(path: Path, start: int, content: bytes, images: pa.Array) -> Iterator[int]:
    """Where each image begins in a file, from the bytes of its row group."""
    position = 0
    for number, image in enumerate(images.to_pylist()):
        at = content.find(image, position)
        if at < 0:
            raise IntegrityError(
                f"{path}: image {number} of a row group is not in the file as it was encoded"
            )
        yield start + at
        position = at + len(image)


def _terms_of_rows(rows: pa.Table) -> dict[tuple[str, str], int]:
    """How many rows carry each licence and attribution."""
    counts = rows.group_by(["license", "attribution"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["license"], row["attribution"]): row["count_all"] for row in counts}


def _origins_shared(rows: pa.Table, nuisance: str) -> bool:
    """Whether any origin occurs under several nuisances."""
    under = rows.group_by("origin").aggregate([(nuisance, "count_distinct")])[f"{nuisance}_count_distinct"]
    return bool((pc.max(under).as_py() or 0) > 1)


def first_row(path: Path) -> dict[str, Any]:
    """The first row of a data file as it is loaded, but for an image."""
    with pq.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if name != "image"]
        (row,) = next(file.iter_batches(batch_size=1, columns=names)).to_pylist()
    return dict(row)


def _options(schema: pa.Schema, encodings: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Which columns get statistics, which a dictionary, and which another encoding."""
    return {
        "write_statistics": [name for name in schema.names if name not in UNFILTERED],
        "use_dictionary": [name for name in schema.names if name not in DISTINCT | set(encodings)],
        "column_encoding": {name: one for name, one in encodings.items() if name in schema.names},
    }
