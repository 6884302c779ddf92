"""Charts, every one that is drawn: bars, lines and points with intervals, heat maps; as pixels or SVG.

chart, svg_chart              the blocks of tables, as a figure and as an element of a page
new_figure, drawn_figure      an empty figure of one's own, and the picture of one
Panel, draw_panels            heat maps of groups, drawn with Pillow alone
panel_html                    the same as a table of HTML
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.tables import Block, Table
from shiftdata.untrusted.pictures import open_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values: TypeAlias = NDArray[np.float64]
#: Okabe and Ito's blue and vermilion, which colour-blind readers distinguish, and others of their lightness.
#: Each has a contrast of 3 at least with a light page, a dark one, and the ink of both, which replaces black.
COLOURS = ("#0072B2", "#D55E00", "#008C66", "#B9638F", "#9A7200", "#7D6FC7", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DPI = 120
#: Names below an axis that stand level: that many, of that many characters an inch.
MOST_LEVEL, SIGNS = 6, 10
#: Beyond these a block of bars or lines becomes a heat map, and a name is cut.
MOST_BARS, MOST_LINES, MOST_BLOCKS, MOST_SIGNS = 64, 12, 12, 28
#: Of a chart on a page, in inches: the style makes it so wide that its smallest text, of 8 points, has 11 px.
PAGE_WIDTH = 6
SMALL = 8
#: The side of a picture of a contact sheet, and the gap after it; the last one is at the lower right.
CELL, GAP = 56, 3

# Heat maps of Pillow, in pixels: the darker a square, the larger its number.
PADDING = 8
SIDE = 30
INK = (40, 40, 40)
PAPER = (255, 255, 255)
NONE = (233, 233, 233)
FEW, MANY = np.array([222, 235, 247]), np.array([8, 69, 148])
MOST_CELLS = 40  # along a side: more could not be read


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, its size in inches."""
    figure = require("matplotlib.figure", "a chart").Figure
    empty: Figure = figure(figsize=(width, height), layout="constrained")
    return empty


