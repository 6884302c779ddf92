"""Pictures: heat maps of a number for each group, drawn with Pillow; bars and lines of matplotlib.

In a heat map labels are in rows, nuisances in columns; the darker a square, the larger its number.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from shiftdata.extras import require

Values: TypeAlias = NDArray[np.float64]
PADDING = 8
INK = (40, 40, 40)
PAPER = (255, 255, 255)
SIDE = 30
MOST_CELLS = 40  # along a side: more could not be read
NONE = (233, 233, 233)
FEW, MANY = np.array([222, 235, 247]), np.array([8, 69, 148])
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DPI = 120
MOST_LEVEL, SIGNS = 6, 10  # names below an axis, and their signs an inch, that stand level
#: Okabe and Ito's colours, which most colour-blind readers can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#000000", "#F0E442")


@dataclass(frozen=True)
class Panel:
    """A square for each label and nuisance: how dark it is, from 0 to 1 (nan: without rows), and its text."""

    title: str
    labels: Sequence[str]
    nuisances: Sequence[str]
    shares: NDArray[np.float64]
    texts: Sequence[Sequence[str]]


def panel_of(
    title: str,
    labels: Sequence[str],
    nuisances: Sequence[str],
    counts: NDArray[np.int64],
    most: int | None = None,
) -> Panel | None:
    """A panel of counts, of what has rows; None where nothing has or there is too much to read.

    A square of `most` rows is the darkest. [default: the largest count]
    """
    rows, columns = (np.flatnonzero(counts.any(axis=axis)).tolist() for axis in (1, 0))
    if not rows or max(len(rows), len(columns)) > MOST_CELLS:
        return None
    shown = counts[np.ix_(rows, columns)]
    names = [labels[y] for y in rows], [nuisances[x] for x in columns]
    shares = np.where(shown > 0, shown / (most or shown.max()), np.nan)
    return Panel(title, *names, shares, [[_short(count) for count in row] for row in shown.tolist()])


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


def drawn_figure(figure: Any, dpi: int = DPI) -> Image.Image:
    """The picture of a figure; equal figures give equal pixels and no trace of the machine."""
    buffer = io.BytesIO()
    literal(figure)
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return Image.open(buffer)


def svg_figure(figure: Any, name: str, about: str) -> str:
    """A figure as an SVG element for a page: `name` begins its ids, `about` is what it shows.

    What is black in it has the colour of the page's text; its texts stay texts, in the page's font. It has
    attributes and no styles, which a strict policy forbids. Equal figures give equal elements.
    """
    rc_context = require("matplotlib", "a chart").rc_context
    buffer = io.StringIO()
    literal(figure)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # the reader's fonts may have it
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], count=1, flags=re.DOTALL)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: _without_styles(tag[0], name), text)
    size = re.search(r'viewBox="[^"]*"', text)
    assert size is not None
    said = html.escape(about)
    begin = f'<svg {size[0]} role="img" aria-label="{said}" stroke-linejoin="round" stroke-linecap="butt">'
    return f"{begin}<title>{said}</title>{text[text.index('>') + 1 :].strip()}"


def _without_styles(tag: str, name: str) -> str:
    """A tag with the declarations of its style as attributes, and its ids under a name."""
    tag = tag.replace("xlink:href", "href").replace("#000000", "currentColor")
    tag = re.sub(r'(?<= id=")|(?<=href="#)|(?<=url\(#)', f"{name}-", tag)
    style = re.search(r'style="([^"]*)"', tag)
    if style is None:
        return tag
    pairs = [one.partition(": ") for one in style[1].split("; ") if ": " in one]
    said = " ".join(f'{one}="{value}"' for one, _, value in pairs if one != "font-family")
    return tag.replace(style[0], said)


def literal(figure: Any) -> None:
    """Show dollar signs in names as they are, instead of reading formulas between them."""
    for text in figure.findobj(require("matplotlib.text", "a chart").Text):
        text.set_parse_math(False)


def bars(
    axes: Any, groups: Sequence[str], series: Sequence[str], values: Values, errors: Values | None = None
) -> None:
    """Groups of bars on some axes: a row of the values a group, a column a series."""
    width = 0.8 / len(series)
    for place, name in enumerate(series):
        axes.bar(
            np.arange(len(groups)) + (place - (len(series) - 1) / 2) * width, values[:, place], width,
            label=name, yerr=_known(errors, (slice(None), place)), capsize=2,
            color=COLOURS[place % len(COLOURS)], hatch=("", "//")[place // len(COLOURS) % 2],
        )  # fmt: skip
    named(axes, groups)
    if len(series) > 1:
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def named(axes: Any, names: Sequence[str]) -> None:
    """Names below an axis, turned where they have no room beside each other."""
    longest = max((len(line) for name in names for line in name.splitlines()), default=0)
    crowded = len(names) > MOST_LEVEL or longest * len(names) > SIGNS * axes.figure.get_figwidth()
    turned = {"rotation": 30, "ha": "right"} if crowded else {}
    axes.set_xticks(np.arange(len(names)), names, **turned)


def lines(
    axes: Any, series: Sequence[str], scale: Sequence[str], values: Values, errors: Values | None = None
) -> None:
    """Lines over the steps of a scale, evenly spaced: a row of the values a line."""
    for place, name in enumerate(series):
        axes.errorbar(
            range(len(scale)), values[place], _known(errors, place), markersize=4,
            marker=MARKERS[(place + place // len(COLOURS)) % len(MARKERS)],
            capsize=3, label=name, color=COLOURS[place % len(COLOURS)],
            linestyle=("-", "--")[place // len(COLOURS) % 2],
        )  # fmt: skip
    axes.set_xticks(range(len(scale)), scale)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _known(errors: Values | None, part: Any) -> Values | None:
    return errors[part] if errors is not None and np.isfinite(errors[part]).any() else None


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
    rows, columns = panel.shares.shape
    width = max(left + columns * SIDE, widest([panel.title]) + PADDING)
    picture = Image.new("RGB", (width, top + rows * SIDE), PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text((PADDING, SIDE // 2), panel.title, INK, font(), anchor="lm")
    for x, name in enumerate(panel.nuisances):
        picture.paste(on_end(name, top - SIDE, SIDE), (left + x * SIDE, SIDE))
    for y, name in enumerate(panel.labels):
        pen.text((left - PADDING, top + y * SIDE + SIDE // 2), name, INK, font(), anchor="rm")
        for x, share in enumerate(panel.shares[y].tolist()):
            corner = (left + x * SIDE, top + y * SIDE)
            fill, ink = (NONE, INK) if np.isnan(share) else _shade(share)
            pen.rectangle((*corner, corner[0] + SIDE - 2, corner[1] + SIDE - 2), fill)
            middle = (corner[0] + SIDE // 2, corner[1] + SIDE // 2)
            pen.text(middle, panel.texts[y][x], ink, font(), anchor="mm")
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
