"""The chart of accuracy on the line: models as points, the line with its band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftdata.evaluation.charts import COLOURS, MARKERS, SMALL, new_figure
from shiftdata.evaluation.metrics.line import AXES, Line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Accuracies that an axis may have a tick for, and those of short axes.
TICKS = np.array([0.1, 1, 5, *range(10, 91, 10), 95, 99, 99.9]) / 100
FINE = np.array([0.1, 0.5, 1, 2, 3, *range(5, 91, 5), 92, 94, 96, 97, 98, 99, 99.5, 99.9]) / 100
MOST_TICKS = 10
#: A legend of more families leaves no room for the points.
MOST_FAMILIES = 12
#: More names than these would lie on each other.
MOST_NAMES = 20
#: Nearer to 0 and 1 the axes do not go.
EDGE = 5e-4


def line_figure(line: Line, sides: Sequence[str], width: float) -> Figure:
    """Draw each model with its 95 % intervals, the line, and the diagonal of equal accuracies (dotted)."""
    figure = new_figure(width, 0.75 * width)
    axes = figure.subplots()
    ends = np.array([point.intervals for point in line.points])
    families = list(dict.fromkeys(point.family for point in line.points))
    for place, family in enumerate(families):
        mine = np.array([point.family == family for point in line.points])
        x, y = np.array([(p.clean, p.shifted) for p in line.points])[mine].T
        reach = [np.abs(ends[mine, side].T - of) for side, of in enumerate((x, y))]
        axes.errorbar(
            x, y, xerr=reach[0], yerr=reach[1], linestyle="", elinewidth=0.6, markersize=5, label=family,
            marker=MARKERS[place % len(MARKERS)], color=COLOURS[place % len(COLOURS)],
        )  # fmt: skip
    axes.plot(line.grid, line(line.grid), color=COLOURS[1], zorder=1)
    axes.fill_between(line.grid, *line.band, color=COLOURS[1], alpha=0.08, linewidth=0, zorder=0)
    low, high = ends[:, :, 0].min(axis=0).clip(EDGE), ends[:, :, 1].max(axis=0).clip(max=1 - EDGE)
    forward, back = AXES[line.axes]
    functions = partial(_inside, forward), back
    axes.set_xscale("function", functions=functions)
    axes.set_yscale("function", functions=functions)
    for scale, least, most, name in zip((axes.xaxis, axes.yaxis), low, high, sides, strict=True):
        coarse, fine = (ticks[(least <= ticks) & (most >= ticks)] for ticks in (TICKS, FINE))
        within = fine if len(fine) <= MOST_TICKS else coarse
        scale.set_ticks(within, [f"{100 * tick:g}" for tick in within])
        scale.set_ticks([], minor=True)
        scale.set_label_text(f"accuracy, %: {name}")
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    for point in line.points if len(line.points) <= MOST_NAMES else ():
        right = point.clean > (low[0] + high[0]) / 2  # names stay inside of the axes
        label = axes.annotate(
            point.name, (point.clean, point.shifted), (-5 if right else 5, -9),
            textcoords="offset points", ha="right" if right else "left", fontsize=SMALL,
        )  # fmt: skip
        label.set_in_layout(False)  # a long name must not shrink the axes
    if low.max() < high.min():  # as high on shifted as on clean rows
        diagonal = np.linspace(low.max(), high.min(), 41)
        axes.plot(diagonal, diagonal, linestyle=":", color="0.5", linewidth=1, zorder=0)
    if 1 < len(families) <= MOST_FAMILIES:
        axes.legend(fontsize=SMALL, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def _inside(function: Callable[[Any], Any], values: Any) -> Any:
    return function(np.clip(values, EDGE / 10, 1 - EDGE / 10))
