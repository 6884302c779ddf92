"""Pack: the cheap half of a build. Spooled samples become shards, metadata and a manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa

from builders.describe.contact_sheet import write_pictures
from builders.describe.renderings import describe, draft
from builders.make import row_groups
from builders.make.assign import Folds
from builders.make.canonical import freeze, parts_of_sets
from builders.make.equal import Listed
from builders.make.gather import EXAMPLES, Gathered, gather, reasons_of
from builders.make.reorder import reordered
from builders.make.shortcuts import measure
from builders.recipe import Recipe, file_versions
from builders.spool import Spool
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.identity import dropped_id
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import protocol_file
from shiftdata.data.format.records import FileRecord
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.format.writer import Ordered, write_dropped, write_metadata, write_splits
from shiftdata.data.format.written import file_records, finished
from shiftdata.errors import InputError
from shiftdata.threads import available_cores


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """The input of packing: a recipe, the album's content with its folds, the blocks of each base."""

    recipe: Recipe
    content: Listed
    fold_of: Folds
    spool: Spool
    blocks: Mapping[str, Sequence[str]]


def pack(rendered: Rendered, folder: Path, on_rows: Callable[[int], object] = lambda rows: None) -> Manifest:
    """Write every file of the dataset into an empty folder, the manifest last."""
    recipe, plain = rendered.recipe, draft(rendered.recipe)
    files: dict[str, FileRecord] = {}
    dropped: dict[str, Sequence[tuple[str, str]]] = {}
    for name, blocks in rendered.blocks.items():
        gathered = gather(recipe, rendered.content.items, rendered.fold_of, rendered.spool, blocks)
        part_of = np.zeros(len(gathered.rows), np.int64)
        if name == recipe.default_base:
            part_of = parts_of_sets(recipe, rendered.content.items, rendered.fold_of, gathered)
        files |= _write_base(rendered, plain, name, gathered, part_of, folder, on_rows)
        dropped[name] = gathered.dropped
        del gathered, part_of
        for pool in (pa.default_memory_pool(), pa.system_memory_pool()):
            pool.release_unused()  # each of the two would keep what the other needs next
    write_dropped(folder, dropped)
    bases = [
        replace(
            base,
            dropped=dict(sorted(Counter(reason for _, reason in dropped[base.name]).items())),
            dropped_id=dropped_id(dropped[base.name]),
        )
        for base in plain.bases
        if base.name in dropped
    ]
    described = replace(plain, bases=bases, versions=file_versions(), equal_content=rendered.content.counts)
    manifest = finished(folder, described, {base.name: list(SPLITS) for base in bases}, files)
    splits = freeze(recipe, manifest, folder)
    manifest = replace(manifest, canonical_splits=splits)
    manifest = replace(manifest, shortcuts=measure(folder, manifest, recipe.album))
    more = [protocol_file(split.name) for split in splits]
    more += [path.name for path in write_pictures(folder, manifest)]
    manifest = replace(manifest, files={**manifest.files, **file_records(folder, more)})
    return describe(folder, manifest)


def _write_base(
    rendered: Rendered,
    manifest: Manifest,
    name: str,
    gathered: Gathered,
    part_of: IntArray,
    folder: Path,
    on_rows: Callable[[int], object],
) -> dict[str, FileRecord]:
    """Write the files of a base, none with rows of two sets; give their records."""
    if gathered.judged is not None:
        write_metadata(folder / f"filters/{name}.parquet", [gathered.judged])
    groups = _row_groups(gathered, part_of, name)
    orders = {split: np.concatenate(of) for split, of in groups.items()}
    places = np.full(sum(gathered.counts), -1)
    places[gathered.number[np.concatenate(list(orders.values()))]] = np.arange(len(gathered.rows))
    sizes = gathered.rows["size"].to_numpy().astype(np.int64)
    with reordered(rendered.spool, rendered.blocks[name], gathered.counts, places, folder) as values:

        def ordered(split: str, first: int) -> Ordered:
            order = orders[split]
            return Ordered(
                lengths=sizes[order],
                groups=np.array([len(group) for group in groups[split]]),
                table=lambda start, stop: gathered.table(
                    order[start:stop], values.read("params", first + start, first + stop)
                ),
                examples=lambda start, stop: values.read("example", first + start, first + stop),
                parts=[part_of[group[0]] for group in groups[split]],
            )

        firsts = accumulate(map(len, orders.values()), initial=0)
        splits = {split: ordered(split, first) for split, first in zip(orders, firsts, strict=False)}
        workers = available_cores()
        return write_splits(folder, manifest, name, splits, workers=workers, on_rows=on_rows)


def _row_groups(gathered: Gathered, part_of: IntArray, base: str) -> dict[str, list[IntArray]]:
    """The row groups of each split, one set after the other, as indices into the gathered rows."""
    modality = gathered.recipe.encoding.modality
    arrange = row_groups.row_groups if modality == "image" else row_groups.shuffled_row_groups
    split_of, label_of = gathered.of_items("split"), gathered.of_items("label")
    groups: dict[str, list[IntArray]] = {}
    for number, split in enumerate(SPLITS):
        members = np.flatnonzero(split_of == number)
        if not len(members):
            raise InputError(
                f"the base {base!r} has no row in {split}: too few {EXAMPLES[modality]} can "
                f"be used. Dropped: {reasons_of(gathered.dropped)}"
            )
        groups[split] = []
        for of in np.unique(part_of[members]):
            within = members[part_of[members] == of]
            mine = gathered.rows.select(["key", "quantile", "size"]).take(pa.array(within))
            rows = row_groups.Rows(
                keys=mine["key"].combine_chunks(),
                cells=gathered.cells[within],
                labels=label_of[within],
                quantiles=mine["quantile"].to_numpy(),
                sizes=mine["size"].to_numpy().astype(np.int64),
            )
            groups[split] += [within[group] for group in arrange(rows)]
    return groups