def drawn_figure(figure: Figure, dpi: int = DPI) -> Image.Image:
    """Return the picture of a figure; equal figures give equal pixels and no trace of the machine."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    with open_picture(buffer.getvalue()) as picture:
        picture.load()
        return picture


def chart(tables: Sequence[Table], width: float = 11, cited: str = "", *, titles: bool = True) -> Figure:
    """Draw one chart a block, below each other, of a width in inches, with the line `cited` under them."""
    blocks = _blocks(tables)
    # A heat map grows with its lines.
    heights = [1.2 + 0.22 * len(block.body) if _shape(block) == "map" else 3.6 for _, block in blocks]
    figure = new_figure(width, sum(heights) + 0.5)
    every, last = np.concatenate([_numbers(block)[0].ravel() for _, block in blocks]), ""
    ends = (float(np.nanmin(every)), float(np.nanmax(every)))
    axes_of_blocks = figure.subplots(len(blocks), height_ratios=heights, squeeze=False).flat
    for axes, (title, block) in zip(axes_of_blocks, blocks, strict=True):
        _draw(axes, block, ends)
        axes.spines[["top", "right"]].set_visible(False)
        part = block.part if titles or len(blocks) > 1 else ""  # a page has it in the table below
        lines_above = (title if titles and title != last else "", part)
        axes.set_title("\n".join(filter(None, lines_above)), loc="left", fontsize=10)
        last = title
    same = [axes for axes, (_, block) in zip(figure.axes, blocks, strict=True) if _shape(block) != "map"]
    if len(tables) == 1 and same:  # the blocks of a table have one unit
        low, high = zip(*(axes.get_ylim() for axes in same), strict=True)
        for axes in same:
            axes.set_ylim(min(low), max(high))
    if cited:
        figure.supxlabel(cited, fontsize=6, color="0.4")
    for text in figure.findobj(require("matplotlib.text", "a chart").Text):
        text.set_parse_math(False)  # dollar signs in names are no formulas
    return figure


def svg_chart(table: Table, name: str) -> str:
    """Return a table as an SVG element; "" where its numbers are too many to read, or a single one.

    `name` begins its ids. What is black in it has the colour of the page's text; its texts stay texts, in the
    page's font. It has attributes and no styles, which a strict policy forbids. Equal tables give equal
    elements.
    """
    if not table.drawable:
        return ""
    buffer = io.StringIO()
    settings = {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": SMALL}
    try:
        with require("matplotlib", "a chart").rc_context(settings), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from")  # the reader's fonts may have it
            width, of_machine = PAGE_WIDTH, dict.fromkeys(("Creator", "Date", "Format", "Type"))
            figure = table.figure(width=width) if table.figure else chart([table], width, titles=False)
            figure.savefig(buffer, format="svg", transparent=True, metadata=of_machine)
    except InputError:
        return ""
    text = buffer.getvalue()
    text = re.sub(r"<(metadata|style).*?</\1>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: _without_styles(tag[0], name), text)
    size = re.search(r'viewBox="[^"]*"', text)
    assert size is not None
    label = html.escape(f"Chart of {table.title}. The same numbers are in the table below.")
    begin = f'<svg {size[0]} role="img" aria-label="{label}" stroke-linejoin="round" stroke-linecap="butt">'
    return f"{begin}<title>{label}</title>{text[text.index('>') + 1 :].strip()}"


def _without_styles(tag: str, name: str) -> str:
    """Return a tag with the declarations of its style as attributes, and its ids under a name."""
    tag = tag.replace("xlink:href", "href").replace("#000000", "currentColor")
    tag = re.sub(r'(?<= id=")|(?<=href="#)|(?<=url\(#)', f"{name}-", tag)
    if (style := re.search(r'style="([^"]*)"', tag)) is None:
        return tag
    pairs = [pair.partition(": ") for pair in style[1].split("; ") if ": " in pair]
    return tag.replace(
        style[0], " ".join(f'{key}="{value}"' for key, _, value in pairs if key != "font-family")
    )


def _blocks(tables: Sequence[Table]) -> list[tuple[str, Block]]:
    """Return the blocks that a figure shows, each with the title of its table."""
    blocks = [(table.title, _for_eyes(block)) for table in tables for block in table.drawn]
    if not 1 <= len(blocks) <= MOST_BLOCKS:
        raise InputError(
            f"a picture shows 1 to {MOST_BLOCKS} blocks, these results have {len(blocks)}: "
            "choose a table or a part, as in published('nico++', 2)"
        )
    return blocks


def _for_eyes(block: Block) -> Block:
    """Return a block without totals and spreads, with names that leave room for the numbers."""
    shown = [0, *(at for at, name in enumerate(block.columns, 1) if name not in ("Total", "Std"))]
    body = ((_short(line[0]), *(line[at] for at in shown[1:])) for line in block.body)
    header = (block.part, *(_short(block.header[at]) for at in shown[1:]))
    return Block(header, tuple(body))


def _short(name: str) -> str:
    lines = name.splitlines()
    return "\n".join(line if len(line) <= MOST_SIGNS else f"{line[: MOST_SIGNS - 3]}..." for line in lines)


def _shape(block: Block) -> str:
    """Lines along a scale, bars, or a heat map."""
    if len(block.body) <= MOST_LINES and len(_scale(block)) > 2:
        return "lines"
    return "bars" if len(block.body) * len(block.columns) <= MOST_BARS else "map"


def _scale(block: Block) -> list[int]:
    """Return the columns that are steps of a scale, such as severities, or settings of one parameter."""
    step = re.compile(r"(Alpha = \w+(\.\d)?|\d+(\.\d+)?)")
    steps = [place for place, name in enumerate(block.columns) if step.fullmatch(name)]
    return steps if len(steps) >= len(block.columns) - 1 else []


def _numbers(block: Block) -> tuple[Values, Values]:
    """Return the numbers of a block and their spreads; nan where a cell has none."""
    cells = [
        [(*map(float, filter(None, cell.split("±"))), np.nan, np.nan)[:2] for cell in line]
        for _, *line in block.body
    ]
    values, spreads = np.moveaxis(np.array(cells, dtype=float), 2, 0)
    return values, spreads


def _draw(axes: Axes, block: Block, ends: tuple[float, float]) -> None:
    """Draw a block in the shape that fits it; `ends` are those of the scale of all heat maps of a figure."""
    values, spreads = _numbers(block)
    rows, shape = [name for name, *_ in block.body], _shape(block)
    if shape == "bars":
        _bars(axes, rows, block.columns, values, spreads)
    elif shape == "lines":
        scale = _scale(block)
        _lines(axes, rows, [block.columns[place] for place in scale], values[:, scale], spreads[:, scale])
    else:
        _map(axes, rows, block.columns, values, ends)


def _bars(axes: Axes, groups: Sequence[str], series: Sequence[str], values: Values, errors: Values) -> None:
    """Draw groups of bars: a row of the values a group, a column a series."""
    width = 0.8 / len(series)
    for place, name in enumerate(series):
        axes.bar(
            np.arange(len(groups)) + (place - (len(series) - 1) / 2) * width, values[:, place], width,
            label=name, yerr=_known(errors[:, place]), capsize=2,
            color=COLOURS[place % len(COLOURS)], hatch=("", "//")[place // len(COLOURS) % 2],
        )  # fmt: skip
    longest = max((len(line) for name in groups for line in name.splitlines()), default=0)
    room = SIGNS * _width(axes)
    crowded = len(groups) > MOST_LEVEL or longest * len(groups) > room
    turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if crowded else {}
    axes.set_xticks(np.arange(len(groups)), groups, **turned)
    if len(series) > 1:
        axes.legend(fontsize=SMALL, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _lines(axes: Axes, series: Sequence[str], scale: Sequence[str], values: Values, errors: Values) -> None:
    """Draw lines over the steps of a scale, evenly spaced: a row of the values a line."""
    for place, name in enumerate(series):
        axes.errorbar(
            range(len(scale)), values[place], _known(errors[place]), markersize=4,
            marker=MARKERS[(place + place // len(COLOURS)) % len(MARKERS)],
            capsize=3, label=name, color=COLOURS[place % len(COLOURS)],
            linestyle=("-", "--")[place // len(COLOURS) % 2],
        )  # fmt: skip
    axes.set_xticks(range(len(scale)), scale)
    axes.legend(fontsize=SMALL, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _known(errors: Values) -> Values | None:
    return errors if np.isfinite(errors).any() else None


def _map(
    axes: Axes, rows: Sequence[str], columns: Sequence[str], values: Values, ends: tuple[float, float]
) -> None:
    """Draw squares between two ends, the bluer the larger: a page's ink is legible on all, light or dark."""
    colours = require("matplotlib.colors", "a chart")
    blues = colours.ListedColormap(
        [(*colours.to_rgb(COLOURS[0]), alpha) for alpha in np.linspace(0.06, 0.7, 65)]
    )
    edges = [np.arange(size + 1) - 0.5 for size in values.shape[::-1]]
    axes.pcolormesh(*edges, values, cmap=blues, vmin=ends[0], vmax=ends[1])
    axes.invert_yaxis()
    fits = len(columns) * SIGNS <= MOST_SIGNS * _width(axes)
    for (row, column), value in np.ndenumerate(values) if fits else ():
        if np.isfinite(value):
            axes.text(column, row, f"{value:g}", ha="center", va="center", fontsize=SMALL)
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right", fontsize=SMALL)
    axes.set_yticks(range(len(rows)), rows, fontsize=SMALL)


