"""Pictures of an evaluation: bars, lines along the severity, heat maps; always with the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.charts import MOST_CELLS, Panel, bars, draw_panels, drawn_figure, lines, new_figure
from shiftdata.evaluation.tasks.cells import Cells

MOST_BARS, MOST_LINES = 64, 20


def draw_cells(cells: Cells, columns: Sequence[str], title: str, set_name: str) -> Image.Image:
    """Draw lines along the severity if it is among the columns, bars for one column, a map for two."""
    if len(columns) > 2:
        raise InputError(f"a picture shows one or two columns, got {', '.join(columns)}")
    if columns == ["severity"]:
        whole = cells.by(columns)
        steps = cells.named("severity", np.unique(cells.codes["severity"]))
        return _lines(title, ["all"], steps, whole.accuracy[None], whole.sem[None], whole.n[None])
    others = [column for column in columns if column != "severity"]
    if "severity" in columns:
        return _lines(title, *_grid(cells, others[0], "severity"))
    return _bars(cells, others[0], title) if len(others) == 1 else _map(cells, others, set_name)


def _bars(cells: Cells, column: str, title: str) -> Image.Image:
    """Draw a bar for each label, nuisance ..., with its standard error."""
    accuracy = cells.by([column])
    _refuse_more(len(accuracy.n), MOST_BARS, "bars")
    figure, axes = _figure(title)
    named = [f"{name}\nn={n:,}" for name, n in zip(accuracy.names or (), accuracy.n, strict=True)]
    bars(axes, named, ["accuracy"], accuracy.accuracy[:, None], accuracy.sem[:, None])
    return drawn_figure(figure)


def _lines(
    title: str, rows: list[str], steps: list[str], accuracy: FloatArray, sem: FloatArray, n: IntArray
) -> Image.Image:
    """Draw a line along the severity for each label, nuisance ..., or one for all."""
    _refuse_more(len(rows), MOST_LINES, "lines")
    figure, axes = _figure(title)
    named = [f"{row} (n={total:,})" for row, total in zip(rows, n.sum(axis=1), strict=True)]
    lines(axes, named, steps, accuracy, sem)
    axes.set_xlabel("severity")
    return drawn_figure(figure)


def _map(cells: Cells, columns: Sequence[str], set_name: str) -> Image.Image:
    """Draw a square for each pair of names, with its accuracy in per cent; a dash for none."""
    rows, names, accuracy, _, n = _grid(cells, *columns)
    _refuse_more(max(accuracy.shape), MOST_CELLS, "squares in a line")
    texts = [
        [f"{100 * share:.0f}" if np.isfinite(share) else "-" for share in row] for row in accuracy.tolist()
    ]
    least, most = n[n > 0].min(), n.max()
    each = f"n={least:,}" + (f" to {most:,}" if most > least else " each")
    title = f"{set_name}: accuracy in %, {int(cells.n.sum()):,} rows, {each}"
    return draw_panels([Panel(title, rows, names, accuracy, texts)])


def _figure(title: str) -> tuple[Any, Any]:
    figure = new_figure(11, 3.6)
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=9)
    axes.set_ylabel("accuracy ± standard error")
    return figure, axes


def _grid(
    cells: Cells, down: str, across: str
) -> tuple[list[str], list[str], FloatArray, FloatArray, IntArray]:
    """Return the names of rows and columns; accuracy, standard error and number of rows of each pair."""
    (y, x), pairs = cells.sums([down, across])
    rows, columns = np.unique(y), np.unique(x)
    place = np.searchsorted(rows, y), np.searchsorted(columns, x)
    sizes = np.zeros((len(rows), len(columns)), np.int64)
    accuracy, sem = np.full(sizes.shape, np.nan), np.full(sizes.shape, np.nan)
    sizes[place], accuracy[place], sem[place] = pairs.n, pairs.accuracy, pairs.sem
    return cells.named(down, rows), cells.named(across, columns), accuracy, sem, sizes


def _refuse_more(number: int, most: int, shapes: str) -> None:
    if number > most:
        raise InputError(
            f"{number} {shapes} are too many to read, at most {most} are drawn: see `by`, or name other "
            "columns"
        )
