"""Pack: the cheap half of a build. Spooled samples become shards, metadata and a manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from builders.describe.draft import draft
from builders.describe.pictures import write_pictures
from builders.describe.renderings import write_renderings
from builders.make import row_groups as shards
from builders.make.gather import Gathered, gather
from builders.make.row_groups import Indices
from builders.make.spool import Spool
from builders.recipe import Recipe, file_versions
from builders.sample import Item
from shiftdata.errors import InputError, IntegrityError
from shiftdata.files import sha256_of, write_text
from shiftdata.format.attribution import ATTRIBUTION, attribution_text, credited, terms
from shiftdata.format.conditions import rows_matching
from shiftdata.format.identity import base_content_id, dataset_content_id
from shiftdata.format.manifest import Base as BaseRecord
from shiftdata.format.manifest import Config, FileRecord, Manifest, Split
from shiftdata.format.schema import POINTER_COLUMNS, SPLITS, Modality, data_schema, metadata_schema
from shiftdata.format.writer import offsets, rows_in, write_keys, write_metadata, write_shard

OFFSET_BYTES = 4  # Arrow keeps a 32-bit offset beside each text
OPEN_BLOCKS = 256  # of a large spool, only so many files are open at a time


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is packed: the recipe, the album's items with their folds, and the blocks of each base."""

    recipe: Recipe
    items: Sequence[Item]
    fold_of: Mapping[str, int]
    spool: Spool
    blocks: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class PackedBase:
    """A written base: its metadata table of each split, cell bytes of each row, and what was dropped."""

    name: str
    tables: Mapping[str, pa.Table]
    cell_bytes: Mapping[str, NDArray[np.int64]]
    dropped: Mapping[str, int]


def pack(plan: Plan, folder: Path, on_rows: Callable[[int], object] = lambda rows: None) -> Manifest:
    """Write every file of the dataset into an empty folder, the manifest last."""
    packed = {name: _pack_base(plan, name, folder, on_rows) for name in plan.blocks}
    manifest = _manifest(plan, packed, folder)
    pictures = {path.name: _file_record(path, rows=None) for path in write_pictures(folder, manifest)}
    manifest = replace(manifest, files={**manifest.files, **pictures})
    write_renderings(folder, manifest)
    return manifest


def _pack_base(plan: Plan, name: str, folder: Path, on_rows: Callable[[int], object]) -> PackedBase:
    gathered = gather(plan.recipe, plan.items, plan.fold_of, plan.spool, plan.blocks[name])
    if gathered.judged is not None:
        write_metadata(folder / f"filters/{name}.parquet", gathered.judged)
    tables, cell_bytes = {}, {}
    for split in SPLITS:
        members = np.flatnonzero(pc.equal(gathered.table["split"], split).to_numpy())
        if not len(members):
            raise InputError(
                f"the base {name!r} has no row in {split}: the album has too few usable pictures"
            )
        layout = _layout(gathered, members, plan.recipe.encoding.modality)
        pointers = _write_shards(plan, name, split, gathered, layout, folder, on_rows)
        order = np.concatenate([group for shard in layout for group in shard])
        columns = gathered.table.take(order).columns
        pointers["sha256"] = gathered.sha256.take(order).cast(pa.binary())
        schema = _schema(plan.recipe, metadata_schema)
        tables[split] = pa.table([*columns, *(pointers[p] for p in POINTER_COLUMNS)], schema=schema)
        write_metadata(folder / f"metadata/{name}/{split}.parquet", tables[split])
        cell_bytes[split] = _cell_bytes(gathered.table.take(order), gathered.sizes[order], plan.recipe)
    return PackedBase(name, tables, cell_bytes, gathered.dropped)


