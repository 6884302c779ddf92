"""Pictures of an evaluation: bars, lines along the severity, heat maps; always with the number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.charts import MOST_CELLS, Panel, bars, draw_panels, drawn_figure, lines, new_figure

if TYPE_CHECKING:
    from shiftdata.evaluation.tasks.evaluation import Evaluation

MOST_BARS, MOST_LINES = 64, 20


def draw_bars(result: Evaluation, column: str) -> Image.Image:
    """A bar for each label, nuisance ..., with its standard error."""
    found = result.by(column)
    _refuse_more(len(found.n), MOST_BARS, "bars")
    figure, axes = _figure(result)
    named = [f"{name}\nn={n:,}" for name, n in zip(found.names or (), found.n, strict=True)]
    bars(axes, named, ["accuracy"], found.accuracy[:, None], found.sem[:, None])
    return drawn_figure(figure)


def draw_lines(result: Evaluation, column: str = "severity") -> Image.Image:
    """A line along the severity for each label, nuisance ..., or one for all."""
    rows, steps, accuracy, sem, n = _grid(result, column, "severity")
    if column == "severity":
        of = result.by("severity")
        rows, accuracy, sem, n = ["all"], of.accuracy[None], of.sem[None], of.n[None]
    _refuse_more(len(rows), MOST_LINES, "lines")
    figure, axes = _figure(result)
    lines(
        axes,
        [f"{row} (n={total:,})" for row, total in zip(rows, n.sum(axis=1), strict=True)],
        steps,
        accuracy,
        sem,
    )
    axes.set_xlabel("severity")
    return drawn_figure(figure)


def draw_map(result: Evaluation, down: str, across: str) -> Image.Image:
    """A square for each pair of names, with its accuracy in per cent; a dash for none."""
    rows, columns, accuracy, _, n = _grid(result, down, across)
    _refuse_more(max(accuracy.shape), MOST_CELLS, "squares in a line")
    texts = [[f"{100 * one:.0f}" if np.isfinite(one) else "-" for one in row] for row in accuracy.tolist()]
    present = n[n > 0]
    least, most = present.min(), present.max()
    each = f"n={least:,}" + (f" to {most:,}" if most > least else " each")
    title = f"{result.set}: accuracy in %, {result.n:,} rows, {each}"
    return draw_panels([Panel(title, rows, columns, accuracy, texts)])


def _figure(result: Evaluation) -> tuple[Any, Any]:
    figure = new_figure(11, 3.6)
    axes = figure.subplots()
    axes.set_title(
        f"{result.task}\nof {result.dataset}, {result.set}: {result.cells.counted}",
        loc="left",
        fontsize=9,
    )
    axes.set_ylabel("accuracy ± standard error")
    return figure, axes


def _grid(
    result: Evaluation, down: str, across: str
) -> tuple[list[str], list[str], FloatArray, FloatArray, IntArray]:
    """The names of rows and columns; accuracy, standard error and number of rows of each pair."""
    (y, x), of = result.cells.sums([down, across])
    rows, columns = np.unique(y), np.unique(x)
    place = np.searchsorted(rows, y), np.searchsorted(columns, x)
    sizes = np.zeros((len(rows), len(columns)), np.int64)
    accuracy, sem = np.full(sizes.shape, np.nan), np.full(sizes.shape, np.nan)
    sizes[place], accuracy[place], sem[place] = of.n, of.accuracy, of.sem
    names = result.cells.named(down, rows), result.cells.named(across, columns)
    return *names, accuracy, sem, sizes


def _refuse_more(number: int, most: int, what: str) -> None:
    if number > most:
        raise InputError(
            f"{number} {what} are too many to read, at most {most} are drawn: see `by`, or name other columns"
        )
