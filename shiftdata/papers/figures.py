"""Charts for a paper: vectors of a column's width, without a title, the same bytes on every machine."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shiftdata.extras import require
from shiftdata.papers.charts import blocks_of, draw_block, shape_of
from shiftdata.papers.tables import Grid
from shiftdata.pictures import literal, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One column and two columns of a page, in inches.
WIDTHS = (3.25, 6.75)
#: Points: no text is larger.
SIZE = 7.0
STYLE = {
    "font.size": SIZE, "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False,
    "lines.linewidth": 1.0, "hatch.linewidth": 0.5, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "xtick.major.size": 2.5, "ytick.major.size": 2.5, "pdf.fonttype": 42, "svg.fonttype": "none",
}  # fmt: skip


def figure_files(rows: pa.Table, width: float, name: str) -> dict[str, bytes]:
    """The numbers as a chart, by the ending of the file: SVG with texts, PDF with its font.

    Where there are too many blocks or none to draw, an `InputError` says so. `name` begins the SVG's ids.
    """
    style = require("matplotlib.style", "a figure")
    with style.context(["default", {**STYLE, "svg.hashsalt": name}]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # the reader's fonts may have it
        figure = _figure(rows, width)
        nothing = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}
        made = {}
        for ending, names in nothing.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, metadata=dict.fromkeys(names))
            made[ending] = buffer.getvalue()
        return made


def _figure(rows: pa.Table, width: float) -> Figure:
    blocks = blocks_of(rows)
    across = 2 if width > max(WIDTHS) / 2 + 0.5 and len(blocks) > 1 else 1
    lines = [blocks[at : at + across] for at in range(0, len(blocks), across)]
    heights = [max(_height(grid, width / across) for grid in line) for line in lines]
    figure: Figure = new_figure(width, sum(heights) + 0.3)
    grid_of_axes = figure.subplots(len(lines), across, height_ratios=heights, squeeze=False)
    every = list(grid_of_axes.flat)
    for axes, grid in zip(every, blocks, strict=False):
        draw_block(axes, grid)
        if len(blocks) > 1:
            axes.set_title(grid.part, loc="left")
        elif shape_of(grid) != "points":  # there the columns are methods
            axes.set_xlabel(grid.part)
        if shape_of(grid) != "map":
            axes.set_ylabel("\n".join(one for one in (_label(rows), axes.get_ylabel()) if one))
    for axes in every[len(blocks) :]:
        axes.remove()
    _one_legend(figure, every[: len(blocks)])
    for text in figure.findobj(require("matplotlib.text", "a figure").Text):
        text.set_fontsize(min(text.get_fontsize(), SIZE))
    literal(figure)
    return figure


def _height(grid: Grid, width: float) -> float:
    """Of a block's axes, in inches."""
    return 0.6 + 0.17 * len(grid.lines) if shape_of(grid) == "map" else min(2.2, 0.6 * width)


def _label(rows: pa.Table) -> str:
    """What the numbers are, where all are of one kind."""
    kinds = {(one["metric"], one["unit"]) for one in rows.select(["metric", "unit"]).to_pylist()}
    if len(kinds) > 1:
        units = {unit for _, unit in kinds}
        return units.pop() if len(units) == 1 else ""
    ((metric, unit),) = kinds
    return f"{metric} ({unit})"


def _one_legend(figure: Figure, every: Sequence[Any]) -> None:
    """One legend above all axes, where they share it; else each above its own."""
    listed = [one.get_legend_handles_labels() for one in every]
    names = {tuple(labels) for _, labels in listed}
    for axes in every:
        if axes.get_legend() is not None:
            axes.get_legend().remove()
    if len(names) > 1:
        for axes, (handles, labels) in zip(every, listed, strict=True):
            axes.legend(handles, labels, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    elif len(listed[0][1]) > 1:
        across = max(1, round(figure.get_figwidth() / 0.95))
        figure.legend(*listed[0], loc="outside upper left", ncols=across, frameon=False, columnspacing=1.0)
