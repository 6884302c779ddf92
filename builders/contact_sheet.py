"""A picture of a dataset: one row a class, one column a nuisance."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image, ImageDraw, ImageFont

from shiftdata.manifest import Manifest
from shiftdata.stable import hash64

CELL = 72
GAP = 3
PADDING = 8
INK = (40, 40, 40)
PAPER = (255, 255, 255)
UNTOUCHED = "content"

Cell = tuple[str, dict[str, Any]]  # base and metadata row


def contact_sheet(folder: Path, base: str | None = None, split: str = "train") -> Image.Image:
    """Draw every class in every nuisance: along a row the same content picture, first as it is.

    Images are read by their byte offsets, so a sheet of a large dataset reads only what it shows.
    """
    manifest = Manifest.read(folder)
    name = manifest.base(base or manifest.default_base).name
    rows = _rows(folder, name, split)
    untouched = _rows(folder, UNTOUCHED, split) if UNTOUCHED in {b.name for b in manifest.bases} else None
    columns = [UNTOUCHED, *manifest.nuisances]
    sheet = _empty(manifest.labels, columns)
    left, top = margins(manifest.labels, columns)
    for y in range(len(manifest.labels)):
        content, by_nuisance = _one_content(rows.filter(pc.field("label") == y), manifest.roles.nuisance)
        cells: dict[int, Cell] = {number + 1: (name, row) for number, row in by_nuisance.items()}
        if untouched is not None:
            for row in untouched.filter(pc.field("key") == content).to_pylist():
                cells[0] = (UNTOUCHED, row)
        for x, cell in cells.items():
            sheet.paste(_thumbnail(folder, split, *cell), (left + x * (CELL + GAP), top + y * (CELL + GAP)))
    return sheet


def _rows(folder: Path, base: str, split: str) -> pa.Table:
    return pq.read_table(folder / f"metadata/{base}/{split}.parquet")


def _one_content(rows: pa.Table, nuisance: str) -> tuple[str, dict[int, dict[str, Any]]]:
    """A content picture with as many nuisances as any, and its rows by nuisance (-1: none)."""
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in rows.to_pylist():
        number = -1 if row[nuisance] is None else row[nuisance]
        found[json.loads(row["params"])["content"]].setdefault(number, row)
    if not found:
        return "", {}
    return min(found.items(), key=lambda entry: (-len(entry[1]), hash64("contact-sheet", entry[0])))


def _thumbnail(folder: Path, split: str, base: str, row: dict[str, Any]) -> Image.Image:
    shards = sorted(folder.glob(f"data/{base}/{split}-*.parquet"))
    with shards[row["shard"]].open("rb") as stream:
        stream.seek(row["offset"])
        picture = Image.open(io.BytesIO(stream.read(row["length"]))).convert("RGB")
    return picture.resize((CELL, CELL), Image.Resampling.LANCZOS)


def margins(labels: Sequence[str], columns: Sequence[str]) -> tuple[int, int]:
    """The room for names at the left and at the top, as wide as the longest."""
    widest = [max(map(_font().getlength, names)) for names in (labels, columns)]
    return round(widest[0]) + 2 * PADDING, round(widest[1]) + 2 * PADDING


def _empty(labels: Sequence[str], columns: Sequence[str]) -> Image.Image:
    """A sheet with its names and no pictures yet; column names stand on end."""
    left, top = margins(labels, columns)
    sheet = Image.new("RGB", (left + len(columns) * (CELL + GAP), top + len(labels) * (CELL + GAP)), PAPER)
    draw = ImageDraw.Draw(sheet)
    for y, label in enumerate(labels):
        draw.text((left - PADDING, top + y * (CELL + GAP) + CELL // 2), label, INK, _font(), anchor="rm")
    for x, column in enumerate(columns):
        name = Image.new("RGB", (top, CELL), PAPER)
        ImageDraw.Draw(name).text((PADDING, CELL // 2), column, INK, _font(), anchor="lm")
        sheet.paste(name.rotate(90, expand=True), (left + x * (CELL + GAP), 0))
    return sheet


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(14)
