"""Rows of a base found by a text and put in an order, within bounds of time and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.paths import in_order
from shiftdata.data.format.schema import Feature
from shiftdata.data.loading.byte_ranges.layout import shards_of
from shiftdata.data.metadata.columns import read_columns
from shiftdata.errors import InputError, not_found

if TYPE_CHECKING:
    from shiftdata.serve.pages.rows import Rows

Mask = NDArray[np.bool_]

#: Characters of a text that is searched for.
MOST_SEARCHED = 200
#: Rows of a base whose keys are searched, and that are put in an order.
MOST_FOUND = 2_000_000
#: Bytes of a base's texts, or of its features as JSON, for them to be searched too.
MOST_TEXT = 1 << 26


@lru_cache(maxsize=8)  # a reader turns the pages of a search
def matching(rows: Rows, text: str) -> Mask:
    """Mark the rows with a text in their key, origin, label, nuisance, or example; case does not count."""
    if len(text) > MOST_SEARCHED:
        raise InputError(f"a search for {len(text):,} characters: at most {MOST_SEARCHED} are searched for")
    text, known = text.strip().lower(), rows.metadata
    _check_size(rows, "searched")
    mask: Mask = _contain(_keys(rows), text)
    for names, codes in (
        (known.origin_names, known.origin),
        (pa.array(known.labels, pa.string()), known.label),
        (pa.array(known.nuisances, pa.string()), known.nuisance),
    ):
        mask |= np.append(_contain(pc.utf8_lower(names), text), False)[codes]  # -1: has none
    if searches_examples(rows):
        mask |= _contain(_examples(rows), text)
    return mask


def searches_examples(rows: Rows) -> bool:
    """Return True if texts or features are searched: there are some, and not too many."""
    manifest = rows.dataset.manifest
    if rows.modality == "image" or not manifest.pixels_included or manifest.is_webdataset:
        return False
    return bool(rows.lengths.sum(dtype=np.int64) <= MOST_TEXT)


@lru_cache(maxsize=8)  # 8 MB each for a million rows
def ordered(rows: Rows, sort: str) -> IntArray:
    """Return all rows ordered by a column, downwards with a `-` before its name; missing values come last."""
    name, columns = sort.removeprefix("-"), _sortable(rows)
    if name not in columns:
        raise not_found("column to sort by", name, columns)
    _check_size(rows, "sorted")
    values = columns[name]()
    order = rows.order
    values = values.take(pa.array(order)) if isinstance(values, pa.Array) else pa.array(values[order])
    direction = "descending" if sort.startswith("-") else "ascending"
    places = pc.array_sort_indices(values, order=direction, null_placement="at_end")  # stable
    result: IntArray = order[places.to_numpy().astype(np.int64)]
    return result


def _check_size(rows: Rows, done: str) -> None:
    if (count := len(rows.metadata)) > MOST_FOUND:
        raise InputError(f"{rows.base} has {count:,} rows: bases of at most {MOST_FOUND:,} are {done}")


def _sortable(rows: Rows) -> dict[str, Callable[[], pa.Array | NDArray[np.generic]]]:
    """Return the columns by which rows are sorted, each with the function that reads its values."""
    known, manifest = rows.metadata, rows.dataset.manifest
    columns: dict[str, Callable[[], pa.Array | NDArray[np.generic]]] = {
        "key": lambda: _keys(rows),
        "label": lambda: _by_name(known.labels, known.label),
        known.nuisance_column: lambda: _by_name(known.nuisances, known.nuisance),
        "split": lambda: known.columns["split"],
        "severity": lambda: known.columns["severity"],
        "origin": lambda: _by_name(known.origin_names, known.origin),
        "license": lambda: _by_name(rows.licenses, rows.license),
    }
    if manifest.pixels_included and not manifest.is_webdataset:
        columns["length"] = lambda: rows.lengths
        if rows.modality == "table":
            for name, feature in manifest.roles.example.items():
                columns[name] = partial(_feature, rows, name, feature)
    return columns


def _by_name(names: Sequence[str] | pa.Array, codes: IntArray) -> pa.Array:
    """Return the place of each row's name in the order of names; null without a name (-1)."""
    places = np.zeros(len(names) + 1, np.int64)
    places[pc.array_sort_indices(pa.array(names, pa.large_string())).to_numpy()] = np.arange(len(names))
    return pa.array(places[codes], mask=codes < 0)


def _feature(rows: Rows, name: str, feature: Feature) -> pa.Array:
    values = _column(rows, name)
    if isinstance(feature, str):
        return values
    return _by_name(feature, pc.fill_null(values, -1).to_numpy())


def _column(rows: Rows, name: str) -> pa.Array:
    """Read a column of the examples, in the order of the rows."""
    dataset, base = rows.dataset, rows.base
    splits = in_order(dataset.manifest.base(base).splits)
    paths = [shard.path for shard in shards_of(dataset.manifest.files, base, splits)]
    column = pa.chunked_array(
        [chunk for path in paths for chunk in read_columns(dataset, path, [name])[name].chunks]
    )
    if len(column) != len(rows.metadata):
        raise dataset.damaged(
            f"the data of {base} have {len(column):,} rows, and its metadata {len(rows.metadata):,}"
        )
    return (column.cast(pa.large_string()) if pa.types.is_string(column.type) else column).combine_chunks()


@lru_cache(maxsize=2)
def _keys(rows: Rows) -> pa.Array:
    parts = [part["key"].cast(pa.large_string()) for _, part in rows.metadata.blocks(["key"])]
    return pa.chunked_array(
        [chunk for part in parts for chunk in part.chunks], pa.large_string()
    ).combine_chunks()


@lru_cache(maxsize=2)
def _examples(rows: Rows) -> pa.Array:
    """Return the texts, or the features of each row in lines, in lower case."""
    texts = []
    for name, feature in rows.dataset.manifest.roles.example.items():
        values = _column(rows, name)
        if not isinstance(feature, str):
            values = pa.array(feature, pa.large_string()).take(values)
        texts.append(pc.utf8_lower(pc.fill_null(values.cast(pa.large_string()), "")))
    return (
        texts[0]
        if len(texts) == 1
        else pc.binary_join_element_wise(*texts, pa.scalar("\n", pa.large_string()))
    )


def _contain(texts: pa.Array, text: str) -> Mask:
    mask: Mask = pc.fill_null(pc.match_substring(texts, text), False).to_numpy(zero_copy_only=False)
    return mask
