"""The plan of a base's files, on disk: its rows in the order of the files, and how runs and shards cut them.

The process that packs writes it. Those that do the work read no more than their rows.
A plan's folder is named by a hash of all that is in it, and of the versions of code and libraries: what a
killed process has left in that folder is what the next one would make. Next to the plan lie the runs and the
finished files, until they are moved into the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.make.packing.runs import COLUMNS, Column, Held, Runs
from builders.spool import Spool
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.attribution import added
from shiftdata.data.format.licenses import row_license
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import data_file
from shiftdata.data.format.schema import SPLITS, columns
from shiftdata.data.format.writer import Ordered, Shard
from shiftdata.errors import IntegrityError
from shiftdata.files import remove
from shiftdata.untrusted.texts import read_json

#: Rows of a batch of a table, of which each is read as a whole.
ROWS_AT_ONCE = 5_000
#: Files of a plan that are lists of numbers: of `run_blocks` the first block of each run and the end, of
#: `shards` the first row of each in its split and its first row group.
NUMBERS = ("groups", "places", "run_blocks", "shards", "sizes")
#: Folders in that of a plan.
RUNS, FILES = "runs", "files"
#: How the folders of plans begin; hidden while they are written.
PREFIX = "plan-"


@dataclass(frozen=True)
class Span:
    """The place of a split among the rows, row groups and shards of its base: begin and end."""

    rows: tuple[int, int]
    groups: tuple[int, int]
    shards: tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """An opened plan. Of `manifest`, the roles, the names and the materials count.

    A `spool` is given if its examples fit into the memory of this process: then no run is needed.
    """

    folder: Path
    manifest: Manifest
    spool: Spool | None = None

    @cached_property
    def about(self) -> dict[str, Any]:
        """The base, its splits, and what it was planned with."""
        return dict(read_json((self.folder / "plan.json").read_bytes()))

    @property
    def base(self) -> str:
        return str(self.about["base"])

    @cached_property
    def spans(self) -> dict[str, Span]:
        """The span of each split."""
        splits: Mapping[str, Sequence[int]] = self.about["splits"]
        ends = np.cumsum([np.zeros(len(fields(Span)), np.int64), *splits.values()], axis=0).tolist()
        bounds = zip(splits, pairwise(ends), strict=True)
        return {split: Span(*zip(*pair, strict=True)) for split, pair in bounds}

    @property
    def runs(self) -> int:
        """The number of runs that are needed."""
        return 0 if self.spool is not None else len(self._numbers["run_blocks"]) - 1

    def run_path(self, number: int) -> Path:
        """The file of a run."""
        return self.folder / RUNS / f"{number:06}"

    def shards(self) -> Iterator[tuple[str, int]]:
        """Yield the split of each data file, and its number there."""
        for split, span in self.spans.items():
            yield from ((split, number) for number in range(span.shards[1] - span.shards[0]))

    def shard(self, split: str, number: int) -> Shard:
        """A data file of a split."""
        span, groups = self.spans[split], self._numbers["groups"]
        first, stop = span.shards
        start, begin = self._numbers["shards"][first + number].tolist()
        end = self._numbers["shards"][first + number + 1][1] if first + number + 1 < stop else span.groups[1]
        return Shard(data_file(self.base, split, number, stop - first), split, start, groups[begin:end])

    def blocks(self, number: int) -> tuple[list[str], list[int], IntArray]:
        """The blocks of a run, the rows that each has, and the place of each row."""
        table = self._mapped("blocks")
        first, stop = self._numbers["run_blocks"][number : number + 2].tolist()
        begins: IntArray = table["begin"].slice(first, stop - first + 1).to_numpy()
        names = table["name"].slice(first, stop - first).to_pylist()
        places = np.asarray(self._numbers["places"][begins[0] : begins[-1]])
        return names, np.diff(begins).tolist(), places

    def ordered(self, split: str) -> Ordered:
        """The rows of a split, of which all runs are there."""
        first, stop = self.spans[split].rows

        def read(column: Column, start: int, end: int) -> pa.BinaryArray:
            return self.values.read(column, first + start, first + end)

        return Ordered(
            lengths=self._numbers["sizes"][first:stop],
            groups=self._numbers["groups"][slice(*self.spans[split].groups)],
            table=lambda start, end: self._table(first + start, first + end, read("params", start, end)),
            examples=lambda start, end: read("example", start, end),
        )

    @cached_property
    def values(self) -> Runs | Held:
        """Examples and params of all rows."""
        if self.spool is None:
            return Runs([self.run_path(number) for number in range(self.runs)])
        numbers = range(len(self._numbers["run_blocks"]) - 1)
        parts = [self.blocks(number) for number in numbers]
        tables = (table for names, counts, _ in parts for table in whole_blocks(self.spool, names, counts))
        return Held(tables, np.concatenate([places for _, _, places in parts]))

    @cached_property
    def _numbers(self) -> dict[str, IntArray]:
        numbers = {name: np.memmap(self.folder / name, np.int64, "r") for name in NUMBERS}
        return numbers | {"shards": numbers["shards"].reshape(-1, 2)}

    @cached_property
    def _rows(self) -> pa.RecordBatchFileReader:
        # Read and not mapped: pages that are mapped count as memory of a process as long as they are.
        return pa.ipc.open_file(pa.OSFile(str(self.folder / "rows.arrow")))

    @cached_property
    def _items(self) -> pa.Table:
        return self._mapped("items")

    def _mapped(self, name: str) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(str(self.folder / f"{name}.arrow"))).read_all()

    def _table(self, start: int, stop: int, params: pa.Array) -> pa.Table:
        """The columns of the metadata, and sha256, of rows that have these params."""
        first = start // ROWS_AT_ONCE
        batches = [self._rows.get_batch(number) for number in range(first, -(-stop // ROWS_AT_ONCE))]
        rows = pa.Table.from_batches(batches).slice(start - first * ROWS_AT_ONCE, stop - start)
        of_item = self._items.take(rows["item"])
        nuisance, count = self.manifest.roles.nuisance, len(self.manifest.nuisances)
        values = {name: table[name] for table in (rows, of_item) for name in table.column_names}
        values |= {
            "split": pa.array(list(SPLITS)).take(of_item["split"].combine_chunks()),
            nuisance: rows["nuisance"],
            "group": pc.add(pc.multiply(of_item["label"], count), rows["nuisance"]),
            "license": self._licenses(of_item["license"], rows["nuisance"]),
            "params": params,
        }
        kinds = columns(nuisance) | {"sha256": pa.binary()}
        return pa.table({name: values[name].cast(kind) for name, kind in kinds.items()})

    @cached_property
    def _license(self) -> Callable[[str, int], str]:
        """Join the licence of a content and those that a nuisance, given by its number, adds."""
        names = [*self.manifest.nuisances, None]
        adds = {name: added(self.manifest.materials, name) for name in names}
        return cache(lambda text, number: row_license(text, adds[names[number]]))

    def _licenses(self, content: pa.ChunkedArray, nuisance: pa.ChunkedArray) -> pa.Array:
        """The licence of each row, joined once for each pair of licence and nuisance."""
        texts = content.cast(pa.string()).combine_chunks().dictionary_encode()
        none = len(self.manifest.nuisances)
        pairs = texts.indices.to_numpy() * np.int64(none + 1) + pc.fill_null(nuisance, none).to_numpy()
        distinct, number = np.unique(pairs, return_inverse=True)
        parts = (divmod(pair, none + 1) for pair in distinct.tolist())
        joined = [self._license(texts.dictionary[text].as_py(), name) for text, name in parts]
        return pa.array(joined, pa.string()).take(pa.array(number))


def whole_blocks(spool: Spool, blocks: Sequence[str], counts: Sequence[int]) -> Iterator[pa.Table]:
    """Examples and params of each block, which has as many rows as it had when it was gathered."""
    for block, count, (table, _) in zip(blocks, counts, spool.blocks(blocks), strict=True):
        if len(table) != count:
            raise IntegrityError(f"{spool.path(block)} has changed meanwhile: run the same command again")
        yield table.select(COLUMNS)


def plans_in(work: Path) -> list[Path]:
    """The folders of whole plans."""
    return sorted(work.glob(f"{PREFIX}*"))


def remove_plans(work: Path) -> None:
    """Remove all plans, also unfinished ones, and what was made by them."""
    for folder in (*plans_in(work), *work.glob(f".{PREFIX}*")):
        remove(folder)
