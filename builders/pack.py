"""Pack: the cheap half of a build. Spooled samples become shards, metadata and a manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders import shards
from builders.card import render_card
from builders.gather import Gathered, gather
from builders.recipe import Recipe, file_versions
from builders.sample import Item
from builders.shards import Indices
from builders.spool import Spool, whole_file
from shiftdata.errors import InputError, IntegrityError
from shiftdata.identity import base_content_id, dataset_content_id
from shiftdata.manifest import FILE_NAME, Config, FileRecord, Manifest, Split
from shiftdata.manifest import Base as BaseRecord
from shiftdata.protocols import GroupFairness, rows_matching
from shiftdata.schema import POINTER_COLUMNS, SPLITS, data_schema, metadata_schema

OFFSET_BYTES = 4  # Arrow keeps a 32-bit offset beside each text or image
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
    recipe = plan.recipe
    default = packed[recipe.default_base]
    configs = [_freeze(recipe, protocol, default, folder) for protocol in recipe.protocols]
    manifest = _manifest(plan, packed, configs, folder)
    _write_text(folder / "README.md", render_card(manifest))
    _write_text(folder / FILE_NAME, manifest.to_json())
    return manifest


def _pack_base(plan: Plan, name: str, folder: Path, on_rows: Callable[[int], object]) -> PackedBase:
    gathered = gather(plan.recipe, plan.items, plan.fold_of, plan.spool, plan.blocks[name])
    tables, cell_bytes = {}, {}
    for split in SPLITS:
        members = np.flatnonzero(pc.equal(gathered.table["split"], split).to_numpy())
        if not len(members):
            raise InputError(
                f"the base {name!r} has no row in {split}: the album has too few usable pictures"
            )
        layout = _layout(gathered, members)
        pointers = _write_shards(plan, name, split, gathered, layout, folder, on_rows)
        order = np.concatenate([group for shard in layout for group in shard])
        columns = gathered.table.take(order).columns
        pointers["sha256"] = gathered.sha256.take(order).cast(pa.binary())
        schema = _schema(plan.recipe, metadata_schema)
        tables[split] = pa.table([*columns, *(pointers[p] for p in POINTER_COLUMNS)], schema=schema)
        shards.write_metadata(folder / f"metadata/{name}/{split}.parquet", tables[split])
        cell_bytes[split] = _cell_bytes(
            gathered.table.take(order), gathered.sizes[order], plan.recipe.encoding.suffix
        )
    return PackedBase(name, tables, cell_bytes, gathered.dropped)


def _layout(gathered: Gathered, members: Indices) -> list[list[Indices]]:
    """The row groups of each shard of a split, as indices into the gathered rows."""
    table = gathered.table.take(members)
    rows = shards.Rows(
        keys=table["key"].to_pylist(),
        cells=gathered.cells[members],
        labels=table["label"].to_numpy(),
        quantiles=table["quantile"].to_numpy(),
        sizes=gathered.sizes[members],
    )
    cut = shards.cut_into_shards(shards.row_groups(rows), rows.sizes)
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
    image_of = _image_reader(plan.spool, plan.blocks[base], gathered)
    suffix = plan.recipe.encoding.suffix

    def tables(groups: Sequence[Indices]) -> Iterator[pa.Table]:
        for group in groups:
            table = gathered.table.take(group)
            paths = [f"{key}{suffix}" for key in table["key"].to_pylist()]
            images = pa.array([image_of(row) for row in group], pa.binary())
            image = pa.StructArray.from_arrays(
                [images, pa.array(paths)], fields=list(schema.field("image").type)
            )
            yield pa.table([*table.columns, image], schema=schema)
            on_rows(len(group))

    where: list[int] = []
    for number, groups in enumerate(layout):
        path = folder / f"data/{base}/{split}-{number:05d}-of-{len(layout):05d}.parquet"
        shards.write_shard(path, schema, tables(groups))
        where += shards.offsets(path, (image_of(row) for group in groups for row in group))
    lengths = [sum(len(group) for group in shard) for shard in layout]
    order = np.concatenate([group for shard in layout for group in shard])
    return {
        "shard": pa.array(np.repeat(np.arange(len(layout)), lengths), pa.int32()),
        "row": pa.array(np.concatenate([np.arange(n) for n in lengths]), pa.int32()),
        "offset": pa.array(where, pa.int64()),
        "length": pa.array(gathered.sizes[order], pa.int32()),
    }


def _image_reader(spool: Spool, blocks: Sequence[str], gathered: Gathered) -> Callable[[int], bytes]:
    """A function from a gathered row to its encoded image, checked against its hash."""
    open_block = lru_cache(OPEN_BLOCKS)(spool.images)

    def image_of(row: int) -> bytes:
        block = blocks[gathered.block[row]]
        image: bytes = open_block(block)[gathered.row[row]].as_py()
        if hashlib.sha256(image).digest() != gathered.sha256[row].as_py():
            raise IntegrityError(f"{spool.path(block)} is damaged: delete it and run the same command again")
        return image

    return image_of


def _freeze(recipe: Recipe, protocol: GroupFairness, base: PackedBase, folder: Path) -> Config:
    """Write the rows of a canonical split as keys, and describe it."""
    filters = protocol.filters(recipe.album.labels, recipe.shift.nuisances, recipe.roles.nuisance)
    kept, splits = [], {}
    for split, table in base.tables.items():
        numbered = table.append_column("number", pa.array(np.arange(len(table))))
        rows = rows_matching(numbered, filters)
        empty = protocol.k**2 - pc.count_distinct(rows["group"]).as_py()
        if empty:
            raise InputError(
                f"{protocol.config_name} has {empty} empty groups in {split} of {base.name!r}: "
                "the album has too few usable pictures of some label; add pictures, or lower k"
            )
        sizes = base.cell_bytes[split][rows["number"].to_numpy()]
        splits[split] = Split(rows=len(rows), bytes=int(sizes.sum()))
        kept.append(rows.select(["key", "split"]))
    frozen = pa.concat_tables(kept)
    frozen = frozen.append_column("count", pa.array(np.ones(len(frozen)), pa.int32()))
    path = folder / f"protocols/{protocol.config_name}.parquet"
    shards.write_keys(path, frozen)
    params = {"k": protocol.k, "mu": protocol.mu, "seed": protocol.seed}
    return Config(
        name=protocol.config_name,
        base=base.name,
        protocol=protocol.name,
        params=params,
        filters=filters,
        splits=splits,
    )


def _manifest(
    plan: Plan, packed: Mapping[str, PackedBase], configs: Sequence[Config], folder: Path
) -> Manifest:
    recipe = plan.recipe
    labels, nuisances = recipe.album.labels, recipe.shift.nuisances
    bases = []
    for base in packed.values():
        rows = pa.concat_tables(base.tables.values())
        splits = {
            split: Split(rows=len(table), bytes=int(base.cell_bytes[split].sum()))
            for split, table in base.tables.items()
        }
        identity = base_content_id(rows, recipe.roles.nuisance, labels, nuisances)
        summary = recipe.base(base.name).summary
        bases.append(BaseRecord(name=base.name, summary=summary, content_id=identity, splits=splits))
    rows = pa.concat_tables([table for base in packed.values() for table in base.tables.values()])
    return Manifest(
        name=recipe.name,
        family=recipe.family,
        version=recipe.version,
        title=recipe.title,
        summary=recipe.summary,
        license=" AND ".join(sorted(pc.unique(rows["license"]).to_pylist())),
        citation=recipe.citation,
        seed=recipe.seed,
        recipe_id=recipe.recipe_id(),
        content_id=dataset_content_id({base.name: base.content_id for base in bases}),
        roles=recipe.roles,
        origins_shared=_origins_shared(rows, recipe.roles.nuisance),
        labels=list(labels),
        nuisances=list(nuisances),
        default_base=recipe.default_base,
        bases=bases,
        configs=list(configs),
        dropped={base.name: dict(base.dropped) for base in packed.values()},
        files=_file_records(folder),
        versions=file_versions(),
    )


def _origins_shared(rows: pa.Table, nuisance: str) -> bool:
    """Whether any origin occurs under several nuisances."""
    counts = rows.group_by("origin").aggregate([(nuisance, "count_distinct")])
    return bool(pc.max(counts[f"{nuisance}_count_distinct"]).as_py() > 1)


def _file_records(folder: Path) -> dict[str, FileRecord]:
    return {
        path.relative_to(folder).as_posix(): FileRecord(
            bytes=path.stat().st_size, sha256=_sha256(path), rows=shards.rows_in(path)
        )
        for path in sorted(folder.rglob("*.parquet"))
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _cell_bytes(table: pa.Table, image_sizes: NDArray[np.int64], suffix: str) -> NDArray[np.int64]:
    """The bytes of each row as `datasets` counts them: fixed widths, and texts with an offset."""
    path_length = pc.binary_length(table["key"]).to_numpy() + len(suffix)
    total: NDArray[np.int64] = image_sizes + path_length + 2 * OFFSET_BYTES
    for column in table.columns:
        if pa.types.is_string(column.type):
            total += pc.binary_length(column).to_numpy() + OFFSET_BYTES
        else:
            total += column.type.bit_width // 8
    return total


def _schema(recipe: Recipe, kind: Callable[..., pa.Schema]) -> pa.Schema:
    return kind(recipe.roles.nuisance, recipe.album.labels, recipe.shift.nuisances)


def _write_text(path: Path, text: str) -> None:
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
