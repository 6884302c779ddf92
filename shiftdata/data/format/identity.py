"""The identity of a dataset, independent of its files: a hash over names, rows and what was dropped."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.stable import content_hash

if TYPE_CHECKING:
    from shiftdata.data.format.manifest import Manifest
    from shiftdata.data.format.records import Base

#: The identity of a row: these columns and its nuisance; `group` and `params` follow from them or the recipe.
COLUMNS: dict[str, pa.DataType] = {
    "key": pa.large_binary(),
    "label": pa.int64(),
    "severity": pa.float64(),
    "origin": pa.large_binary(),
    "split": pa.large_binary(),
    "fold": pa.int64(),
    "quantile": pa.float64(),
    "license": pa.large_binary(),
    "attribution": pa.large_binary(),
    "sha256": pa.large_binary(),
}


def base_content_id(rows: pa.Table, manifest: Manifest, base: Base) -> str:
    """Return the identity of a base: its rows in any order, the names of their numbers, and what was dropped.

    Of `manifest`, the lists of labels and nuisances count, in their order; of `base`, what was dropped.
    """
    return content_hash(*_names_ids(manifest), base.dropped_id, _rows_id(rows, _columns(manifest)))


def task_content_id(
    sets: Mapping[str, pa.Table], manifest: Manifest, roles: Mapping[str, Sequence[str]]
) -> str:
    """Return the identity of a task in tars: the roles and samples of each set in any order, and the names.

    Every sample of a row that was drawn several times has the row's `count`.
    """
    counted = {**_columns(manifest), "count": pa.int64()}
    ids = [content_hash(name, *roles[name], _rows_id(sets[name], counted)) for name in sorted(sets)]
    return content_hash(*_names_ids(manifest), *ids)


def _names_ids(manifest: Manifest) -> tuple[str, str]:
    return content_hash(*manifest.labels), content_hash(*manifest.nuisances)


def _columns(manifest: Manifest) -> dict[str, pa.DataType]:
    return COLUMNS | {manifest.roles.nuisance: pa.int64()}


def dataset_content_id(bases: Iterable[Base]) -> str:
    """Return the identity of a dataset: those of its bases, by name."""
    return content_hash(*sorted(f"{base.name}={base.content_id}" for base in bases))


def dropped_id(dropped: Iterable[tuple[str, str]]) -> str:
    """Return the identity of what was dropped, from (key, reason) pairs; empty for none.

    >>> dropped_id([]), dropped_id([("a", "too small"), ("b", "empty")])[:8]
    ('', 'ef78fd3b')
    """
    pairs = sorted(dropped)
    return content_hash(*(text for pair in pairs for text in pair)) if pairs else ""


def _rows_id(rows: pa.Table, columns: Mapping[str, pa.DataType]) -> str:
    """Hash rows by key, column by column: equal for any order, chunks and dictionaries."""
    order = pc.sort_indices(_plain(rows["key"], columns["key"]))
    digest = hashlib.sha256()
    for position, (name, kind) in enumerate(columns.items()):
        column = _plain(rows[name].take(order), kind)
        missing = column.is_null().to_numpy(zero_copy_only=False)
        digest.update(b"%d:%d:" % (position, len(column)) + np.packbits(missing).tobytes())
        if pa.types.is_large_binary(kind):
            column = column.fill_null(b"")
            offsets = np.frombuffer(column.buffers()[1], dtype="<i8")[column.offset :][: len(column) + 1]
            digest.update(np.diff(offsets).tobytes())
            if column.buffers()[2] is not None:
                digest.update(memoryview(column.buffers()[2])[int(offsets[0]) : int(offsets[-1])])
        else:
            numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
            digest.update((numbers + numbers.dtype.type(0)).tobytes())  # -0.0 is 0.0
    return digest.hexdigest()


def _plain(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return a column in one chunk and of one type."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())  # a chunk may need more than 32-bit offsets
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    return column.cast(kind).combine_chunks() if column.num_chunks != 1 else column.cast(kind).chunk(0)