# Heat maps of counts.


@dataclass(frozen=True)
class Panel:
    """A square for each label and nuisance: how dark it is, from 0 to 1 (nan: without rows), and its text."""

    title: str
    labels: Sequence[str]
    nuisances: Sequence[str]
    shares: NDArray[np.float64]
    texts: Sequence[Sequence[str]]


def _width(axes: Axes) -> float:
    """Return the inches of the figure that axes are on."""
    figure = axes.get_figure(root=True)
    assert figure is not None  # they were made with one
    return float(figure.get_figwidth())


def panel_of(
    title: str,
    labels: Sequence[str],
    nuisances: Sequence[str],
    counts: NDArray[np.int64],
    most: int | None = None,
) -> Panel | None:
    """Return a panel of the labels and nuisances with rows; None if there are none, or too many to read.

    A square of `most` rows is the darkest. [default: the largest count]
    """
    rows, columns = (np.flatnonzero(counts.any(axis=axis)).tolist() for axis in (1, 0))
    if not rows or max(len(rows), len(columns)) > MOST_CELLS:
        return None
    shown = counts[np.ix_(rows, columns)]
    shares = np.where(shown > 0, shown / (most or shown.max()), np.nan)
    texts = [[_brief(count) for count in row] for row in shown.tolist()]
    return Panel(title, [labels[y] for y in rows], [nuisances[x] for x in columns], shares, texts)


