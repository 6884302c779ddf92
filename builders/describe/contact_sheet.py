"""The pictures on a dataset's card: a contact sheet of its examples, its groups, its filters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from builders.describe.written import batches, contents_of, picked
from builders.filters import judged_rows, overview
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import data_prefix, metadata_file, protocol_file
from shiftdata.data.format.schema import SPLITS
from shiftdata.evaluation.charts import (
    CELL,
    GAP,
    INK,
    PADDING,
    PAPER,
    Panel,
    draw_panels,
    font,
    margins,
    on_end,
    panel_of,
)
from shiftdata.files import whole_file
from shiftdata.stable import hash64
from shiftdata.untrusted.parquet import read_parquet
from shiftdata.untrusted.pictures import decoded_picture

MOST_ROWS, MOST_COLUMNS = 12, 14
UNTOUCHED = "content"
PREVIEW = "preview.jpg"

Numbers: TypeAlias = NDArray[np.int64]
Cell = tuple[str, int]  # base, and row of the split
Line = tuple[str, dict[int, Cell]]  # the name of a row of the sheet, and the cell in each column


def contact_sheet(folder: Path, manifest: Manifest) -> Image.Image:
    """Draw one picture a class and nuisance, along a row the same content where there is such.

    Of a continuous shift: a row a nuisance, a column a severity, along a row one trajectory. Only the images
    that are shown are read, by their byte offsets.
    """
    name, split = manifest.default_base, "train"
    file = folder / metadata_file(name, split)
    if len(manifest.severities) > 1 and name != UNTOUCHED:
        columns = [f"{step:g}" for step in manifest.severities]
        every = _trajectories(manifest, file, name)
    else:
        untouched = UNTOUCHED in {base.name for base in manifest.bases}
        columns = [*([UNTOUCHED] if untouched else []), *manifest.nuisances]
        content = folder / metadata_file(UNTOUCHED, split) if untouched else None
        every = _classes(manifest, file, name, content)
    lines, columns = list(islice(every, MOST_ROWS)), columns[:MOST_COLUMNS]
    left, top = margins([name for name, _ in lines], columns)
    step = CELL + GAP
    sheet = Image.new("RGB", (left + len(columns) * step, top + len(lines) * step), PAPER)
    drawing = ImageDraw.Draw(sheet)
    shown = {place for _, cells in lines for x, place in cells.items() if x < len(columns)}
    pictures = dict(_thumbnails(folder, split, shown))
    for x, column in enumerate(columns):
        sheet.paste(on_end(column, top, CELL), (left + x * step, 0))
    for y, (line, cells) in enumerate(lines):
        drawing.text((left - PADDING, top + y * step + CELL // 2), line, INK, font(), anchor="rm")
        for x, place in cells.items():
            if x < len(columns):
                sheet.paste(pictures[place], (left + x * step, top + y * step))
    return sheet


def _classes(manifest: Manifest, file: Path, base: str, untouched: Path | None) -> Iterator[Line]:
    """A line a class: the content picture with most nuisances, others where it has none."""
    rows = read_parquet(file, ["label", manifest.roles.nuisance])
    label, nuisance = (pc.fill_null(rows[name], -1).to_numpy() for name in rows.column_names)
    names, content = _contents(file)
    keys = read_parquet(untouched, ["key"])["key"] if untouched else None
    for number, name in enumerate(manifest.labels):
        mine = np.flatnonzero(label == number)
        shown, first = _by_nuisance(names, content[mine], nuisance[mine])
        cells = {at + int(keys is not None): (base, int(mine[row])) for at, row in shown.items()}
        if keys is not None and (row := pc.index(keys, first).as_py()) >= 0:
            cells[0] = (UNTOUCHED, row)
        yield name, cells


def _contents(file: Path) -> tuple[list[str], Numbers]:
    """The content that rows were made from: its names, and the number of each row's."""
    columns = [contents_of(batch["params"]) for batch in batches(file, ["params"])]
    coded = pa.chunked_array(columns, pa.string()).dictionary_encode().combine_chunks()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def _by_nuisance(names: Sequence[str], content: Numbers, nuisance: Numbers) -> tuple[dict[int, int], str]:
    """A row for each nuisance (-1: none), of the content with most of them where possible; and its name."""
    width = int(nuisance.max(initial=-1)) + 2
    cells, rows = np.unique(content * width + nuisance + 1, return_index=True)
    present, counts = np.unique(cells // width, return_counts=True)
    hashes = [hash64("contact-sheet", names[number]) for number in present.tolist()]
    ordered = np.lexsort((np.array(hashes, np.uint64), -counts))
    place = np.argsort(ordered)[np.searchsorted(present, cells // width)]
    shown: dict[int, int] = {}
    for at in np.argsort(place, kind="stable").tolist():
        shown.setdefault(int(cells[at]) % width - 1, int(rows[at]))
    return shown, names[present[ordered[0]]] if len(present) else ""


def _trajectories(manifest: Manifest, file: Path, base: str) -> Iterator[Line]:
    """A line a nuisance: one trajectory, of another class from line to line."""
    steps = {step: column for column, step in enumerate(manifest.severities)}
    names = ["label", manifest.roles.nuisance, "severity", "quantile"]
    rows = read_parquet(file, names)
    label, nuisance, severity, quantile = (pc.fill_null(rows[name], -1).to_numpy() for name in names)
    for number, name in enumerate(manifest.nuisances):
        mine = np.flatnonzero(nuisance == number)
        labels = np.unique(label[mine])
        cells: dict[int, Cell] = {}
        if len(labels):
            mine = mine[label[mine] == labels[number % len(labels)]]
            first = mine[quantile[mine] == quantile[mine].min()]
            cells = {steps[float(severity[row])]: (base, int(row)) for row in first}
        yield name, cells


def _thumbnails(folder: Path, split: str, places: Collection[Cell]) -> Iterator[tuple[Cell, Image.Image]]:
    """Small pictures of some rows, by base and row."""
    for base in sorted({base for base, _ in places}):
        mine = np.array(sorted(row for of, row in places if of == base))
        shards = sorted(folder.glob(f"{data_prefix(base, split)}*.parquet"))
        pointers = picked(folder / metadata_file(base, split), ["shard", "offset", "length"], mine)
        for row, pointer in zip(mine.tolist(), pointers.to_pylist(), strict=True):
            with shards[pointer["shard"]].open("rb") as stream:
                stream.seek(pointer["offset"])
                picture = decoded_picture(stream.read(pointer["length"]))
            yield (base, row), picture.resize((CELL, CELL), Image.Resampling.LANCZOS)


def write_pictures(folder: Path, manifest: Manifest) -> list[Path]:
    """Draw the pictures of a packed dataset's card into its folder."""
    drawn = {}
    if manifest.roles.modality == "image":
        drawn[PREVIEW] = contact_sheet(folder, manifest)
    panels = _panels(folder, manifest)
    if panels:
        drawn["groups.png"] = draw_panels(panels)
    if f"filters/{manifest.default_base}.parquet" in manifest.files:
        drawn["filters.png"] = overview(judged_rows(folder, manifest.default_base))
    for name, picture in drawn.items():
        with whole_file(folder / name) as temporary:
            jpeg = name.endswith(".jpg")
            picture.save(temporary, "JPEG" if jpeg else "PNG", quality=85, optimize=not jpeg)
    return [folder / name for name in drawn]


def _panels(folder: Path, manifest: Manifest) -> list[Panel]:
    """The training rows of the default base and of the largest canonical split, where they can be drawn."""
    fit = [
        (one.size.groups, split.name, name)
        for split in manifest.canonical_splits
        for name, one in split.sets.items()
        if one.roles[0] == "fit"
    ]
    base = manifest.default_base
    counts = {f"{base}, training rows": _counts(manifest, folder / metadata_file(base, "train"))}
    if fit:
        _, split, name = max(fit, key=lambda one: one[0])
        frozen = read_parquet(folder / protocol_file(split), ["key", "split"])
        keys = frozen.filter(pc.equal(frozen["split"], name))["key"]
        files = [folder / metadata_file(base, one) for one in SPLITS]
        of_splits = [_counts(manifest, file, keys.combine_chunks()) for file in files]
        counts[f"{split}, {name}"] = np.sum(of_splits, axis=0)
    panels = []
    for title, of_groups in counts.items():
        panel = panel_of(title, manifest.labels, manifest.nuisances, of_groups)
        panels += [panel] if panel else []
    uneven = [panel for panel in panels if len(np.unique(panel.shares)) > 1]
    return uneven or panels[:1]  # a square of equal numbers says nothing next to another


def _counts(manifest: Manifest, file: Path, keys: pa.Array | None = None) -> Numbers:
    """The rows of a metadata file in each group, of those with some keys."""
    shape = (len(manifest.labels), len(manifest.nuisances))
    counts = np.zeros(shape, np.int64)
    for batch in batches(file, ["group", *([] if keys is None else ["key"])]):
        rows = batch if keys is None else batch.filter(pc.is_in(batch["key"], value_set=keys))
        groups = rows["group"].drop_null().to_numpy()
        counts += np.bincount(groups, minlength=counts.size).reshape(shape)
    return counts
