"""Write a dataset's files: the only writer.

A build (`builders.make.pack`) and a fetched part (`shiftdata.data.fetching.part`) do the same::

    files = write_splits(folder, draft, "mini", {split: Ordered(...) for split in SPLITS})
    manifest = finished(folder, draft, {"mini": list(SPLITS)}, files)

Rows are read a stretch at a time, in the order of the files: no split is ever in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import DROPPED, data_file, metadata_file
from shiftdata.data.format.records import FileRecord
from shiftdata.data.format.schema import (
    FEATURE_TYPES,
    POINTER_COLUMNS,
    Roles,
    columns,
    data_schema,
    example_type,
    metadata_schema,
)
from shiftdata.errors import IntegrityError
from shiftdata.files import whole_file
from shiftdata.threads import ahead
from shiftdata.untrusted.texts import read_json

#: A row group is a stretch of one group, so that a filter skips the others: at most this much of it ...
ROWS_PER_GROUP = 40
BYTES_PER_GROUP = 1 << 20
#: The most rows of a row group: texts and features are small.
MOST_ROWS = {"image": ROWS_PER_GROUP, "text": 5000, "table": 5000}
#: ... and shorter stretches than this share one.
SMALL_STRETCH = 16
BYTES_PER_SHARD = 256 << 20
BYTES_OF_GROUP = 26 << 10  # the least that a row group counts: a footer, read as a whole, describes each
METADATA_ROWS_PER_GROUP = 20_000
METADATA_LEVEL = 9  # it is read from afar: keys take a third less than at level 1, for 3 microseconds a row
BYTES_AT_ONCE = 16 << 20  # that are read at once: examples, and the next number for a row's metadata
BYTES_OF_ROW = 512
OFFSET_BYTES = 4  # Arrow keeps a 32-bit offset beside each text or image, Parquet its length before it
SUFFIXES = {b"\xff\xd8": ".jpg", b"\x89P": ".png"}  # of an image's file name, by how its bytes begin
KEYS_PER_GROUP = 1 << 20

#: Nobody filters by these: statistics on them would only make the footer longer.
UNFILTERED = {"license", "attribution", "params", "image", "text", *POINTER_COLUMNS}
#: Nearly every row has its own value: a dictionary would only repeat them.
DISTINCT = {"key", "quantile", "params", "image", "text", "sha256", "offset"}
#: In metadata, neighbours differ by little: these take fewer bytes as differences.
DIFFERENCES = dict.fromkeys(("row", "offset", "length"), "DELTA_BINARY_PACKED")


@dataclass(frozen=True)
class Ordered:
    """The rows of a split in the order of its files, read by several threads.

    `lengths` has the bytes of each example, `groups` the rows of each row group. From a start to an end,
    `table` returns the columns of the metadata and `sha256`, and `examples` the encoded examples. `parts` has
    a number for each row group: a new file begins where it changes.
    """

    lengths: IntArray
    groups: IntArray
    table: Callable[[int, int], pa.Table]
    examples: Callable[[int, int], pa.Array]
    parts: Sequence[int] = ()

    @classmethod
    def of_table(
        cls,
        rows: pa.Table,
        groups: Sequence[IntArray],
        read: Callable[[IntArray], Sequence[bytes]],
        part_of: IntArray,
    ) -> Ordered:
        """Order rows by `groups`, those that share a row group; `read` returns their examples."""
        order = np.concatenate(groups)
        return cls(
            lengths=rows["length"].to_numpy().astype(np.int64)[order],
            groups=np.array([len(group) for group in groups]),
            table=lambda start, stop: rows.take(pa.array(order[start:stop])),
            examples=lambda start, stop: pa.array(read(order[start:stop]), pa.binary()),
            parts=[part_of[group[0]] for group in groups],
        )


@dataclass(frozen=True)
class Shard:
    """A data file: its split, the first of its rows there, and the rows of each row group."""

    path: str
    split: str
    start: int
    groups: IntArray


def write_splits(
    folder: Path, manifest: Manifest, base: str, splits: Mapping[str, Ordered], *, workers: int = 0
) -> dict[str, FileRecord]:
    """Write the data files and the metadata of splits of a base; return the record of each file.

    `manifest` may be a draft: only its roles, labels and nuisances count. Each of the `workers` writes a file
    at a time.
    """
    shards = [
        shard
        for split, rows in splits.items()
        for shard in shards_of(base, split, rows.lengths, rows.groups, rows.parts)
    ]
    offsets: dict[str, list[IntArray]] = {split: [] for split in splits}

    def write(shard: Shard) -> tuple[IntArray, FileRecord]:
        return write_shard(folder / shard.path, shard, splits[shard.split], manifest)

    def describe(split: str) -> FileRecord:
        path = folder / metadata_file(base, split)
        return write_pointers(path, splits[split], offsets[split], manifest)

    records: dict[str, FileRecord] = {}
    written = ahead(write, shards, workers, queued=len(shards))
    for shard, (places, record) in zip(shards, written, strict=True):
        offsets[shard.split].append(places)
        records[shard.path] = record
    for split, record in zip(splits, ahead(describe, splits, workers, queued=1), strict=True):
        records[metadata_file(base, split)] = record
    return records


def shards_of(
    base: str, split: str, lengths: IntArray, groups: IntArray, parts: Sequence[int]
) -> list[Shard]:
    """Cut a split into data files, by what `Ordered` has of it."""
    starts = np.cumsum(groups) - groups
    sections = np.split(np.add.reduceat(lengths, starts), np.flatnonzero(np.diff(parts)) + 1)
    new = [np.diff(cut_into_shards(sizes), prepend=-1) > 0 for sizes in sections if len(sizes)]
    cuts = np.flatnonzero(np.concatenate(new))[1:]
    firsts = [0, *starts[cuts].tolist()]
    return [
        Shard(data_file(base, split, shard, len(firsts)), split, first, of_shard)
        for shard, (first, of_shard) in enumerate(zip(firsts, np.split(groups, cuts), strict=True))
    ]


def write_dropped(folder: Path, dropped: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Write base, key and reason of everything that was dropped, if anything was."""
    rows = [(base, *pair) for base, pairs in dropped.items() for pair in sorted(pairs)]
    if rows:
        columns_ = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        write_metadata(folder / DROPPED, [pa.table(columns_, names=["base", "key", "reason"])])