def _layout(gathered: Gathered, members: Indices, modality: Modality) -> list[list[Indices]]:
    """The row groups of each shard of a split, as indices into the gathered rows."""
    table = gathered.table.take(members)
    rows = shards.Rows(
        keys=table["key"].to_pylist(),
        cells=gathered.cells[members],
        labels=table["label"].to_numpy(),
        quantiles=table["quantile"].to_numpy(),
        sizes=gathered.sizes[members],
    )
    arrange = shards.row_groups if modality == "image" else shards.shuffled_row_groups
    cut = shards.cut_into_shards(arrange(rows), rows.sizes)
    return [[members[group] for group in shard] for shard in cut]


def _write_shards(
    plan: Plan,
    base: str,
    split: str,
    gathered: Gathered,
    layout: Sequence[Sequence[Indices]],
    folder: Path,
    on_rows: Callable[[int], object],
) -> dict[str, Any]:
    """Write the shards of a split; give shard, row, offset and length of each row, in file order."""
    schema = _schema(plan.recipe, data_schema)
    example_of = _example_reader(plan.spool, plan.blocks[base], gathered)
    encoding = plan.recipe.encoding

    def tables(groups: Sequence[Indices]) -> Iterator[pa.Table]:
        for group in groups:
            table = gathered.table.take(group)
            examples = encoding.arrays(table["key"].to_pylist(), [example_of(row) for row in group])
            yield pa.table([*table.columns, *examples], schema=schema)
            on_rows(len(group))

    where: list[int | None] = []
    for number, groups in enumerate(layout):
        path = folder / f"data/{base}/{split}-{number:05d}-of-{len(layout):05d}.parquet"
        write_shard(path, schema, tables(groups))
        if encoding.modality == "image":
            where += offsets(path, (example_of(row) for group in groups for row in group))
        else:
            where += [None] * sum(map(len, groups))
    lengths = [sum(len(group) for group in shard) for shard in layout]
    order = np.concatenate([group for shard in layout for group in shard])
    return {
        "shard": pa.array(np.repeat(np.arange(len(layout)), lengths), pa.int32()),
        "row": pa.array(np.concatenate([np.arange(n) for n in lengths]), pa.int32()),
        "offset": pa.array(where, pa.int64()),
        "length": pa.array(gathered.sizes[order], pa.int32()),
    }


def _example_reader(spool: Spool, blocks: Sequence[str], gathered: Gathered) -> Callable[[int], bytes]:
    """A function from a gathered row to its encoded example, checked against its hash."""
    open_block = lru_cache(OPEN_BLOCKS)(spool.examples)

    def example_of(row: int) -> bytes:
        block = blocks[gathered.block[row]]
        example: bytes = open_block(block)[gathered.row[row]].as_py()
        if hashlib.sha256(example).digest() != gathered.sha256[row].as_py():
            raise IntegrityError(f"{spool.path(block)} is damaged: delete it and run the same command again")
        return example

    return example_of


def _freeze(config: Config, base: PackedBase, folder: Path) -> Config:
    """Write the rows of a canonical split as keys, and count them."""
    kept, splits = [], {}
    for split, table in base.tables.items():
        numbered = table.append_column("number", pa.array(np.arange(len(table))))
        rows = rows_matching(numbered, config.filters)
        splits[split] = _count(rows, base.cell_bytes[split][rows["number"].to_numpy()])
        empty = config.params["k"] ** 2 - splits[split].groups
        if empty:
            raise InputError(
                f"{config.name} has {empty} empty groups in {split} of {base.name!r}: "
                "the album has too little usable content of some label; add some, or lower k"
            )
        kept.append(rows.select(["key", "split"]))
    frozen = pa.concat_tables(kept)
    frozen = frozen.append_column("count", pa.array(np.ones(len(frozen)), pa.int32()))
    write_keys(folder / f"protocols/{config.name}.parquet", frozen)
    return replace(config, splits=splits)


