"""Pictures of a dataset: a contact sheet of its examples, and the pictures on its card."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

from builders.filters import judged_rows, overview
from shiftdata.errors import InputError
from shiftdata.files import whole_file
from shiftdata.format.manifest import Manifest
from shiftdata.format.paths import data_prefix, metadata_file, protocol_file
from shiftdata.pictures import INK, PADDING, PAPER, Panel, draw, font, margins, on_end, panel_of
from shiftdata.stable import hash64

CELL = 72
GAP = 3
UNTOUCHED = "content"
PREVIEW = "preview.jpg"

Cell = tuple[str, dict[str, Any]]  # base and metadata row
Line = tuple[str, dict[int, Cell]]  # the name of a row of the sheet, and what stands in which column


def contact_sheet(
    folder: Path,
    manifest: Manifest,
    base: str | None = None,
    split: str = "train",
    *,
    cell: int = CELL,
    most: tuple[int, int] = (100, 100),
) -> Image.Image:
    """Draw one picture a class and nuisance, along a row the same content where there is such.

    Of a continuous shift: a row a nuisance, a column a severity, along a row one trajectory. `most` limits
    rows and columns. Only the images that are shown are read, by their byte offsets.
    """
    if manifest.roles.modality != "image":
        raise InputError(f"{manifest.name} has no pictures ({manifest.roles.modality}): nothing to draw")
    name = manifest.base(base or manifest.default_base).name
    rows = pq.read_table(folder / metadata_file(name, split))
    if len(manifest.severities) > 1 and name != UNTOUCHED:
        columns = [f"{step:g}" for step in manifest.severities]
        every = _trajectories(manifest, rows, name)
    else:
        untouched = UNTOUCHED in {b.name for b in manifest.bases}
        columns = [*([UNTOUCHED] if untouched else []), *manifest.nuisances]
        content = pq.read_table(folder / metadata_file(UNTOUCHED, split)) if untouched else None
        every = _classes(manifest, rows, name, content)
    lines, columns = list(islice(every, most[0])), columns[: most[1]]
    left, top = margins([name for name, _ in lines], columns)
    step = cell + GAP
    sheet = Image.new("RGB", (left + len(columns) * step, top + len(lines) * step), PAPER)
    drawing = ImageDraw.Draw(sheet)
    for x, column in enumerate(columns):
        sheet.paste(on_end(column, top, cell), (left + x * step, 0))
    for y, (line, cells) in enumerate(lines):
        drawing.text((left - PADDING, top + y * step + cell // 2), line, INK, font(), anchor="rm")
        for x, place in cells.items():
            if x < len(columns):
                picture = _thumbnail(folder, split, *place, cell)
                sheet.paste(picture, (left + x * step, top + y * step))
    return sheet


def _classes(manifest: Manifest, rows: pa.Table, base: str, untouched: pa.Table | None) -> Iterator[Line]:
    """A line a class: the content picture with most nuisances, others where it has none."""
    for number, label in enumerate(manifest.labels):
        content, shown = _by_nuisance(rows.filter(pc.field("label") == number), manifest.roles.nuisance)
        first = int(untouched is not None)
        cells = {first + nuisance: (base, row) for nuisance, row in shown.items()}
        if untouched is not None:
            for row in untouched.filter(pc.field("key") == content).to_pylist():
                cells[0] = (UNTOUCHED, row)
        yield label, cells


def _by_nuisance(rows: pa.Table, nuisance: str) -> tuple[str, dict[int, dict[str, Any]]]:
    """The content with most nuisances, and a row for each nuisance (-1: none), its own where it has one."""
    by_content: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in rows.to_pylist():
        number = -1 if row[nuisance] is None else row[nuisance]
        by_content[json.loads(row["params"])["content"]].setdefault(number, row)
    ordered = sorted(
        by_content.items(), key=lambda entry: (-len(entry[1]), hash64("contact-sheet", entry[0]))
    )
    shown: dict[int, dict[str, Any]] = {}
    for _, mine in ordered:
        shown = mine | shown
    return (ordered[0][0] if ordered else ""), shown


def _trajectories(manifest: Manifest, rows: pa.Table, base: str) -> Iterator[Line]:
    """A line a nuisance: one trajectory, of another class from line to line."""
    steps = {step: column for column, step in enumerate(manifest.severities)}
    for number, nuisance in enumerate(manifest.nuisances):
        mine = rows.filter(pc.field(manifest.roles.nuisance) == number)
        labels = sorted(pc.unique(mine["label"]).to_pylist())
        cells: dict[int, Cell] = {}
        if labels:
            of_label = mine.filter(pc.field("label") == labels[number % len(labels)])
            first = of_label.filter(pc.field("quantile") == pc.min(of_label["quantile"]).as_py())
            cells = {steps[row["severity"]]: (base, row) for row in first.to_pylist()}
        yield nuisance, cells


def _thumbnail(folder: Path, split: str, base: str, row: dict[str, Any], side: int) -> Image.Image:
    shards = sorted(folder.glob(f"{data_prefix(base, split)}*.parquet"))
    with shards[row["shard"]].open("rb") as stream:
        stream.seek(row["offset"])
        picture = Image.open(io.BytesIO(stream.read(row["length"]))).convert("RGB")
    return picture.resize((side, side), Image.Resampling.LANCZOS)


def write_pictures(folder: Path, manifest: Manifest) -> list[Path]:
    """Draw the pictures of a packed dataset's card into its folder."""
    drawn = {}
    if manifest.roles.modality == "image":
        drawn[PREVIEW] = contact_sheet(folder, manifest, cell=56, most=(12, 14))
    panels = _panels(folder, manifest)
    if panels:
        drawn["groups.png"] = draw(panels)
    if f"filters/{manifest.default_base}.parquet" in manifest.files:
        drawn["filters.png"] = overview(judged_rows(folder, manifest.default_base))
    for name, picture in drawn.items():
        with whole_file(folder / name) as temporary:
            jpeg = name.endswith(".jpg")
            picture.save(temporary, "JPEG" if jpeg else "PNG", quality=85, optimize=not jpeg)
    return [folder / name for name in drawn]


def _panels(folder: Path, manifest: Manifest) -> list[Panel]:
    """The training rows of the default base and of the largest canonical split, where they can be drawn."""
    base = pq.read_table(folder / f"metadata/{manifest.default_base}", columns=["key", "split", "group"])
    tables = {f"{manifest.default_base}, training rows": base.filter(pc.field("split") == "train")}
    fit = [
        (one.size.groups, split.name, name)
        for split in manifest.canonical_splits
        for name, one in split.sets.items()
        if one.roles[0] == "fit"
    ]
    if fit:
        _, split, name = max(fit, key=lambda one: one[0])
        keys = pq.read_table(folder / protocol_file(split), filters=[("split", "==", name)])["key"]
        chosen = pc.is_in(base["key"], value_set=keys.combine_chunks())
        tables[f"{split}, {name}"] = base.filter(chosen)
    shape = (len(manifest.labels), len(manifest.nuisances))
    panels = []
    for title, table in tables.items():
        groups = table["group"].drop_null().to_numpy()
        counts = np.bincount(groups, minlength=shape[0] * shape[1]).reshape(shape)
        panel = panel_of(title, manifest.labels, manifest.nuisances, counts)
        panels += [panel] if panel else []
    uneven = [panel for panel in panels if len(np.unique(panel.shares)) > 1]
    return uneven or panels[:1]  # a square of equal numbers says nothing beside another
