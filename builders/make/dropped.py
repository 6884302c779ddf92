"""The report of items that a build could not use, for the owner of the data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from builders.albums import Album, LeavesOut
from builders.items import ItemTable
from builders.recipe import Recipe
from shiftdata.data.format.names import shown
from shiftdata.data.format.paths import DROPPED, protocol_file
from shiftdata.files import write_text
from shiftdata.untrusted.parquet import ParquetReader

HEADER = ("base", "what", "reason")
NO_ITEM = "*"  # the base of what never became an item: no base has it


def report_path(out: Path, name: str) -> Path:
    """Return the path of the report of unusable items for a build into `out`."""
    return out / f"{name}_dropped.tsv"


def write_report(out: Path, recipe: Recipe, folder: Path) -> None:
    """Name what the dataset in a folder lacks, a line each; where nothing is missing, no report is left."""
    rows = [[shown(cell) for cell in row] for row in _rows(recipe, folder)]  # no cell has a tab
    path = report_path(out, recipe.name)
    if rows:
        write_text(path, "".join("\t".join(row) + "\n" for row in [HEADER, *rows]))
    else:
        path.unlink(missing_ok=True)


def read_report(path: Path) -> list[tuple[str, str, str]]:
    """Base, file or row, and reason of each line; nothing where there is no report."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    return [(base, name, reason) for base, name, reason in (line.split("\t") for line in lines)]


def _rows(recipe: Recipe, folder: Path) -> Iterator[tuple[str, str, str]]:
    album = recipe.album
    if isinstance(album, LeavesOut):
        yield from ((NO_ITEM, name, why) for name, why in sorted(album.left_out.items()))
    for protocol in recipe.protocols:
        if not (folder / protocol_file(protocol.config_name)).is_file():
            yield NO_ITEM, protocol.config_name, f"not made: {protocol.words()} leaves a set without a row"
    if (folder / DROPPED).is_file():
        with ParquetReader(folder / DROPPED) as file:
            for batch in file.batches():
                places = _places(album, batch["key"])
                for row, place in zip(batch.to_pylist(), places, strict=True):
                    yield row["base"], place, row["reason"]


def _places(album: Album, keys: pa.Array) -> Iterator[str]:
    """Name the place of each item among some keys; keys of other things are what they are called."""
    items = ItemTable.of(album.items())
    rows = items.find(keys)
    for key, row in zip(keys.to_pylist(), rows.tolist(), strict=True):
        yield album.place(items[row]) if row >= 0 and isinstance(album, LeavesOut) else key
