"""Pack: the cheap half of a build. Spooled samples become shards, metadata and a manifest."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.describe.contact_sheet import write_pictures
from builders.describe.renderings import draft, write_renderings
from builders.make import row_groups
from builders.make.gather import Gathered, gather
from builders.recipe import Recipe, file_versions
from builders.sample import Item
from builders.spool import Spool
from shiftdata.errors import InputError, IntegrityError
from shiftdata.format.conditions import rows_matching
from shiftdata.format.identity import dropped_id
from shiftdata.format.manifest import Config, Manifest
from shiftdata.format.paths import protocol_file
from shiftdata.format.schema import SPLITS
from shiftdata.format.writer import (
    Indices,
    counted,
    file_records,
    finished,
    write_dropped,
    write_keys,
    write_metadata,
    write_split,
)

OPEN_BLOCKS = 256  # of a large spool, only so many files are open at a time


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """What is packed: a recipe, the album's items with their folds, and the rendered blocks of each base."""

    recipe: Recipe
    items: Sequence[Item]
    fold_of: Mapping[str, int]
    spool: Spool
    blocks: Mapping[str, Sequence[str]]


def pack(rendered: Rendered, folder: Path, on_rows: Callable[[int], object] = lambda rows: None) -> Manifest:
    """Write every file of the dataset into an empty folder, the manifest last."""
    recipe, plain = rendered.recipe, draft(rendered.recipe)
    tables: dict[str, dict[str, pa.Table]] = {}
    dropped: dict[str, Sequence[tuple[str, str]]] = {}
    for name, blocks in rendered.blocks.items():
        gathered = gather(recipe, rendered.items, rendered.fold_of, rendered.spool, blocks)
        tables[name] = _write_base(rendered, plain, name, gathered, folder, on_rows)
        dropped[name] = gathered.dropped
    write_dropped(folder, dropped)
    bases = [
        replace(
            base,
            dropped=dict(sorted(Counter(reason for _, reason in dropped[base.name]).items())),
            dropped_id=dropped_id(dropped[base.name]),
        )
        for base in plain.bases
        if base.name in tables
    ]
    configs = [_freeze(config, tables[recipe.default_base], plain, folder) for config in plain.configs]
    manifest = finished(
        folder, replace(plain, bases=bases, configs=configs, versions=file_versions()), tables
    )
    pictures = file_records(folder, [path.name for path in write_pictures(folder, manifest)])
    manifest = replace(manifest, files={**manifest.files, **pictures})
    write_renderings(folder, manifest)
    return manifest


def _write_base(
    rendered: Rendered,
    manifest: Manifest,
    name: str,
    gathered: Gathered,
    folder: Path,
    on_rows: Callable[[int], object],
) -> dict[str, pa.Table]:
    """Write the files of a base; give the metadata of each split."""
    if gathered.judged is not None:
        write_metadata(folder / f"filters/{name}.parquet", gathered.judged)
    read = _reader(rendered.spool, rendered.blocks[name], gathered)
    tables = {}
    for split in SPLITS:
        members = np.flatnonzero(pc.equal(gathered.table["split"], split).to_numpy())
        if not len(members):
            raise InputError(
                f"the base {name!r} has no row in {split}: the album has too few usable pictures"
            )
        groups = _row_groups(gathered, members, images=manifest.roles.modality == "image")
        tables[split] = write_split(folder, manifest, name, split, gathered.table, groups, read, on_rows)
    return tables


def _row_groups(gathered: Gathered, members: Indices, *, images: bool) -> list[Indices]:
    """The row groups of a split, as indices into the gathered rows."""
    table = gathered.table.take(pa.array(members))
    rows = row_groups.Rows(
        keys=table["key"].to_pylist(),
        cells=gathered.cells[members],
        labels=table["label"].to_numpy(),
        quantiles=table["quantile"].to_numpy(),
        sizes=table["length"].to_numpy().astype(np.int64),
    )
    arrange = row_groups.row_groups if images else row_groups.shuffled_row_groups
    return [members[group] for group in arrange(rows)]


def _reader(spool: Spool, blocks: Sequence[str], gathered: Gathered) -> Callable[[Indices], list[bytes]]:
    """A function from gathered rows to their encoded examples, each checked against its hash."""
    open_block = lru_cache(OPEN_BLOCKS)(spool.examples)
    sha256 = gathered.table["sha256"].combine_chunks()

    def read(rows: Indices) -> list[bytes]:
        examples = []
        for row in rows.tolist():
            block = blocks[gathered.block[row]]
            examples.append(open_block(block)[gathered.row[row]].as_py())
            if hashlib.sha256(examples[-1]).digest() != sha256[row].as_py():
                raise IntegrityError(
                    f"{spool.path(block)} is damaged: delete it and run the same command again"
                )
        return examples

    return read


def _freeze(config: Config, tables: Mapping[str, pa.Table], manifest: Manifest, folder: Path) -> Config:
    """Write the rows of a canonical split as keys, and count them."""
    rows = {split: rows_matching(table, config.filters) for split, table in tables.items()}
    splits = {split: counted(table, manifest.roles) for split, table in rows.items()}
    for split, count in splits.items():
        empty = config.params["k"] ** 2 - count.groups
        if empty:
            raise InputError(
                f"{config.name} has {empty} empty groups in {split} of {config.base!r}: "
                "the album has too little usable content of some label; add some, or lower k"
            )
    frozen = pa.concat_tables(table.select(["key", "split"]) for table in rows.values())
    ones = pa.array(np.ones(len(frozen)), pa.int32())
    write_keys(folder / protocol_file(config.name), frozen.append_column("count", ones))
    return replace(config, splits=splits)
