"""Pictures of an evaluation: bars, lines along the severity, heat maps; always with the number of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from shiftdata.errors import InputError
from shiftdata.evaluation.charts import MOST_CELLS, Panel, chart, draw_panels, drawn_figure
from shiftdata.evaluation.tasks.cells import Cells
from shiftdata.tables import Block, Table


def draw_cells(cells: Cells, columns: Sequence[str], title: str, set_name: str) -> Image.Image:
    """Draw lines along the severity if it is among the columns, bars for one column, a map for two."""
    if len(columns) > 2:
        raise InputError(f"a picture shows one or two columns, got {', '.join(columns)}")
    others = [column for column in columns if column != "severity"]
    if len(others) == 2:
        return draw_panels([panel_of_cells(cells, others, set_name)])
    return _bars_or_lines(cells, columns, title)


def _bars_or_lines(cells: Cells, columns: Sequence[str], title: str) -> Image.Image:
    """Draw the accuracy of each name with its standard error, at each severity if that is a column."""
    others = [column for column in columns if column != "severity"]
    codes, groups = cells.sums([*others, *(["severity"] if "severity" in columns else [])])
    names = cells.named(others[0], codes[0]) if others else ["all"] * len(groups.n)
    steps = cells.named("severity", codes[-1]) if "severity" in columns else ["accuracy"] * len(groups.n)
    of_names = np.unique(names, return_inverse=True)[1]
    rows = np.bincount(of_names, groups.n)[of_names].astype(int).tolist()
    texts = {
        (f"{name}\nn={n:,}", step): f"{accuracy:.4f}±{sem:.4f}"
        for name, n, step, accuracy, sem in zip(names, rows, steps, groups.accuracy, groups.sem, strict=True)
    }
    block = Block.of("accuracy ± standard error", texts)
    return drawn_figure(chart([Table(title, (block,), drawn=(block,))]))


def panel_of_cells(cells: Cells, columns: Sequence[str], set_name: str) -> Panel:
    """Return a square for each pair of names, with its accuracy in per cent; a dash for none."""
    (down, across), pairs = cells.sums(columns)
    rows, y = np.unique(down, return_inverse=True)
    names, x = np.unique(across, return_inverse=True)
    if max(len(rows), len(names)) > MOST_CELLS:
        raise InputError(
            f"{max(len(rows), len(names))} squares in a line are too many to read, at most {MOST_CELLS} are "
            "drawn: see `by`, or name other columns"
        )
    accuracy = np.full((len(rows), len(names)), np.nan)
    accuracy[y, x] = pairs.accuracy
    texts = [
        [f"{100 * share:.0f}" if np.isfinite(share) else "-" for share in row] for row in accuracy.tolist()
    ]
    least, most = pairs.n[pairs.n > 0].min(), pairs.n.max()
    each = f"n={least:,}" + (f" to {most:,}" if most > least else " each")
    title = f"{set_name}: accuracy in %, {int(cells.n.sum()):,} rows, {each}"
    labels, nuisances = cells.named(columns[0], rows), cells.named(columns[1], names)
    return Panel(title, labels, nuisances, accuracy, texts)
