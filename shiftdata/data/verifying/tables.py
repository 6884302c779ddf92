"""Check the Parquet files of a dataset: columns, number of rows, statistics, and each row of data files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.names import shown
from shiftdata.data.format.schema import Modality, columns, data_schema, example_bytes
from shiftdata.data.loading.byte_ranges.layout import Shard
from shiftdata.data.verifying.files import LocalFile, Problem, Progress, first_line
from shiftdata.errors import IntegrityError, LimitError
from shiftdata.threads import ahead, available_cores
from shiftdata.untrusted.pages import UnreadableError
from shiftdata.untrusted.parquet import ParquetReader, plain_texts, read_footer, read_parquet
from shiftdata.untrusted.pictures import open_picture
from shiftdata.untrusted.texts import read_json

BATCH_ROWS = 20_000


def table_problems(local: LocalFile, schema: pa.Schema) -> list[Problem]:
    """Return the reasons not to read the rows of an intact file by a schema."""
    if local.file is None:
        return []
    try:
        with ParquetReader(local.file) as file:
            file.check()
            stored, rows = file.schema, file.rows
    except IntegrityError as error:
        return [unreadable(local, error)]
    fault = None
    features, given, wanted = _features(stored), _columns(stored), _columns(schema)
    if given != wanted:
        more, fewer = ", ".join(set(given) - set(wanted)), ", ".join(set(wanted) - set(given))
        fault = f"has other columns than {', '.join(wanted)}: it lacks ({fewer}), and has ({more})"
    wrong = [name for name, feature in _features(schema).items() if features.get(name) != feature]
    if fault is None and wrong:
        fault = f"does not give `datasets` the features of {', '.join(wrong)}, such as class names"
    if fault is None and local.rows not in (None, rows):
        fault = f"has {rows} rows, the manifest says {local.rows}"
    return [Problem(local.path, fault, "columns")] if fault else []


def _columns(schema: pa.Schema) -> list[str]:
    return [shown(f"{field.name}: {field.type}") for field in schema]


def read_table(
    local: LocalFile, schema: pa.Schema, *, without: str = "", terms: Sequence[str] = ()
) -> tuple[pa.Table | None, list[Problem]]:
    """Read an intact file without the column `without`, or return its faults; `terms` as dictionaries."""
    problems = table_problems(local, schema)
    if local.file is None or problems:
        return None, problems
    names = [name for name in schema.names if name != without]
    try:
        table = read_parquet(local.file, names, coded=terms)
        table.validate(full=True)
    except (IntegrityError, pa.ArrowException) as error:
        return None, [unreadable(local, error)]
    return table.replace_schema_metadata(None), []


def unreadable(local: LocalFile, error: Exception) -> Problem:
    """Return the problem of a file that has its hash, and cannot be read."""
    text = str(error).removeprefix(f"{local.file.name if local.file else ''} ")
    if not isinstance(error, IntegrityError) or isinstance(error, UnreadableError):
        text = f"is not a readable Parquet file ({first_line(error)}): build the dataset again"
    return Problem(local.path, text, "unreadable")


class RowsInOrder:
    """The rows of a file from `first` on, a few at a time."""

    def __init__(self, file: Path, first: int) -> None:
        opened = ParquetReader(file)
        ends = np.cumsum([0, *opened.group_rows])
        group = int(np.searchsorted(ends, first, side="right")) - 1
        self._batches = opened.batches(None, BATCH_ROWS, range(group, len(opened.group_rows)))
        self._left = plain_texts(opened.schema.empty_table())
        self.take(first - int(ends[group]))

    def take(self, count: int) -> pa.Table:
        """Return the next rows; fewer at the end of the file."""
        while len(self._left) < count and (batch := next(self._batches, None)) is not None:
            self._left = pa.concat_tables([self._left, batch])
        rows, self._left = self._left.slice(0, count), self._left.slice(count)
        return rows


def differing(left: pa.ChunkedArray, right: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the positions at which two columns of one type differ."""
    if left.equals(right):
        return np.empty(0, dtype=np.int64)
    empty = pc.and_(pc.is_null(left), pc.is_null(right))
    same = pc.or_(empty, pc.fill_null(pc.equal(left, right), False))
    return np.flatnonzero(~same.to_numpy())


def integers(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the numbers of a column, 0 for null, and the mask of nulls."""
    return column.fill_null(0).to_numpy().astype(np.int64), column.is_null().to_numpy()


def _features(schema: pa.Schema) -> Mapping[str, tuple[str, Sequence[str]]]:
    """Return the features that `datasets` takes from a file, without what its versions write differently."""
    try:
        features = read_json((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: (feature["_type"], feature.get("names", ())) for name, feature in features.items()}
    except (LimitError, KeyError, ValueError, TypeError, AttributeError):
        return {}


def statistics_problems(path: str, file: Path, rows: pa.Table) -> Iterator[Problem]:
    """Check the least, greatest and missing values that each row group states against its `rows`, in order.

    Readers leave out row groups by them, so false ones hide rows.
    """
    footer, start = read_footer(file), 0
    for number in range(footer.num_row_groups if footer.num_rows == len(rows) else 0):
        group = footer.row_group(number)
        part = plain_texts(rows.slice(start, group.num_rows))
        start += group.num_rows
        for column in map(group.column, range(group.num_columns)):
            name, stated = column.path_in_schema, column.statistics
            if stated is not None and name in part.column_names and not _is_true(stated, part[name]):
                text = f"has false statistics of {name} in row group {number}: filters by it would lose rows"
                yield Problem(path, f"{text}; fetch it again, or build the dataset again", "statistics")


def _is_true(stated: Any, values: pa.ChunkedArray) -> bool:
    if stated.has_null_count and stated.null_count != values.null_count:
        return False
    least, greatest = pc.min_max(values).as_py().values()
    try:
        return not stated.has_min_max or least is None or stated.min <= least <= greatest <= stated.max
    except TypeError:  # of another type
        return False


#: Rows that are checked at a time: few where each is an image.
IMAGES_AT_A_TIME = 64
ROWS_AT_A_TIME = 5_000


def shard_problems(
    shard: Shard, local: LocalFile, metadata: Path | None, manifest: Manifest, progress: Progress
) -> Iterator[Problem]:
    """Check an intact data file; without metadata, its columns alone."""
    problems = table_problems(local, data_schema(manifest.roles, manifest.labels, manifest.nuisances))
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
    except (IntegrityError, pa.ArrowException, OSError, ValueError) as error:  # the last: of odd features
        yield unreadable(local, error)


def _paired(data: Path, metadata: Path, first: int, count: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield rows of a data file with their metadata."""
    with ParquetReader(data) as file:
        described = RowsInOrder(metadata, first)
        for table in file.batches(None, count):
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
        with open_picture(image, "it") as picture:
            picture.load()
    except IntegrityError as error:
        return first_line(error)
    return ""


def _read(stream: BinaryIO, pointer: Mapping[str, Any]) -> bytes:
    with suppress(OSError, OverflowError, TypeError, ValueError):
        stream.seek(pointer["offset"])
        return stream.read(pointer["length"])
    return b""
