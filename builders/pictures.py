"""The pictures on a dataset's card: some examples, and how many rows each group has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from builders.contact_sheet import INK, PADDING, PAPER, contact_sheet, font, margins, on_end
from builders.spool import whole_file
from shiftdata.manifest import Manifest
from shiftdata.protocols import rows_matching

PREVIEW = "preview.jpg"
GROUPS = "groups.png"
SIDE = 30
MOST_CELLS = 40  # along a side: more could not be read
NONE = (233, 233, 233)
FEW, MANY = np.array([222, 235, 247]), np.array([8, 69, 148])


@dataclass(frozen=True)
class Panel:
    """Rows counted by label and nuisance, for one config."""

    title: str
    labels: Sequence[str]
    nuisances: Sequence[str]
    counts: NDArray[np.int64]


def write_pictures(folder: Path, manifest: Manifest) -> list[Path]:
    """Draw the pictures of a packed dataset's card into its folder."""
    written = []
    if manifest.roles.modality == "image":
        sheet = contact_sheet(folder, manifest, cell=56, most=(12, 14))
        with whole_file(folder / PREVIEW) as temporary:
            sheet.save(temporary, "JPEG", quality=85)
        written.append(folder / PREVIEW)
    panels = _panels(folder, manifest)
    if panels:
        with whole_file(folder / GROUPS) as temporary:
            _side_by_side([_draw(panel) for panel in panels]).save(temporary, "PNG", optimize=True)
        written.append(folder / GROUPS)
    return written


def _panels(folder: Path, manifest: Manifest) -> list[Panel]:
    """The training rows of the default base and of the largest canonical split, where they can be drawn."""
    rows = pq.read_table(folder / f"metadata/{manifest.default_base}/train.parquet")
    found = [(manifest.default_base, rows)]
    if manifest.configs:
        largest = max(manifest.configs, key=lambda config: config.splits["train"].groups)
        found.append((largest.name, rows_matching(rows, largest.filters)))
    nuisance = manifest.roles.nuisance
    panels = []
    for title, table in found:
        kept = table.filter(table["group"].is_valid())
        labels, label = np.unique(kept["label"].to_numpy(), return_inverse=True)
        nuisances, kind = np.unique(kept[nuisance].to_numpy(), return_inverse=True)
        if not len(kept) or max(len(labels), len(nuisances)) > MOST_CELLS:
            continue
        counts = np.zeros((len(labels), len(nuisances)), dtype=np.int64)
        np.add.at(counts, (label, kind), 1)
        names = [manifest.labels[n] for n in labels], [manifest.nuisances[n] for n in nuisances]
        panels.append(Panel(f"{title}, training rows", *names, counts))
    uneven = [panel for panel in panels if panel.counts.min() < panel.counts.max()]
    return uneven or panels[:1]  # a square of equal numbers says nothing beside another


def _draw(panel: Panel) -> Image.Image:
    """A panel: one square a group, the darker the more rows, with their number."""
    left, top = margins(panel.labels, panel.nuisances)
    top += SIDE  # the title
    rows, columns = panel.counts.shape
    width = max(left + columns * SIDE, round(font().getlength(panel.title)) + PADDING)
    picture = Image.new("RGB", (width, top + rows * SIDE), PAPER)
    draw = ImageDraw.Draw(picture)
    draw.text((PADDING, SIDE // 2), panel.title, INK, font(), anchor="lm")
    for x, name in enumerate(panel.nuisances):
        picture.paste(on_end(name, top - SIDE, SIDE), (left + x * SIDE, SIDE))
    for y, name in enumerate(panel.labels):
        draw.text((left - PADDING, top + y * SIDE + SIDE // 2), name, INK, font(), anchor="rm")
        for x, count in enumerate(panel.counts[y].tolist()):
            corner = (left + x * SIDE, top + y * SIDE)
            fill, ink = _shade(count / panel.counts.max()) if count else (NONE, INK)
            draw.rectangle((*corner, corner[0] + SIDE - 2, corner[1] + SIDE - 2), fill)
            middle = (corner[0] + SIDE // 2, corner[1] + SIDE // 2)
            draw.text(middle, _short(count), ink, font(), anchor="mm")
    return picture


def _shade(share: float) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The colour of a square and of the number on it."""
    red, green, blue = (FEW + (MANY - FEW) * share).astype(int).tolist()
    return (red, green, blue), (PAPER if share > 0.5 else INK)


def _short(count: int) -> str:
    """A number of at most four signs.

    >>> [_short(count) for count in (0, 999, 1000, 12_345, 2_000_000)]
    ['0', '999', '1k', '12k', '2M']
    """
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= limit:
            return f"{count // limit}{unit}"
    return str(count)


def _side_by_side(pictures: Sequence[Image.Image]) -> Image.Image:
    width = sum(picture.width for picture in pictures) + 3 * PADDING * (len(pictures) - 1)
    sheet = Image.new("RGB", (width, max(picture.height for picture in pictures)), PAPER)
    x = 0
    for picture in pictures:
        sheet.paste(picture, (x, 0))
        x += picture.width + 3 * PADDING
    return sheet