def panel_html(panel: Panel) -> str:
    """Return a panel as a table, on a light page or a dark one: the bluer a square, the larger its number."""
    upright = "padding:4px;min-width:0;writing-mode:vertical-rl;transform:rotate(180deg);text-align:left"
    square = "padding:4px 6px;min-width:0;text-align:center;background-color:rgba(0,114,178"
    heads = (f'<th scope="col" style="{upright}">{html.escape(name)}</th>' for name in panel.nuisances)
    lines = [f"<table><caption>{html.escape(panel.title)}</caption><tr><td></td>{''.join(heads)}</tr>"]
    shares = np.nan_to_num(0.7 * panel.shares).tolist()
    for label, opacities, texts in zip(panel.labels, shares, panel.texts, strict=True):
        lines.append(f'<tr><th scope="row" style="padding:4px 6px">{html.escape(label)}</th>')
        for opacity, text in zip(opacities, texts, strict=True):
            lines.append(f'<td style="{square},{opacity:.2f})">{html.escape(text)}</td>')
        lines.append("</tr>")
    return "\n".join([*lines, "</table>"])


def draw_panels(panels: Sequence[Panel]) -> Image.Image:
    """Draw panels side by side."""
    pictures, gap = [_drawn_panel(panel) for panel in panels], 3 * PADDING
    width = sum(picture.width + gap for picture in pictures) - gap
    sheet, x = Image.new("RGB", (width, max(picture.height for picture in pictures)), PAPER), 0
    for picture in pictures:
        sheet.paste(picture, (x, 0))
        x += picture.width + gap
    return sheet


def _drawn_panel(panel: Panel) -> Image.Image:
    left, top = margins(panel.labels, panel.nuisances)
    top += SIDE  # the title
    rows, columns = panel.shares.shape
    width = max(left + columns * SIDE, _widest([panel.title]) + PADDING)
    picture = Image.new("RGB", (width, top + rows * SIDE), PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text((PADDING, SIDE // 2), panel.title, INK, font(), anchor="lm")
    for x, name in enumerate(panel.nuisances):
        picture.paste(on_end(name, top - SIDE, SIDE), (left + x * SIDE, SIDE))
    for y, name in enumerate(panel.labels):
        pen.text((left - PADDING, top + y * SIDE + SIDE // 2), name, INK, font(), anchor="rm")
        for x, share in enumerate(panel.shares[y].tolist()):
            right, down, ink = left + x * SIDE, top + y * SIDE, PAPER if share > 0.5 else INK
            fill = NONE if np.isnan(share) else tuple((FEW + (MANY - FEW) * share).astype(int).tolist())
            pen.rectangle((right, down, right + SIDE - 2, down + SIDE - 2), fill)
            pen.text((right + SIDE // 2, down + SIDE // 2), panel.texts[y][x], ink, font(), anchor="mm")
    return picture


def _brief(count: int) -> str:
    """Write a number in at most four characters.

    >>> [_brief(count) for count in (0, 999, 1000, 12_345, 2_000_000)]
    ['0', '999', '1k', '12k', '2M']
    """
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= limit:
            return f"{count // limit}{unit}"
    return str(count)


def margins(rows: Sequence[str], columns: Sequence[str]) -> tuple[int, int]:
    """Return the room for names at the left and at the top, as wide as the longest."""
    return _widest(rows) + 2 * PADDING, _widest(columns) + 2 * PADDING


def on_end(name: str, length: int, width: int) -> Image.Image:
    """Draw a name that is written upwards."""
    strip = Image.new("RGB", (length, width), PAPER)
    ImageDraw.Draw(strip).text((PADDING, width // 2), name, INK, font(), anchor="lm")
    return strip.rotate(90, expand=True)


def _widest(names: Iterable[str]) -> int:
    return round(max(map(font().getlength, names), default=0))


@cache
def font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font that comes with Pillow: the same on every machine."""
    return ImageFont.load_default(14)
