"""Tasks as files: the keys of each set, how often each was drawn, and the roles of the sets."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.paths import in_order, row_files
from shiftdata.data.format.schema import FROZEN
from shiftdata.data.format.typed import record
from shiftdata.data.format.writer import KEYS_PER_GROUP, write_keys
from shiftdata.data.metadata import Metadata
from shiftdata.data.metadata.columns import as_array, check_draws, read_columns
from shiftdata.data.metadata.texts import joined_texts, text_order
from shiftdata.errors import InputError, IntegrityError, NotFoundError
from shiftdata.evaluation.tasks.sets import Indices, Role, RowSet
from shiftdata.untrusted.parquet import ParquetReader
from shiftdata.untrusted.texts import read_json

KEY = b"shiftdata"


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """The description in the file of a frozen task: its dataset, metrics, and the roles of its sets."""

    dataset: str = ""
    base: str = ""
    history: tuple[str, ...] = ()
    roles: Mapping[str, tuple[Role, ...]] = field(default_factory=dict)
    sides: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    #: The numbers of the groups that a set should have and does not.
    empty: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Frozen:
        """Read the description in a file; empty if another program wrote the file."""
        with _opened(path) as file:
            text = (file.schema.metadata or {}).get(KEY)
        if text is None:
            return cls()
        try:
            return record(cls, read_json(text))
        except ValueError as error:
            raise InputError(
                f"{path} was frozen by another version of shiftdata ({error}): freeze the task again"
            ) from error


def freeze(
    metadata: Metadata,
    sets: Mapping[str, RowSet],
    path: Path | None = None,
    about: Frozen | None = None,
) -> str:
    """Write each set in the order of its keys: key, split (the set's name), count. Return the content hash.

    Without a path only the hash is made. One set after the other is sorted: what is in memory are its keys.
    """
    roles = json.dumps({name: list(sets[name].roles) for name in sorted(sets)}).encode()
    digest = hashlib.sha256(b"%d:%s%d:" % (len(roles), roles, _length(metadata, sets)))
    begun = False

    def passing() -> Iterator[pa.Table]:
        nonlocal begun
        for table in _sorted_keys(metadata, sets):
            texts = (table["split"], table["key"], table["count"].cast(pa.string()))
            for chunk in pc.binary_join_element_wise(
                "", pc.binary_join_element_wise(*texts, "\t"), "\n"
            ).chunks:
                ends = np.frombuffer(chunk.buffers()[1], np.int32)[[chunk.offset, chunk.offset + len(chunk)]]
                digest.update(memoryview(chunk.buffers()[2])[ends[0] + (not begun) : ends[1]])
                begun = True
            yield table if about is None else table.replace_schema_metadata({KEY: json.dumps(asdict(about))})

    if path is None:
        deque(passing(), maxlen=0)
    else:
        write_keys(path, passing())
    return digest.hexdigest()


def _length(metadata: Metadata, sets: Mapping[str, RowSet]) -> int:
    """Return the bytes of the text that is hashed: a line for each row of a set."""
    total = -1  # no line ends after the last one
    for name, rows in sets.items():
        for at, block in metadata.blocks(["key"], rows.indices):
            counts = pa.array(np.ones(len(block), np.int64) if rows.counts is None else rows.counts[at])
            lengths = (pc.binary_length(block["key"]), pc.binary_length(counts.cast(pa.string())))
            total += sum(pc.sum(length).as_py() or 0 for length in lengths)
            total += len(block) * (len(name.encode()) + 3)
    return max(0, total)


def _sorted_keys(metadata: Metadata, sets: Mapping[str, RowSet]) -> Iterator[pa.Table]:
    for name, rows in sets.items():
        counts = np.ones(len(rows.indices), np.int64) if rows.counts is None else rows.counts
        keys = metadata.keys(rows.indices)
        order = text_order(keys)
        for start in range(0, max(1, len(order)), KEYS_PER_GROUP):
            group = order[start : start + KEYS_PER_GROUP]
            columns = {
                "key": keys.take(pa.array(group)).cast(pa.string()),
                "split": pa.repeat(name, len(group)),
                "count": pa.array(counts[group], pa.int32()),
            }
            yield pa.table(columns)


def read_frozen(metadata: Metadata, path: Path) -> tuple[Frozen, dict[str, tuple[Indices, Indices | None]]]:
    """Read a frozen task: the rows of each set, and how often each was drawn where that is not once."""
    names: dict[str, int] = {}
    keys, of_set, counts = [], [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for table in _tables(path):
        keys += table["key"].chunks
        number, splits = _encoded(table["split"])
        known = [names.setdefault(name, len(names)) for name in splits.to_pylist()]
        of_set.append(np.array(known, np.int32)[number])
        counts.append(as_array(table["count"]))
    texts = joined_texts(pa.chunked_array(keys, pa.string()))
    keys.clear()  # each copy of all keys may be gigabytes
    rows, sets, times = metadata.rows_of(texts), np.concatenate(of_set), np.concatenate(counts)
    if missing := int(np.count_nonzero(rows < 0)):
        raise InputError(
            f"{missing} keys of {path} are not in {metadata.name}, such as "
            f"{texts[int(np.argmax(rows < 0))].as_py()!r}: give the base that the task was frozen from"
        )
    parts = {name: sets == number for name, number in names.items()}
    return Frozen.read(path), {
        name: _in_order(rows[mask], times[mask], len(metadata)) for name, mask in parts.items()
    }


def _in_order(rows: Indices, counts: NDArray[np.int32], size: int) -> tuple[Indices, Indices | None]:
    """Return the rows of a set in their order, and how often each was drawn where that is not once."""
    drawn = np.zeros(size, np.int32)
    drawn[rows] = counts
    indices = np.flatnonzero(drawn)
    if len(indices) < len(rows):  # a row is there twice
        order = np.argsort(rows, kind="stable")
        indices, counts = rows[order], counts[order]
    else:
        counts = drawn[indices]
    return indices, counts.astype(np.int64) if (counts != 1).any() else None


def drawn_rows(dataset: OpenDataset, base: str) -> dict[str, tuple[Indices, Indices | None]]:
    """Return the rows of each set of a task in tars, and how often each was drawn where that is not once.

    Of the samples of a row that was drawn several times, the first represents all.
    """
    manifest, sets, start = dataset.manifest, {}, 0
    splits = manifest.base(base).splits
    for name in in_order(splits):
        paths = row_files(manifest.files, base, name)
        drawn = pa.concat_tables([read_columns(dataset, path, ["count", "copy"]) for path in paths])
        first = np.flatnonzero(as_array(drawn["copy"]) == 1)
        counts = as_array(drawn["count"])[first].astype(np.int64)
        if len(drawn) != splits[name].rows or counts.sum() != len(drawn):
            raise IntegrityError(
                f"{dataset.address}: index/{base} does not have the {splits[name].rows:,} samples of {name}: "
                "fetch or export it again"
            )
        sets[name] = (start + first, counts if (counts != 1).any() else None)
        start += len(drawn)
    return sets


def _tables(path: Path) -> Iterator[pa.Table]:
    """The rows of a frozen task, an eighth of its row groups at a time: all keys at once need much memory."""
    with _opened(path) as file:
        groups = range(len(file.group_rows))
        step = max(1, len(groups) // 8)
        for start in groups[::step]:
            table = file.read(FROZEN.names, groups[start : start + step]).cast(FROZEN)
            if any(column.null_count for column in table.columns):
                raise InputError(f"{path} has a row without key, split or count: freeze the task again")
            check_draws(table["count"], str(path))
            yield table


def _encoded(texts: pa.ChunkedArray) -> tuple[Indices, pa.Array]:
    """Return the number of each text, by first occurrence, and the different texts."""
    none = pa.nulls(0, pa.large_string())
    encoded = pa.chunked_array([none, *texts.cast(pa.large_string()).chunks]).dictionary_encode().chunks
    if not encoded:  # of a file without rows
        return np.empty(0, np.int64), none
    numbers = np.concatenate([as_array(chunk.indices) for chunk in encoded])
    return numbers, encoded[0].dictionary  # each chunk has the same


@contextmanager
def _opened(path: Path) -> Iterator[ParquetReader]:
    if not path.exists():
        raise NotFoundError(
            f"there is no frozen task {path}: `shiftdata task DATASET PROTOCOL ... --freeze {path}` writes it"
        )
    try:
        with ParquetReader(path) as file:
            yield file
    except (OSError, IntegrityError, pa.ArrowException) as error:
        raise InputError(
            f"{path} is not a frozen task with the columns key, split, count: {error}"
        ) from error
