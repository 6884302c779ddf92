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
from builders.describe.renderings import describe, draft
from builders.make import row_groups
from builders.make.canonical import freeze
from builders.make.gather import EXAMPLES, Gathered, gather, reasons_of
from builders.make.shortcuts import measure
from builders.recipe import Recipe, file_versions
from builders.sample import Item
from builders.spool import Spool
from shiftdata.errors import InputError, IntegrityError
from shiftdata.format.identity import dropped_id
from shiftdata.format.manifest import Manifest
from shiftdata.format.paths import protocol_file
from shiftdata.format.schema import SPLITS
from shiftdata.format.writer import (
    Indices,
    file_records,
    finished,
    write_dropped,
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
    manifest = finished(folder, replace(plain, bases=bases, versions=file_versions()), tables)
    splits = freeze(recipe, manifest, tables[recipe.default_base], folder)
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
                f"the base {name!r} has no row in {split}: too few {EXAMPLES[manifest.roles.modality]} can "
                f"be used. Dropped: {reasons_of(gathered.dropped)}"
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
