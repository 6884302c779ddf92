"""Charts of results: bars with their spread, lines along a scale, heat maps of large blocks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from PIL import Image

from shiftdata.errors import InputError
from shiftdata.papers.numbers import PAPERS, citation, read_number
from shiftdata.papers.tables import Grid, grids
from shiftdata.pictures import COLOURS, bars, drawn_figure, lines, named, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS, MOST_LINES, MOST_BLOCKS, MOST_SIGNS = 64, 12, 12, 28


def draw(rows: pa.Table) -> Image.Image:
    """One chart a block, below each other; the paper is named under them."""
    return drawn_figure(charts(rows))


def charts(rows: pa.Table, width: float = 11) -> Figure:
    """The figure that `draw` makes a picture of, of a width in inches."""
    blocks = blocks_of(rows)
    figure = _figure(blocks, width)
    for place, (grid, axes) in enumerate(zip(blocks, figure.axes, strict=True)):
        draw_block(axes, grid)
        new = place == 0 or grid.title != blocks[place - 1].title
        title = grid.title if new else ""
        axes.set_title("\n".join(text for text in (title, grid.part) if text), loc="left", fontsize=10)
    cited = {citation(grid.paper) for grid in blocks if grid.paper in PAPERS}
    figure.supxlabel("\n".join(sorted(cited)), fontsize=6, color="0.4")
    return figure


def blocks_of(rows: pa.Table) -> list[Grid]:
    """The blocks that a figure shows, as they are drawn."""
    blocks = [_for_eyes(grid) for grid in grids(_of_one_unit(rows)) if grid.table != "text"]
    if not 1 <= len(blocks) <= MOST_BLOCKS:
        raise InputError(
            f"a picture shows 1 to {MOST_BLOCKS} blocks, these results have {len(blocks)}: "
            "choose a table or a part, as in published('nico++', 2)"
        )
    return blocks


def draw_block(axes: Axes, grid: Grid) -> None:
    """A block on some axes, in the shape that fits it."""
    {"points": _points, "lines": _lines, "bars": _bars, "map": _map}[shape_of(grid)](axes, grid)


def _of_one_unit(rows: pa.Table) -> pa.Table:
    """The numbers of the most frequent unit of each table: ranks beside per cents have no scale."""
    units: dict[tuple[str, str], Counter[str]] = {}
    listed = rows.select(["paper", "table", "unit"]).to_pylist()
    for row in listed:
        units.setdefault((row["paper"], row["table"]), Counter())[row["unit"]] += 1
    kept = [units[row["paper"], row["table"]].most_common(1)[0][0] == row["unit"] for row in listed]
    return rows.filter(pa.array(kept, pa.bool_()))


def _for_eyes(grid: Grid) -> Grid:
    """A block without totals and spreads; where each row has columns of its own, by their number."""
    kept = [place for place, name in enumerate(grid.columns) if name not in ("Total", "Std")]
    lines = [(row, tuple(cells[place] for place in kept)) for row, cells in grid.lines]
    filled = sum(bool(cell) for _, cells in lines for cell in cells)
    columns = tuple(grid.columns[place] for place in kept)
    if filled < 0.25 * len(lines) * len(columns):
        numbers = [name.split()[0] for name in columns]  # "3 on track" is the third domain of its row
        columns = tuple(sorted(set(numbers), key=lambda name: (len(name), name)))
        own = [
            (row, {name: one for name, one in zip(numbers, cells, strict=True) if one})
            for row, cells in lines
        ]
        lines = [(row, tuple(cells.get(name, "") for name in columns)) for row, cells in own]
    return replace(
        grid, columns=tuple(map(_short, columns)), lines=tuple((_short(row), cells) for row, cells in lines)
    )


def _short(name: str) -> str:
    """A name that leaves room for what it names."""
    return name if len(name) <= MOST_SIGNS else f"{name[: MOST_SIGNS - 3]}..."


def _figure(blocks: Sequence[Grid], width: float) -> Figure:
    """An empty figure, as high as its blocks need."""
    heights = [1.2 + 0.22 * len(grid.lines) if shape_of(grid) == "map" else 3.6 for grid in blocks]
    figure: Figure = new_figure(width, sum(heights) + 0.5)
    figure.subplots(len(blocks), 1, height_ratios=heights, squeeze=False)
    return figure


def shape_of(grid: Grid) -> str:
    """Points of scenarios under their mean, lines along a scale, bars, or a heat map."""
    names = [row for row, _ in grid.lines]
    if "mean" in names and len(names) > 2:
        return "points"
    if len(grid.lines) <= MOST_LINES and len(_scale(grid)) > 2:
        return "lines"
    return "bars" if len(names) * len(grid.columns) <= MOST_BARS else "map"


def _points(axes: Axes, grid: Grid) -> None:
    """Each scenario as a point, the mean with its standard error as a bar."""
    values, spreads = _numbers(grid)
    mean = [row for row, _ in grid.lines].index("mean")
    others = np.delete(values, mean, axis=0)
    places = np.arange(len(grid.columns))
    errors = np.nan_to_num(spreads[mean])
    axes.bar(places, values[mean], 0.6, yerr=errors, capsize=4, color=COLOURS[4], alpha=0.8)
    shift = np.linspace(-0.22, 0.22, len(others))[:, None]
    axes.plot(places + shift, others, ".", color="black", markersize=4, alpha=0.6)
    names = [f"{name}\n{cell}" for name, cell in zip(grid.columns, grid.lines[mean][1], strict=True)]
    named(axes, names)
    axes.set_ylabel(f"{len(others)} scenarios and their mean")


def _lines(axes: Axes, grid: Grid) -> None:
    values, spreads = _numbers(grid)
    scale = _scale(grid)
    kept = [grid.columns.index(name) for name in scale]
    lines(axes, [name for name, _ in grid.lines], scale, values[:, kept], spreads[:, kept])


def _bars(axes: Axes, grid: Grid) -> None:
    bars(axes, [row for row, _ in grid.lines], grid.columns, *_numbers(grid))


def _map(axes: Axes, grid: Grid) -> None:
    values, _ = _numbers(grid)
    low, high = np.nanmin(values), np.nanmax(values)
    edges = [np.arange(size + 1) - 0.5 for size in values.shape[::-1]]
    axes.pcolormesh(*edges, values, cmap="viridis", vmin=low, vmax=high, edgecolor="face", linewidth=0.2)
    axes.invert_yaxis()
    middle = (low + high) / 2
    if len(grid.columns) <= 20:
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                colour = "#0a0a0a" if value > middle else "#ffffff"  # never the colour of a page's text
                axes.text(column, row, f"{value:g}", ha="center", va="center", fontsize=6, color=colour)
    axes.set_xticks(range(len(grid.columns)), grid.columns, rotation=30, ha="right", fontsize=7)
    axes.set_yticks(range(len(grid.lines)), [row for row, _ in grid.lines], fontsize=7)


def _scale(grid: Grid) -> list[str]:
    """The columns that are steps of a scale: numbers, such as severities, or settings of one parameter."""
    steps = [name for name in grid.columns if re.fullmatch(r"(Alpha = \w+(\.\d)?|\d+(\.\d+)?)", name)]
    return steps if len(steps) >= len(grid.columns) - 1 else []


def _numbers(grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """The values and the spreads of a block, nan where there is none."""
    read = [[read_number(cell) if cell else (np.nan, None) for cell in cells] for _, cells in grid.lines]
    both = np.array(read, dtype=float)  # None becomes nan
    return both[..., 0], both[..., 1]
