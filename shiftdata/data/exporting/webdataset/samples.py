"""The contents of tars: whole bases and named sets of rows, with a row for each sample, and their order.

They are mixed, so that whoever reads from front to back sees about the whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.exporting.sets import NamedRows, NamedSets
from shiftdata.data.format.identity import base_content_id, task_content_id
from shiftdata.data.format.names import is_path_part
from shiftdata.data.format.paths import in_order, metadata_file
from shiftdata.data.format.records import Base, TaskOf
from shiftdata.data.format.schema import columns
from shiftdata.data.format.written import groups_of, row_bytes, size_of
from shiftdata.data.loading.byte_ranges.layout import sample_names
from shiftdata.data.metadata.columns import read_columns
from shiftdata.errors import InputError
from shiftdata.stable import uniform

#: What samples of an unlabelled set keep, next to their nuisance: nothing that tells one class from another.
SEEN = ("key", "severity", "sha256", "length", "count", "copy")
#: Returns the metadata of each split of a base.
RowsOf: TypeAlias = Callable[[str], Mapping[str, pa.Table]]


@dataclass(frozen=True)
class Samples:
    """The samples of one set: their rows as the index has them, and the positions of these in the base."""

    rows: pa.Table
    at: IntArray

    def take(self, places: IntArray) -> Samples:
        return Samples(self.rows.take(pa.array(places)), self.at[places])

    def names(self) -> list[str]:
        """Return the names of the samples, with which those of their members begin."""
        names: list[str] = sample_names(self.rows).to_pylist()
        return names


@dataclass(frozen=True)
class Entry:
    """One config of the tars: its record, the base of its rows, and a function that loads its sets."""

    record: Base
    base: Base
    load: Callable[[], Mapping[str, Samples]]


def _rows_of(dataset: OpenDataset, name: str) -> dict[str, pa.Table]:
    """Read the metadata of each split of a base, and compare it with its identity."""
    manifest, base = dataset.manifest, dataset.manifest.base(name)
    names = [*columns(manifest.roles.nuisance), "length", "sha256"]
    tables = {
        split: read_columns(dataset, metadata_file(name, split), names) for split in in_order(base.splits)
    }
    dataset.check_unchanged(force=True)  # else these rows may be of another version
    if base_content_id(pa.concat_tables(tables.values()), manifest, base) != base.content_id:
        raise dataset.damaged(f"metadata/{name} has other rows than the manifest says")
    return tables


def entries_of(dataset: OpenDataset, configs: Sequence[str], tasks: Mapping[str, NamedSets]) -> list[Entry]:
    """List the bases and named sets of an export; without any of both, all bases."""
    manifest = dataset.manifest
    rows_of = lru_cache(maxsize=1)(partial(_rows_of, dataset))  # tables of one base are enough in memory
    bases = [base.name for base in manifest.bases]
    whole = [manifest.base(name) for name in (dict.fromkeys(configs) if configs or tasks else bases)]
    entries = [Entry(base, base, _whole(rows_of, base)) for base in whole]
    return entries + [_entry_of_sets(dataset, rows_of, name, sets) for name, sets in tasks.items()]


def _whole(rows_of: RowsOf, base: Base) -> Callable[[], Mapping[str, Samples]]:
    def load() -> Mapping[str, Samples]:
        samples, first = {}, 0
        for split, table in rows_of(base.name).items():
            samples[split] = Samples(table, np.arange(first, first + len(table)))
            first += len(table)
        return samples

    return load


def _entry_of_sets(dataset: OpenDataset, rows_of: RowsOf, name: str, named: NamedSets) -> Entry:
    manifest, source = dataset.manifest, named.metadata.dataset
    if source is None or source.sha256 != dataset.sha256:
        raise InputError(f"the task {name} is not of {dataset.address}, opened as it is now: make it again")
    if not is_path_part(name):
        raise InputError(f"{name!r} cannot name a task in tars: use letters, digits, '_', '-' and '.'")
    base = manifest.base(named.metadata.base)
    full = [given for given, of_set in named.sets.items() if len(of_set.rows)]
    sets = {safe: named.sets[given] for given, safe in _safe_names(full).items()}
    if not sets:
        raise InputError(f"{named.protocol} of {named.metadata.name} has no row to export")

    def load() -> Mapping[str, Samples]:
        table = pa.concat_tables(rows_of(base.name).values())
        return {safe: _drawn(table, of_set, manifest.roles.nuisance) for safe, of_set in sets.items()}

    samples = load()
    roles = {safe: list(of_set.roles) for safe, of_set in sets.items()}
    record = Base(
        name=name,
        summary=named.summary,
        content_id=task_content_id({safe: of_set.rows for safe, of_set in samples.items()}, manifest, roles),
        splits={
            safe: size_of(groups_of(of_set.rows), row_bytes(of_set.rows, manifest.roles))
            for safe, of_set in samples.items()
        },
        task=TaskOf(base=base.name, protocol=named.protocol, roles=roles),
    )
    return Entry(record, base, load)


def _safe_names(sets: Sequence[str]) -> dict[str, str]:
    """Name sets for paths, and as splits of `datasets`: `test/fog@3` becomes `test.fog_3`."""
    safe = {name: re.sub(r"[^A-Za-z0-9_.]+", "_", name.replace("/", ".")) for name in sets}
    safe = {name: re.sub(r"\.+", ".", text).strip(".") or "_" for name, text in safe.items()}
    for name, text in safe.items():
        if list(safe.values()).count(text) > 1:
            raise InputError(
                f"the set {name!r} would be called {text!r} in tars, as another: rename it (--sets)"
            )
    return safe


def _drawn(table: pa.Table, of_set: NamedRows, nuisance: str) -> Samples:
    """Return the samples of a set: each row as often as it was drawn."""
    counts = of_set.times
    rows = np.repeat(np.arange(len(counts)), counts)
    copies = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    at = of_set.rows[rows]
    samples = table.take(pa.array(at))
    samples = samples.append_column("count", pa.array(counts[rows], pa.int32()))
    samples = samples.append_column("copy", pa.array(copies, pa.int32()))
    if of_set.hidden is None:
        return Samples(samples, at)
    for place, name in enumerate(samples.column_names):
        if name == "key":
            samples = samples.set_column(place, name, of_set.hidden.take(pa.array(rows)))
        elif name not in (*SEEN, nuisance):
            samples = samples.set_column(place, name, pa.nulls(len(samples), samples[name].type))
    return Samples(samples, at)


def order_of(samples: Samples, nuisance: str) -> IntArray:
    """Order a set's samples: stratified, the copies of a row drawn several times far from each other."""
    rows = samples.rows
    strata = [
        pc.fill_null(rows[name], missing).to_numpy()
        for name, missing in (("label", -1), (nuisance, -1), ("severity", -1.0))
    ]
    if "count" in rows.column_names and (pc.max(rows["count"]).as_py() or 0) > 1:
        strata.append(rows["key"].combine_chunks().dictionary_encode().indices.to_numpy())
    return stratified_order(samples.names(), *strata)


