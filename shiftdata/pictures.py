"""Pictures: heat maps of how many rows each group has, drawn with Pillow; figures of matplotlib.

In a heat map labels are in rows, nuisances in columns; the darker a square, the more rows.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from shiftdata.extras import require

PADDING = 8
INK = (40, 40, 40)
PAPER = (255, 255, 255)
SIDE = 30
MOST_CELLS = 40  # along a side: more could not be read
NONE = (233, 233, 233)
FEW, MANY = np.array([222, 235, 247]), np.array([8, 69, 148])


@dataclass(frozen=True)
class Panel:
    """Rows counted by label and nuisance."""

    title: str
    labels: Sequence[str]
    nuisances: Sequence[str]
    counts: NDArray[np.int64]


def panel_of(
    title: str, labels: Sequence[str], nuisances: Sequence[str], counts: NDArray[np.int64]
) -> Panel | None:
    """A panel of the labels and nuisances that have rows; None where there are none or too many to read."""
    rows = np.flatnonzero(counts.any(axis=1)).tolist()
    columns = np.flatnonzero(counts.any(axis=0)).tolist()
    if not rows or max(len(rows), len(columns)) > MOST_CELLS:
        return None
    shown = counts[np.ix_(rows, columns)]
    return Panel(title, [labels[y] for y in rows], [nuisances[x] for x in columns], shown)


def draw(panels: Sequence[Panel]) -> Image.Image:
    """Panels side by side."""
    pictures, gap = [_drawn(panel) for panel in panels], 3 * PADDING
    width = sum(picture.width for picture in pictures) + gap * (len(pictures) - 1)
    sheet = Image.new("RGB", (width, max(picture.height for picture in pictures)), PAPER)
    x = 0
    for picture in pictures:
        sheet.paste(picture, (x, 0))
        x += picture.width + gap
    return sheet


def widest(names: Iterable[str]) -> int:
    """The width of the longest of some texts, in pixels."""
    return round(max(map(font().getlength, names), default=0))


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure, in inches."""
    figures = require("matplotlib.figure", "a chart")
    return figures.Figure(figsize=(width, height), layout="constrained")


def drawn_figure(figure: Any, dpi: int) -> Image.Image:
    """The picture of a figure; equal figures give equal pixels and no trace of the machine."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return Image.open(buffer)


def margins(rows: Sequence[str], columns: Sequence[str]) -> tuple[int, int]:
    """The room for names at the left and at the top, as wide as the longest."""
    return widest(rows) + 2 * PADDING, widest(columns) + 2 * PADDING


def on_end(name: str, length: int, width: int) -> Image.Image:
    """A name written upwards."""
    strip = Image.new("RGB", (length, width), PAPER)
    ImageDraw.Draw(strip).text((PADDING, width // 2), name, INK, font(), anchor="lm")
    return strip.rotate(90, expand=True)


@cache
def font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font that comes with Pillow: the same on every machine."""
    return ImageFont.load_default(14)


def _drawn(panel: Panel) -> Image.Image:
    left, top = margins(panel.labels, panel.nuisances)
    top += SIDE  # the title
    rows, columns = panel.counts.shape
    width = max(left + columns * SIDE, widest([panel.title]) + PADDING)
    picture = Image.new("RGB", (width, top + rows * SIDE), PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text((PADDING, SIDE // 2), panel.title, INK, font(), anchor="lm")
    for x, name in enumerate(panel.nuisances):
        picture.paste(on_end(name, top - SIDE, SIDE), (left + x * SIDE, SIDE))
    for y, name in enumerate(panel.labels):
        pen.text((left - PADDING, top + y * SIDE + SIDE // 2), name, INK, font(), anchor="rm")
        for x, count in enumerate(panel.counts[y].tolist()):
            corner = (left + x * SIDE, top + y * SIDE)
            fill, ink = _shade(count / panel.counts.max()) if count else (NONE, INK)
            pen.rectangle((*corner, corner[0] + SIDE - 2, corner[1] + SIDE - 2), fill)
            middle = (corner[0] + SIDE // 2, corner[1] + SIDE // 2)
            pen.text(middle, _short(count), ink, font(), anchor="mm")
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