def _count(rows: pa.Table, cell_bytes: NDArray[np.int64]) -> Split:
    """How much some rows are, and how evenly they lie in their groups."""
    sizes = pc.value_counts(rows["group"].drop_null()).field("counts").to_numpy()
    return Split(
        rows=len(rows),
        bytes=int(cell_bytes.sum()),
        groups=len(sizes),
        smallest=int(sizes.min(initial=len(rows))) if len(sizes) else 0,
        largest=int(sizes.max(initial=0)),
    )


def _manifest(plan: Plan, packed: Mapping[str, PackedBase], folder: Path) -> Manifest:
    """The draft of the recipe, with everything that is known only now."""
    recipe = plan.recipe
    plain = draft(recipe)
    default = packed[recipe.default_base]
    configs = [_freeze(config, default, folder) for config in plain.configs]
    bases = [_base_record(recipe, base) for base in packed.values()]
    rows = pa.concat_tables([table for base in packed.values() for table in base.tables.values()])
    everyone = credited(zip(rows["license"].to_pylist(), rows["attribution"].to_pylist(), strict=True))
    write_text(folder / ATTRIBUTION, attribution_text(plain.name, plain.version, everyone))
    return replace(
        plain,
        **terms(everyone),
        content_id=dataset_content_id({base.name: base.content_id for base in bases}),
        origins_shared=_origins_shared(rows, recipe.nuisance),
        bases=bases,
        configs=configs,
        dropped={base.name: dict(base.dropped) for base in packed.values()},
        sample=_sample(folder, recipe),
        files={**_file_records(folder), ATTRIBUTION: _file_record(folder / ATTRIBUTION, rows=None)},
        versions=file_versions(),
    )


def _base_record(recipe: Recipe, base: PackedBase) -> BaseRecord:
    rows = pa.concat_tables(base.tables.values())
    return BaseRecord(
        name=base.name,
        summary=recipe.base(base.name).summary,
        content_id=base_content_id(rows, recipe.nuisance, recipe.album.labels, recipe.shift.nuisances),
        splits={split: _count(table, base.cell_bytes[split]) for split, table in base.tables.items()},
    )


def _sample(folder: Path, recipe: Recipe) -> dict[str, Any]:
    """The first training row of the default base, as it is loaded; of an image only that it is there."""
    first = min(folder.glob(f"data/{recipe.default_base}/train-*.parquet"))
    with pq.ParquetFile(first) as file:
        names = [name for name in file.schema_arrow.names if name != "image"]
        (row,) = next(file.iter_batches(batch_size=1, columns=names)).to_pylist()
    return dict(row)


def _origins_shared(rows: pa.Table, nuisance: str) -> bool:
    """Whether any origin occurs under several nuisances."""
    counts = rows.group_by("origin").aggregate([(nuisance, "count_distinct")])
    return bool(pc.max(counts[f"{nuisance}_count_distinct"]).as_py() > 1)


def _file_records(folder: Path) -> dict[str, FileRecord]:
    return {
        path.relative_to(folder).as_posix(): _file_record(path, rows_in(path))
        for path in sorted(folder.rglob("*.parquet"))
    }


def _file_record(path: Path, rows: int | None) -> FileRecord:
    return FileRecord(bytes=path.stat().st_size, sha256=sha256_of(path), rows=rows)


def _cell_bytes(table: pa.Table, sizes: NDArray[np.int64], recipe: Recipe) -> NDArray[np.int64]:
    """The bytes of each row as `datasets` counts them: fixed widths, and texts with an offset."""
    key_lengths = pc.binary_length(table["key"]).to_numpy().astype(np.int64)
    total = recipe.encoding.cell_bytes(key_lengths, sizes)
    for column in table.columns:
        if pa.types.is_string(column.type):
            total += pc.binary_length(column).to_numpy() + OFFSET_BYTES
        else:
            total += column.type.bit_width // 8
    return total


def _schema(recipe: Recipe, kind: Callable[..., pa.Schema]) -> pa.Schema:
    return kind(recipe.roles, recipe.album.labels, recipe.shift.nuisances)