def stratified_order(keys: Sequence[str], *strata: NDArray[Any]) -> IntArray:
    """Order rows so that every stretch of them has each stratum in about its share of the whole.

    `strata` go from coarse to fine, such as label, nuisance and severity. Rows of the finest cell lie by
    stable hash. Then, from fine to coarse, the i-th of the n rows of a cell gets a random place within the
    i-th n-th of its whole: no cell clusters, and no period repeats. The order of the input never matters.
    """
    place = np.array([uniform("wds", key) for key in keys])
    for depth, cell in reversed(list(enumerate(_nested(len(keys), strata)))):
        order = np.lexsort((place, cell))
        sizes = np.bincount(cell)
        nth = np.arange(len(keys)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        jitter = np.array([uniform("wds", depth, keys[row]) for row in order])
        place[order] = (nth + jitter) / np.repeat(sizes, sizes)
    return np.lexsort((np.array(keys), place)).astype(np.int64)


def _nested(rows: int, strata: Sequence[NDArray[Any]]) -> list[IntArray]:
    """Number the cell of each row: by the first stratum, by the first two, ..."""
    cells = []
    cell = np.zeros(rows, np.int64)
    for stratum in strata:
        values, codes = np.unique(stratum, return_inverse=True)
        cell = np.unique(cell * len(values) + codes, return_inverse=True)[1].astype(np.int64)
        cells.append(cell)
    return cells
