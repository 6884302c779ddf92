"""Check an intact data file: its columns, each row and each example against the metadata."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import Roles, columns, data_schema, example_hashes
from shiftdata.data.verifying.files import LocalFile, Problem, Progress, first_line
from shiftdata.data.verifying.manifest import Shard
from shiftdata.data.verifying.tables import RowsInOrder, batches, differing, table_problems, unreadable
from shiftdata.threads import ahead, available_cores

#: Rows that are checked at a time: few where each is an image.
IMAGES_AT_A_TIME = 64
ROWS_AT_A_TIME = 5_000


def shard_problems(
    shard: Shard, local: LocalFile, metadata: LocalFile | None, manifest: Manifest, progress: Progress
) -> Iterator[Problem]:
    """Check an intact data file; without metadata, its columns alone."""
    readable, problems = table_problems(local, data_schema(manifest))
    yield from problems
    if not readable or local.file is None or metadata is None or metadata.file is None:
        return
    check = partial(_part_problems, local.file, shard.path, metadata.path, manifest)
    count = IMAGES_AT_A_TIME if manifest.roles.modality == "image" else ROWS_AT_A_TIME
    try:
        pairs = _paired(local.file, metadata.file, shard.first, count)
        for rows, problems in ahead(check, pairs, available_cores()):
            yield from problems
            progress.report("on_rows", rows)
    except (pa.ArrowException, OSError) as error:
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
    file: Path, path: str, source: str, manifest: Manifest, part: tuple[pa.Table, pa.Table]
) -> tuple[int, list[Problem]]:
    """Compare rows, in a thread; return their number and their problems."""
    data, meta = part
    mismatched = differing(data["key"], meta["key"])
    problems = [
        _problem(path, meta, row, f"has the key {data['key'][row].as_py()!r}, {source} has another", "order")
        for row in mismatched.tolist()
    ]
    if len(mismatched):
        matched = pa.array(set(range(len(data))) - set(mismatched.tolist()), pa.int64())
        data, meta = data.take(matched), meta.take(matched)
    for name in columns(manifest.roles.nuisance):
        for row in differing(data[name], meta[name]).tolist():
            text = f"has the {name} {data[name][row].as_py()!r}, {source} says {meta[name][row].as_py()!r}"
            problems.append(_problem(path, meta, row, text, f"other {name}"))
    problems += _example_problems(file, path, source, manifest, data, meta)
    return len(part[0]), problems


def _example_problems(
    file: Path, path: str, source: str, manifest: Manifest, data: pa.Table, meta: pa.Table
) -> Iterator[Problem]:
    """Check every example against its hash; an image is also read at its offset, and decoded."""
    images: list[bytes | None] = [None] * len(data)
    if manifest.roles.modality == "image":
        images = pc.struct_field(data[next(iter(manifest.roles.example))], "bytes").to_pylist()
        digests = [hashlib.sha256(image).digest() if image is not None else "it is empty" for image in images]
    else:
        digests = _digests(data, manifest.roles)
    pointers = meta.select(["offset", "length", "sha256"]).to_pylist()
    with file.open("rb", buffering=0) as stream:
        for row, (digest, image, pointer) in enumerate(zip(digests, images, pointers, strict=True)):
            if isinstance(digest, str):
                text = f"has no example, or none that can be hashed ({digest})"
                yield _problem(path, meta, row, text, "example")
            elif digest != pointer["sha256"]:
                listed = pointer["sha256"].hex() if pointer["sha256"] else "none"
                text = f"has an example of sha256 {digest.hex()}, {source} says {listed}"
                yield _problem(path, meta, row, text, "example")
            elif image is not None and _read(stream, pointer) != image:
                text = f"is not at byte offset {pointer['offset']} with length {pointer['length']}"
                yield _problem(path, meta, row, f"{text}, as {source} says", "offset")
            elif image is not None and (fault := _undecodable(image)):
                yield _problem(path, meta, row, f"has an image that cannot be decoded: {fault}", "decode")


def _digests(data: pa.Table, roles: Roles) -> list[bytes | str]:
    """Return the hash of each example, or the reason that it has none."""
    try:
        return list(example_hashes(data, roles))
    except Exception as error:  # an empty cell, or a value of another type
        if len(data) == 1:
            return [first_line(error)]
        return [digest for row in range(len(data)) for digest in _digests(data.slice(row, 1), roles)]


def _undecodable(image: bytes) -> str:
    try:
        with Image.open(io.BytesIO(image)) as picture:
            picture.load()
    except Exception as error:  # Pillow raises many kinds for bad pictures
        return re.sub("<.*?>", "it", first_line(error))  # without its address in memory
    return ""


def _read(stream: BinaryIO, pointer: dict[str, Any]) -> bytes:
    with suppress(OSError, OverflowError, TypeError, ValueError):
        stream.seek(pointer["offset"])
        return stream.read(pointer["length"])
    return b""


def _problem(path: str, meta: pa.Table, row: int, text: str, kind: str) -> Problem:
    return Problem(path, text, kind, meta["key"][row].as_py())
