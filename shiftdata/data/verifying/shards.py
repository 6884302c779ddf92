"""Check an intact data file: its columns, each row and each example against the metadata."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import Modality, columns, data_schema, example_bytes
from shiftdata.data.verifying.files import LocalFile, Problem, Progress, first_line
from shiftdata.data.verifying.manifest import Shard
from shiftdata.data.verifying.tables import RowsInOrder, batches, differing, table_problems, unreadable
from shiftdata.threads import ahead, available_cores

#: Rows that are checked at a time: few where each is an image.
IMAGES_AT_A_TIME = 64
ROWS_AT_A_TIME = 5_000


def shard_problems(
    shard: Shard, local: LocalFile, metadata: Path | None, manifest: Manifest, progress: Progress
) -> Iterator[Problem]:
    """Check an intact data file; without metadata, its columns alone."""
    problems = table_problems(local, data_schema(manifest))
    yield from problems
    if problems or local.file is None or metadata is None:
        return
    check = partial(_part_problems, local.file, shard.path, manifest)
    count = IMAGES_AT_A_TIME if manifest.roles.modality == "image" else ROWS_AT_A_TIME
    try:
        pairs = _paired(local.file, metadata, shard.first, count)
        for rows, problems in ahead(check, pairs, available_cores()):
            yield from problems
            progress.report("on_rows", rows)
    except (pa.ArrowException, OSError, ValueError) as error:  # the last: features that no JSON can have
        yield unreadable(shard.path, error)


def _paired(data: Path, metadata: Path, first: int, count: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield rows of a data file with their metadata."""
    with pq.ParquetFile(data) as file:
        described = RowsInOrder(metadata, first)
        for table in batches(file, range(file.num_row_groups), count):
            table.validate(full=True)
            meta = described.take(len(table))
            yield table.slice(0, len(meta)), meta  # fewer rows are a problem of their own


def _part_problems(
    file: Path, path: str, manifest: Manifest, part: tuple[pa.Table, pa.Table]
) -> tuple[int, list[Problem]]:
    """Compare rows, in a thread; return their number and their problems."""
    data, meta = part
    problems: list[Problem] = []
    for name in columns(manifest.roles.nuisance):
        for row in differing(data[name], meta[name]).tolist():
            given, stated = data[name][row].as_py(), meta[name][row].as_py()
            text = f"has the {name} {given!r}, its metadata says {stated!r}"
            problems.append(Problem(path, text, f"other {name}", meta["key"][row].as_py()))
        if name == "key" and problems:  # other rows, or in another order: nothing else of them is compared
            same = pc.equal(data["key"], meta["key"])
            data, meta = data.filter(same), meta.filter(same)
    with file.open("rb", buffering=0) as stream:
        pointers = meta.select(["key", "offset", "length", "sha256"]).to_pylist()
        for example, pointer in zip(example_bytes(data, manifest.roles), pointers, strict=True):
            if fault := _example_fault(example, pointer, stream, manifest.roles.modality):
                problems.append(Problem(path, fault, "example", pointer["key"]))
    return len(part[0]), problems


def _example_fault(
    example: bytes | None, pointer: Mapping[str, Any], stream: BinaryIO, modality: Modality
) -> str | None:
    """Check an example against its hash; an image is also read at its offset, and decoded."""
    if example is None or hashlib.sha256(example).digest() != pointer["sha256"]:
        return "has no example of the sha256 that its metadata says"
    if modality != "image":
        return None
    if _read(stream, pointer) != example:
        return f"is not at the byte offset {pointer['offset']} of its metadata, of length {pointer['length']}"
    fault = _undecodable(example)
    return f"has an image that cannot be decoded: {fault}" if fault else None


def _undecodable(image: bytes) -> str:
    try:
        with Image.open(io.BytesIO(image)) as picture:
            picture.load()
    except Exception as error:  # Pillow raises many kinds for bad pictures
        return re.sub("<.*?>", "it", first_line(error))  # without its address in memory
    return ""


def _read(stream: BinaryIO, pointer: Mapping[str, Any]) -> bytes:
    with suppress(OSError, OverflowError, TypeError, ValueError):
        stream.seek(pointer["offset"])
        return stream.read(pointer["length"])
    return b""