def within_limits(rows: IntArray, sizes: IntArray, most_rows: int) -> list[IntArray]:
    """Cut rows into stretches of about equal length below the limits of rows and bytes."""
    count = max(1, -(-len(rows) // most_rows))
    while True:
        pieces = np.array_split(rows, count)
        if count >= len(rows) or max(sizes[piece].sum() for piece in pieces) <= BYTES_PER_GROUP:
            return pieces
        count += 1


def row_groups_in_order(rows: pa.Table, shard: IntArray, most: int) -> list[IntArray]:
    """Cut rows of metadata into row groups in their order, which is that of the whole: by shard and group."""
    ends = np.cumsum(rows["length"].to_numpy().astype(np.int64))
    groups, start, before = [], 0, 0
    while start < len(ends):
        fits = int(np.searchsorted(ends, before + BYTES_PER_GROUP, side="right"))
        same = int(np.searchsorted(shard, shard[start], side="right"))
        stop = min(max(fits, start + 1), start + most, same)
        groups.append(np.arange(start, stop))
        start, before = stop, int(ends[stop - 1])
    return groups


def cut_into_shards(sizes: IntArray) -> IntArray:
    """Return the shard of each of these consecutive row groups, with about equal bytes a shard."""
    sizes = np.maximum(sizes, BYTES_OF_GROUP)
    total = int(sizes.sum())
    shards = max(1, -(-total // BYTES_PER_SHARD))
    ends = np.cumsum(sizes) - sizes / 2
    numbers = np.minimum((ends * shards // max(1, total)).astype(int), shards - 1)
    return np.unique(numbers, return_inverse=True)[1]


def write_shard(path: Path, shard: Shard, rows: Ordered, manifest: Manifest) -> tuple[IntArray, FileRecord]:
    """Write a data file; return the offset of each image, -1 if there are none.

    Texts are compressed; images are not, nor are numbers, which are few in a row group.
    """
    schema = data_schema(manifest.roles, manifest.labels, manifest.nuisances)
    compression = {
        name: "zstd" if pa.types.is_string(schema.field(name).type) else "none" for name in schema.names
    }
    name = schema.names[-1]
    images = schema.field(-1).type == FEATURE_TYPES["image"]
    if images:
        del compression[name]
        compression |= {f"{name}.bytes": "none", f"{name}.path": "zstd"}
    offsets: list[IntArray] = []

    def on_group(group: pa.Table, start: int, content: bytearray) -> None:
        places = np.full(len(group), -1)
        if images:
            places = start + _offsets(path, content, pc.struct_field(group[name].combine_chunks(), "bytes"))
        offsets.append(places)

    groups = _row_groups(rows, shard, schema, manifest.roles)
    record = _write(path, schema, groups, {"compression": compression, **_options(schema, {})}, on_group)
    return np.concatenate(offsets), record


def write_metadata(path: Path, tables: Iterable[pa.Table]) -> FileRecord:
    """Write a metadata file, of one table or of several of `METADATA_ROWS_PER_GROUP` rows."""
    count = METADATA_ROWS_PER_GROUP
    pieces = (table.slice(start, count) for table in tables for start in range(0, len(table), count))
    first = next(pieces)
    options = _options(first.schema, DIFFERENCES) | {"compression_level": METADATA_LEVEL}
    return _write(path, first.schema, chain([first], pieces), options | {"compression": "zstd"})


def _write(
    path: Path,
    schema: pa.Schema,
    groups: Iterable[pa.Table],
    options: Mapping[str, Any],
    on_group: Callable[[pa.Table, int, bytearray], object] = lambda group, start, content: None,
) -> FileRecord:
    """Write a Parquet file, a row group a table, and hash it meanwhile.

    `on_group` gets each table, the offset of its bytes in the file, and a buffer that begins with them.
    """
    digest, end, rows, content = hashlib.sha256(), 0, 0, bytearray()
    with (
        whole_file(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        temporary.open("rb", buffering=0) as written,
    ):
        with pq.ParquetWriter(sink, schema, **options) as writer:
            for group in groups:
                writer.write_table(group, row_group_size=len(group))
                size = sink.tell() - end
                content += bytes(max(0, size - len(content)))
                with memoryview(content)[:size] as new:
                    written.readinto(new)
                    digest.update(new)
                on_group(group, end, content)
                end, rows = end + size, rows + len(group)
        footer = written.read()
        digest.update(footer)
    return FileRecord(bytes=end + len(footer), sha256=digest.hexdigest(), rows=rows)


def write_keys(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write a frozen canonical split: key, split, count."""
    options = {"compression": "zstd", "use_dictionary": ["split", "count"]}
    pieces = iter(tables)
    waiting = next(pieces)
    with whole_file(path) as temporary, pq.ParquetWriter(temporary, waiting.schema, **options) as writer:
        for table in chain([waiting.slice(0, 0)], pieces):
            waiting = pa.concat_tables([waiting, table])
            if full := len(waiting) // KEYS_PER_GROUP * KEYS_PER_GROUP:
                writer.write_table(waiting.slice(0, full), row_group_size=KEYS_PER_GROUP)
                waiting = waiting.slice(full)
        writer.write_table(waiting, row_group_size=KEYS_PER_GROUP)


def _row_groups(rows: Ordered, shard: Shard, schema: pa.Schema, roles: Roles) -> Iterator[pa.Table]:
    """Yield the row groups of a data file; the next ones are made while the caller writes."""
    ends = np.cumsum(shard.groups)
    sizes = rows.lengths[shard.start : shard.start + ends[-1]] + BYTES_OF_ROW
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes)[ends - 1] // BYTES_AT_ONCE)) + 1
    stretches = np.split(shard.groups, cuts)
    bounds = pairwise(accumulate((int(groups.sum()) for groups in stretches), initial=shard.start))

    def make(bound: tuple[int, int]) -> pa.Table:
        table, examples = rows.table(*bound), rows.examples(*bound)
        described = [table[name] for name in columns(roles.nuisance)]
        encoded = _example_columns(roles, table["key"].combine_chunks(), examples)
        return pa.table([*described, *encoded], schema=schema).combine_chunks()

    with closing(ahead(make, bounds, 1, queued=1)) as tables:
        for table, groups in zip(tables, stretches, strict=True):
            for end, count in zip(np.cumsum(groups).tolist(), groups.tolist(), strict=True):
                yield table.slice(end - count, count)


def write_pointers(
    path: Path,
    rows: Ordered,
    offsets: Sequence[IntArray],
    manifest: Manifest,
    on_table: Callable[[pa.Table], object] = lambda table: None,
) -> FileRecord:
    """Write the metadata of a split whose examples were written at these offsets of each data file.

    `on_table` is called with each stretch of it.
    """
    schema = metadata_schema(manifest.roles, manifest.labels, manifest.nuisances)
    return write_metadata(path, _each(_pointed(rows, offsets, schema, manifest), on_table))


def _each(tables: Iterable[pa.Table], on_table: Callable[[pa.Table], object]) -> Iterator[pa.Table]:
    for table in tables:
        on_table(table)
        yield table


def _pointed(
    rows: Ordered, offsets: Sequence[IntArray], schema: pa.Schema, manifest: Manifest
) -> Iterator[pa.Table]:
    """Yield the metadata of a split whose examples were written at these offsets of each shard."""
    counts = [len(of_shard) for of_shard in offsets]
    shard = np.repeat(np.arange(len(counts)), counts)
    row = np.concatenate([np.arange(count) for count in counts])
    offset = np.concatenate(offsets)
    for start in range(0, len(shard), METADATA_ROWS_PER_GROUP):
        mine = slice(start, start + METADATA_ROWS_PER_GROUP)
        table = rows.table(start, min(mine.stop, len(shard)))
        made = {
            "shard": pa.array(shard[mine], pa.int32()),
            "row": pa.array(row[mine], pa.int32()),
            "offset": pa.array(offset[mine], pa.int64(), mask=offset[mine] < 0),
            "length": pa.array(rows.lengths[mine], pa.int32()),
            "sha256": table["sha256"].cast(pa.binary()),
        } | _names(table, manifest)
        arrays = [made[name] if name in made else table[name] for name in schema.names]
        yield pa.table(arrays, schema=schema).combine_chunks()


def _names(table: pa.Table, manifest: Manifest) -> dict[str, pa.ChunkedArray]:
    """Return the columns of names; their dictionaries have the names of these rows alone."""
    values = zip(("label", manifest.roles.nuisance), (manifest.labels, manifest.nuisances), strict=True)
    return {
        f"{column}_name": pa.array(names, pa.string()).take(table[column]).dictionary_encode()
        for column, names in values
    }


def _example_columns(roles: Roles, keys: pa.StringArray, encoded: pa.BinaryArray) -> list[pa.Array]:
    if roles.modality == "text":
        return [encoded.cast(pa.string())]
    if roles.modality == "table":
        values = list(map(read_json, encoded.to_pylist()))
        types = [example_type(feature) for feature in roles.example.values()]
        return [pa.array([row[number] for row in values], kind) for number, kind in enumerate(types)]
    begins = pc.index_in(pc.binary_slice(encoded, 0, 2), pa.array(list(SUFFIXES), pa.binary()))
    if begins.null_count:
        raise IntegrityError("an image is neither JPEG nor PNG, the only formats that shiftdata writes")
    names = pc.binary_join_element_wise(keys, pa.array(SUFFIXES.values(), pa.string()).take(begins), "")
    return [pa.StructArray.from_arrays([encoded, names], fields=list(FEATURE_TYPES["image"]))]


def _offsets(path: Path, content: bytearray, images: pa.BinaryArray) -> IntArray:
    """Return the offset of each image in the bytes of its row group."""
    bounds = np.frombuffer(images.buffers()[1], np.int32)[images.offset :][: len(images) + 1].astype(np.int64)
    data, lengths = memoryview(images.buffers()[2]), np.diff(bounds)
    # In a page, the length of each image comes before it: all follow from where the first begins.
    first = content.find(data[bounds[0] : bounds[1]])
    places: IntArray = first + bounds[:-1] - bounds[0] + OFFSET_BYTES * np.arange(len(images))
    if first >= OFFSET_BYTES and places[-1] + lengths[-1] <= len(content):
        at = places[:, None] - OFFSET_BYTES + np.arange(OFFSET_BYTES)
        written = np.frombuffer(content, np.uint8)[at].view("<u4").ravel()
        if (written == lengths).all() and content.startswith(data[bounds[-2] : bounds[-1]], int(places[-1])):
            return places
    return _searched(path, content, data, bounds)


def _searched(path: Path, content: bytearray, data: memoryview, bounds: IntArray) -> IntArray:
    """Find images, which begin and end at some bounds of `data`, in several pages."""
    end, places = 0, np.empty(len(bounds) - 1, np.int64)
    for number, (first, last) in enumerate(pairwise(bounds.tolist())):
        image, at = data[first:last], end + OFFSET_BYTES
        if not content.startswith(image, at):  # it begins a page
            at = content.find(image, end)
        if at < 0:
            raise IntegrityError(
                f"{path}: image {number} of a row group is not in the file as it was encoded"
            )
        places[number] = at
        end = at + len(image)
    return places


def _options(schema: pa.Schema, encodings: Mapping[str, str]) -> dict[str, Any]:
    """Choose the columns that get statistics, a dictionary, or another encoding."""
    return {
        "write_statistics": [name for name in schema.names if name not in UNFILTERED],
        "use_dictionary": [name for name in schema.names if name not in DISTINCT | set(encodings)],
        "column_encoding": {name: encodings[name] for name in encodings if name in schema.names},
    }
