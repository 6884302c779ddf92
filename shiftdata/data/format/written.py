"""A manifest for written files: identities, counts, sizes, credits, hashes; and the texts made from it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.attribution import Terms, attribution_text, credits_of, terms, terms_of
from shiftdata.data.format.identity import base_content_id, dataset_content_id
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import ATTRIBUTION, NAMES, RENDERINGS, data_prefix, metadata_file
from shiftdata.data.format.records import FileRecord, Split, Untouched
from shiftdata.data.format.schema import MOST_LISTED_GROUPS, POINTER_COLUMNS, Roles, columns, group_names
from shiftdata.data.format.writer import METADATA_ROWS_PER_GROUP, OFFSET_BYTES
from shiftdata.files import sha256_of, write_text
from shiftdata.untrusted.parquet import (
    ParquetReader,
    plain_texts,
    read_footer,
    read_parquet,
    text_lengths,
)

#: How the reason begins where an album could not know what all its examples were made from.
MAY_LEAK = "splits may leak"
#: Columns of few distinct values.
REPEATED = ["split", "origin", "license", "attribution"]


def finished(
    folder: Path,
    manifest: Manifest,
    bases: Mapping[str, Sequence[str]],
    files: Mapping[str, FileRecord],
    sizes: Mapping[str, IntArray] | None = None,
) -> Manifest:
    """Complete a manifest: identities, counts, credits, a sample row and the hash of every file.

    `bases` names the splits of each base; other bases of `manifest` are left out. `files` are the records
    that were made already, `sizes` the `row_bytes` of metadata files that are known already. Writes
    ATTRIBUTION.md. The caller adds `canonical_splits`.
    """
    sizes = sizes or {}
    described, origins, counted = [], [], Counter[Terms]()
    for base in manifest.bases:
        if base.name in bases:
            paths = {split: folder / metadata_file(base.name, split) for split in bases[base.name]}
            tables = {split: written_rows(path, manifest.roles.nuisance) for split, path in paths.items()}
            known = (sizes.get(metadata_file(base.name, split)) for split in tables)
            splits = {
                split: size_of(
                    groups_of(table), sizes_of(paths[split], manifest.roles) if of_rows is None else of_rows
                )
                for (split, table), of_rows in zip(tables.items(), known, strict=True)
            }
            rows = pa.concat_tables(tables.values()).unify_dictionaries()
            base_id = base_content_id(rows, manifest, base)
            base = replace(base, untouched=untouched(rows), equal_apart=len(equal_apart(rows)))
            described.append(replace(base, content_id=base_id, splits=splits))
            counted += terms_of(rows, manifest)
            origins.append(plain_texts(rows.group_by(["origin", manifest.roles.nuisance]).aggregate([])))
    everyone, materials = credits_of(counted, manifest.materials)
    pairs = pa.concat_tables(origins).drop_null().group_by(["origin", manifest.roles.nuisance]).aggregate([])
    default = manifest.default_base
    first = min(folder.glob(f"{data_prefix(default, bases[default][0])}*.parquet"))
    write_text(folder / ATTRIBUTION, attribution_text(manifest, everyone, materials))
    parquet = (path.relative_to(folder) for path in folder.rglob("*.parquet"))
    visible = (path for path in parquet if not any(part.startswith(".") for part in path.parts))
    names = [*sorted(path.as_posix() for path in visible), ATTRIBUTION]
    every = {**files, **file_records(folder, [name for name in names if name not in files])}
    return replace(
        manifest,
        **terms(everyone, materials, manifest.compilation),
        content_id=dataset_content_id(described),
        origins_shared=len(pairs) > pc.count_distinct(pairs["origin"]).as_py(),
        bases=described,
        sample=sample_of(manifest, first),
        files={name: every[name] for name in names},
    )


def written_rows(path: Path, nuisance: str) -> pa.Table:
    """Read a metadata file without `params` and names; repeated texts as dictionaries."""
    names = [name for name in (*columns(nuisance), *POINTER_COLUMNS) if name != "params"]
    return read_parquet(path, names, coded=REPEATED)


def sizes_of(file: Path, roles: Roles) -> IntArray:
    """Return the bytes in memory of each row of a metadata file, read a few at a time: `params` are long."""
    texts = [name for name, kind in columns(roles.nuisance).items() if kind == pa.string()]
    with ParquetReader(file) as opened:
        names = [name for name in opened.schema.names if name in (*columns(roles.nuisance), "length")]
        parts = opened.batches(names, METADATA_ROWS_PER_GROUP, coded=texts)
        sizes = [row_bytes(part, roles) for part in parts]
    return np.concatenate([np.empty(0, np.int64), *sizes])


def untouched(rows: pa.Table) -> Untouched | None:
    """Count the untouched starts of trajectories; None if all of them are different."""
    starts = rows.filter(pc.and_(pc.equal(rows["severity"], 0.0), pc.is_valid(rows["group"])))
    lengths = starts.group_by("sha256").aggregate([("length", "min")])["length_min"]
    if len(lengths) == len(starts):
        return None
    copied = pc.sum(starts["length"]).as_py() - pc.sum(lengths).as_py()
    return Untouched(rows=len(starts), examples=len(lengths), bytes=copied)


def equal_apart(rows: pa.Table) -> list[list[str]]:
    """Return the keys of each set of equal untouched examples of several origins in several splits.

    Rows without a scale of severity count as untouched; strong shifts make equal examples by chance.
    """
    starts = rows.filter(pc.equal(pc.fill_null(rows["severity"], 0.0), 0.0))
    counts = pc.value_counts(starts["sha256"])
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    copies = starts.filter(pc.is_in(starts["sha256"], value_set=repeated))
    texts = {name: copies[name].cast(pa.string()) for name in ("key", "origin", "split")}
    copies = pa.table({"sha256": copies["sha256"], **texts})
    sets = copies.group_by("sha256").aggregate(
        [("key", "list"), ("origin", "count_distinct"), ("split", "count_distinct")]
    )
    apart = pc.and_(pc.greater(sets["origin_count_distinct"], 1), pc.greater(sets["split_count_distinct"], 1))
    return sorted(map(sorted, sets.filter(apart)["key_list"].to_pylist()))


def leak_warnings(manifest: Manifest) -> Iterator[str]:
    """Yield a warning for each base with equal examples that were rendered from unequal files or rows."""
    for base in manifest.bases:
        if base.equal_apart:
            yield (
                f"warning: {base.equal_apart:,} sets of equal untouched examples in the base {base.name!r} "
                "have several origins in several splits, so they leak: their files or rows differ, the "
                "examples do not. `shiftdata duplicates` lists them; give each set one origin "
                "(the column origin of a table or of items.csv), or delete all but one"
            )
    yield from (f"warning: {reason}" for reason in unknown_origins(manifest))


def unknown_origins(manifest: Manifest) -> list[str]:
    """Return the reasons, if any, for which the album could not know what all its examples were made from."""
    return [reason for reason in manifest.left_out if reason.startswith(MAY_LEAK)]


def size_of(groups: IntArray, sizes: IntArray, times: IntArray | None = None) -> Split:
    """Return the size of rows, from the group (-1 for none), the bytes and the draws (None: 1) of each."""
    named = groups >= 0
    counts = np.unique(groups[named], return_counts=True)[1]
    if times is not None:  # never repeated: a file of strangers may draw a row billions of times
        number = np.unique(groups[named], return_inverse=True)[1]
        counts = np.bincount(number, times[named]).astype(np.int64)
    rows = len(groups) if times is None else int(times.sum())
    return Split(
        rows=rows,
        bytes=int(sizes.sum()),
        groups=len(counts),
        smallest=int(counts.min(initial=rows)) if len(counts) else 0,
        largest=int(counts.max(initial=0)),
    )


def groups_of(rows: pa.Table) -> IntArray:
    """Return the group of each row of metadata, -1 for none."""
    groups: IntArray = pc.fill_null(rows["group"], -1).to_numpy().astype(np.int64)
    return groups


def row_bytes(rows: pa.Table, roles: Roles) -> IntArray:
    """Return the bytes of each row as `datasets` counts them: fixed widths, and texts with an offset."""
    total: IntArray = pc.fill_null(rows["length"], 0).to_numpy().astype(np.int64)
    if roles.modality == "image":
        total += text_lengths(rows["key"]) + len(".jpg") + 2 * OFFSET_BYTES
    else:
        texts = sum(feature == "string" for feature in roles.example.values())
        total = total + texts * OFFSET_BYTES if texts else np.full(len(rows), 8 * len(roles.example))
    for name in columns(roles.nuisance):
        column = rows[name]
        if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
            total += text_lengths(column) + OFFSET_BYTES
        else:
            total += column.type.bit_width // 8
    return total


def file_records(folder: Path, names: Sequence[str]) -> dict[str, FileRecord]:
    """Return the manifest's record of files in a folder."""
    return {
        name: FileRecord(
            bytes=(folder / name).stat().st_size,
            sha256=sha256_of(folder / name),
            rows=read_footer(folder / name).num_rows if name.endswith(".parquet") else None,
        )
        for name in names
    }


