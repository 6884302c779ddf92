"""Write some rows of a split as files of their own: data, and metadata that points into it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.errors import IntegrityError
from shiftdata.format.manifest import Manifest, Split
from shiftdata.format.schema import (
    POINTER_COLUMNS,
    Roles,
    columns,
    data_schema,
    example_type,
    metadata_schema,
)
from shiftdata.format.writer import (
    BYTES_PER_GROUP,
    BYTES_PER_SHARD,
    ROWS_PER_GROUP,
    SMALL_STRETCH,
    offsets,
    within_limits,
    write_metadata,
    write_shard,
)

Indices = NDArray[np.int64]

#: As a build cuts them: pictures of one group in short stretches, all else in long ones.
MOST_ROWS = {"image": ROWS_PER_GROUP, "text": 5000, "table": 5000}
#: About so many bytes of examples are asked for at once.
BYTES_AT_ONCE = 16 << 20
OFFSET_BYTES = 4  # Arrow keeps a 32-bit offset beside each text
SUFFIXES = {b"\xff\xd8": ".jpg", b"\x89P": ".png"}


def write_rows(
    folder: Path,
    manifest: Manifest,
    base: str,
    split: str,
    rows: pa.Table,
    read: Callable[[Indices], Sequence[bytes]],
) -> None:
    """Write rows of a split's metadata, in their order, with the examples that `read` gives by number."""
    schema = data_schema(manifest.roles, manifest.labels, manifest.nuisances)
    plain = list(columns(manifest.roles.nuisance))
    lengths = rows["length"].to_numpy().astype(np.int64)
    groups = _groups(rows["group"], lengths, manifest.roles.modality)
    shards = _cut(groups, lengths, BYTES_PER_SHARD)

    def tables(some: Sequence[Indices]) -> Iterator[pa.Table]:
        for together in _cut(some, lengths, BYTES_AT_ONCE):
            found = iter(read(np.concatenate(together)))
            for group in together:
                part = rows.select(plain).take(pa.array(group))
                examples = _arrays(manifest.roles, part["key"], [next(found) for _ in group])
                yield pa.table([*part.columns, *examples], schema=schema)

    where: list[int | None] = []
    for number, some in enumerate(shards):
        path = folder / f"data/{base}/{split}-{number:05d}-of-{len(shards):05d}.parquet"
        write_shard(path, schema, tables(some))
        count = sum(map(len, some))
        where += offsets(path, _images(path)) if manifest.roles.modality == "image" else [None] * count
    counts = [sum(map(len, some)) for some in shards]
    pointers = {
        "shard": pa.array(np.repeat(np.arange(len(shards)), counts), pa.int32()),
        "row": pa.array(np.concatenate([np.arange(count) for count in counts]), pa.int32()),
        "offset": pa.array(where, pa.int64()),
        "length": rows["length"],
        "sha256": rows["sha256"],
    }
    table = pa.table(
        [*(rows[name] for name in plain), *(pointers[name] for name in POINTER_COLUMNS)],
        schema=metadata_schema(manifest.roles, manifest.labels, manifest.nuisances),
    )
    write_metadata(folder / f"metadata/{base}/{split}.parquet", table)


def counted(rows: pa.Table, roles: Roles) -> Split:
    """How much some rows are, and how evenly they lie in their groups."""
    sizes = pc.value_counts(rows["group"].drop_null()).field("counts").to_numpy()
    return Split(
        rows=len(rows),
        bytes=_cell_bytes(rows, roles),
        groups=len(sizes),
        smallest=int(sizes.min()) if len(sizes) else 0,
        largest=int(sizes.max()) if len(sizes) else 0,
    )


def _groups(group: pa.ChunkedArray, lengths: Indices, modality: str) -> list[Indices]:
    """Cut rows into row groups, in their order, so that a filter by group skips what it can.

    Rows that stood in one row group of the whole are neighbours, and stay together as far as they fit.
    """
    most = MOST_ROWS[modality]
    runs = [np.arange(len(lengths))]
    if modality == "image":
        numbers = pc.fill_null(group, -1).to_numpy()
        runs = np.split(runs[0], np.flatnonzero(np.diff(numbers)) + 1)
    found: list[Indices] = []
    for run in runs:
        pieces = within_limits(run, lengths, most)
        last = found[-1] if found else None
        small = last is not None and max(len(last), len(run)) < SMALL_STRETCH
        if last is not None and small and lengths[last].sum() + lengths[run].sum() <= BYTES_PER_GROUP:
            found[-1] = np.concatenate([last, run])
        else:
            found += pieces
    return found


def _cut(groups: Sequence[Indices], lengths: Indices, most: int) -> list[list[Indices]]:
    """Consecutive row groups, as many as stay below a size."""
    found: list[list[Indices]] = []
    size = 0
    for group in groups:
        mine = int(lengths[group].sum())
        if not found or size + mine > most:
            found.append([])
            size = 0
        found[-1].append(group)
        size += mine
    return found


def _arrays(roles: Roles, keys: pa.ChunkedArray, examples: Sequence[bytes]) -> list[pa.Array]:
    """The columns of some examples."""
    if roles.modality == "text":
        return [pa.array([data.decode() for data in examples], pa.string())]
    if roles.modality == "table":
        told = [json.loads(data) for data in examples]
        kinds = [example_type(feature) for feature in roles.example.values()]
        return [pa.array([row[number] for row in told], kind) for number, kind in enumerate(kinds)]
    names = [f"{key}{_suffix(data)}" for key, data in zip(keys.to_pylist(), examples, strict=True)]
    images = [{"bytes": data, "path": name} for data, name in zip(examples, names, strict=True)]
    return [pa.array(images, example_type("image"))]


def _suffix(image: bytes) -> str:
    """The ending of an image's file name, by how it begins: metadata does not have it."""
    if image[:2] not in SUFFIXES:
        raise IntegrityError(
            "an image is neither JPEG nor PNG, as shiftdata writes them: fetch the whole base"
        )
    return SUFFIXES[image[:2]]


def _images(path: Path) -> Iterator[bytes]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(MOST_ROWS["image"], columns=["image.bytes"]):
            for row in batch.column(0).to_pylist():
                yield row["bytes"]


def _cell_bytes(rows: pa.Table, roles: Roles) -> int:
    """The bytes of some rows as `datasets` counts them: fixed widths, and texts with an offset."""
    size = int(pc.sum(rows["length"]).as_py() or 0)
    if roles.modality == "image":
        names = int(pc.sum(pc.binary_length(rows["key"])).as_py() or 0)
        total = size + names + len(rows) * (len(".jpg") + 2 * OFFSET_BYTES)
    else:
        texts = sum(feature == "string" for feature in roles.example.values())
        total = size + len(rows) * texts * OFFSET_BYTES if texts else len(rows) * 8 * len(roles.example)
    for name in columns(roles.nuisance):
        column = rows[name]
        if pa.types.is_string(column.type):
            total += int(pc.sum(pc.binary_length(column)).as_py() or 0) + OFFSET_BYTES * len(rows)
        else:
            total += column.type.bit_width // 8 * len(rows)
    return total
