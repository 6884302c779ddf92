"""Write the plan of a base: once, by the process that packs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from xxhash import xxh3_128

from builders.make.gather import Gathered
from builders.make.packing.plan import FILES, PREFIX, ROWS_AT_ONCE, RUNS, Plan
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.writer import BYTES_OF_ROW, shards_of
from shiftdata.files import clear_when_full, remove

BYTES_OF_RUN = 64 << 20
HASH_DIGITS = 16


def write_plan(
    work: Path,
    manifest: Manifest,
    base: str,
    blocks: Sequence[str],
    gathered: Gathered,
    groups: Mapping[str, Sequence[IntArray]],
    part_of: IntArray,
    versions: Mapping[str, str],
) -> tuple[Plan, bool]:
    """Write the plan of a base below `work`; return it, and False if a killed process has left the same.

    `groups` has the row groups of each split as numbers of gathered rows, `part_of` the set of each row.
    """
    order = np.concatenate([group for of_split in groups.values() for group in of_split])
    places = np.full(sum(gathered.counts), -1)
    places[gathered.number[order]] = np.arange(len(order))
    sizes = gathered.rows["size"].to_numpy().astype(np.int64)[order]
    counts = {split: np.array([len(group) for group in of_split]) for split, of_split in groups.items()}
    splits, shards, row, first = dict[str, Sequence[int]](), list[tuple[int, int]](), 0, 0
    for split, of_split in counts.items():
        rows_here = int(of_split.sum())
        parts = [part_of[members[0]] for members in groups[split]]
        cut = shards_of(base, split, sizes[row : row + rows_here], of_split, parts)
        begins = accumulate((len(shard.groups) for shard in cut), initial=first)
        shards += [(shard.start, begin) for shard, begin in zip(cut, begins, strict=False)]
        splits[split] = rows_here, len(of_split), len(cut)
        row, first = row + rows_here, first + len(of_split)
    begins_of_blocks = np.cumsum([0, *gathered.counts])
    numbers = {
        "groups": np.concatenate([*counts.values()]),
        "places": places,
        "run_blocks": _cut_into_runs(begins_of_blocks, places, sizes),
        "shards": np.array(shards),
        "sizes": sizes,
    }
    about = {"base": base, "splits": splits, "versions": dict(versions)}
    unfinished = work / f".{PREFIX}{secrets.token_hex(4)}"
    unfinished.mkdir(parents=True)
    try:
        with clear_when_full(unfinished):
            rows = gathered.rows.drop_columns(["size"])
            stretches = (order[start : start + ROWS_AT_ONCE] for start in range(0, len(order), ROWS_AT_ONCE))
            _write_table(unfinished / "rows.arrow", (rows.take(pa.array(stretch)) for stretch in stretches))
            _write_table(unfinished / "items.arrow", [gathered.items])
            names = pa.array([*blocks, None], pa.string())
            _write_table(unfinished / "blocks.arrow", [pa.table({"name": names, "begin": begins_of_blocks})])
            for name, values in numbers.items():
                values.astype(np.int64).tofile(unfinished / name)
            (unfinished / "plan.json").write_text(json.dumps(about))
            for name in (RUNS, FILES):
                (unfinished / name).mkdir()
        folder = work / f"{PREFIX}{_hash_of(unfinished)}"
        if is_new := not folder.exists():
            unfinished.rename(folder)
        return Plan(folder, manifest), is_new
    finally:
        remove(unfinished)


def _cut_into_runs(begins: IntArray, places: IntArray, sizes: IntArray) -> IntArray:
    """Cut blocks into stretches of about `BYTES_OF_RUN`, each row with `BYTES_OF_ROW` more; return where."""
    of_row = np.append(sizes, 0)[places] + BYTES_OF_ROW
    ends = np.concatenate([[0], np.cumsum(of_row)])[begins[1:]]
    cuts = np.flatnonzero(np.diff((ends - 1) // BYTES_OF_RUN)) + 1
    return np.array([0, *cuts.tolist(), len(ends)])


def _write_table(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables of one schema, each as a batch."""
    pieces = iter(tables)
    first = next(pieces)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, first.schema) as writer:
        for table in chain([first], pieces):
            writer.write_table(table.combine_chunks())


def _hash_of(folder: Path) -> str:
    """A hash of the files of a plan."""
    digest = xxh3_128()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()[:HASH_DIGITS]