def sample_of(manifest: Manifest, file: Path) -> dict[str, Any]:
    """Return the first row of a data file without its image; {} if there is none that may be passed on."""
    if manifest.publishes == "nothing":
        return {}
    with ParquetReader(file) as opened:
        names = [name for name in opened.schema.names if name != "image"]
        return next((dict(row) for batch in opened.batches(names, 1) for row in batch.to_pylist()), {})


def names_of(manifest: Manifest) -> dict[str, Sequence[str]]:
    """Return the names behind the numbers of columns, by column and in the order of the numbers."""
    roles, labels, nuisances = manifest.roles, manifest.labels, manifest.nuisances
    names = {"label": labels, roles.nuisance: nuisances}
    names |= {column: names for column, names in roles.example.items() if not isinstance(names, str)}
    groups = group_names(labels, nuisances, MOST_LISTED_GROUPS)
    return names | ({"group": groups} if groups else {})


def names_text(manifest: Manifest) -> str:
    """Return the text of `names.json`."""
    return json.dumps(names_of(manifest), indent=1, ensure_ascii=False) + "\n"


def write_renderings(
    folder: Path, manifest: Manifest, texts: Mapping[str, str], name: str = FILE_NAME
) -> Manifest:
    """Write the texts that differ, names.json too, and last the manifest: with one, a dataset is whole.

    A text names the `content_id`, never the hash of the manifest, which would change with the text.
    """
    files = {path: record for path, record in manifest.files.items() if path not in RENDERINGS}
    texts = {**texts, NAMES: names_text(manifest)}
    for path, text in texts.items():
        data = text.encode()
        files[path] = FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), rows=None)
    listed = replace(manifest, files=files)
    for path, text in {**texts, name: listed.to_json()}.items():
        if not (folder / path).is_file() or (folder / path).read_bytes() != text.encode():
            write_text(folder / path, text)
    return listed
