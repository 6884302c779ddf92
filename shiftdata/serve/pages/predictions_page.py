"""A page of predictions as files: the accuracy of each group, confusions, and the pictures behind them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.evaluation.metrics.records import plain
from shiftdata.evaluation.pages.shell import data_script, render, write_assets
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.comparison import Comparison
from shiftdata.files import write_text
from shiftdata.serve.pages.pages import COLUMNS, wall
from shiftdata.serve.pages.rows import Rows

#: Examples of each group that are shown first: those that a method gets wrong, and right.
FIRST = {"wrong": 8, "right": 4}
#: Examples of each further part of a group, which a page loads when it is asked for more.
PART = 60


def predictions_page(
    task: Task,
    predictions: Mapping[str, Any],
    out: Path,
    name: str | None = None,
    *,
    remap: bool = False,
    begin: Callable[[str, int], Callable[[], object]] = lambda name, steps: lambda: None,
) -> Path:
    """Write pages on the predictions of some methods for a set of a task, and return the front one.

    `predictions` are by method, in any form that `task.evaluate` takes (`remap` as there); `name` is the set,
    by default the first that tests. `begin` gets the page's name and its steps, and returns the call of each.
    """
    compared = Comparison.of(task, predictions, name, remap=remap)
    parts_of = compared.shown(FIRST["wrong"], FIRST["right"], PART)
    step = begin(f"{compared.set}, {len(predictions)} methods", sum(map(len, parts_of.values())))
    write_assets(out)
    for folder in ("data/groups", "data/shown"):
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir(parents=True)
    dataset = task.metadata.dataset  # None for a table of one's own, which has no examples
    rows = None if dataset is None else Rows.of(dataset, task.metadata.base)
    for group, parts in parts_of.items():
        for part, places in enumerate(parts):
            _write_part(compared, rows, f"{group}-{part}", places, out)
            step()
    title, results = " and ".join(predictions), [*compared.results.values()]
    data = {"here": "", "pictures": rows is not None and rows.has_pictures, "columns": COLUMNS}
    data |= {"first": FIRST, "more": PART, "parts": {group: len(parts) for group, parts in parts_of.items()}}
    text = render(
        "predictions.html",
        root="",
        page=compared.to_dict() | data,
        title=title,
        about=f"{results[0].dataset}, {results[0].task}; {compared.set}: {results[0].cells.counted}",
        notes=results[0].notes,
        figures={name: [result.figures[name] for result in results] for name in results[0].figures},
    )
    write_text(out / "index.html", text)
    return out / "index.html"


def _write_part(compared: Comparison, rows: Rows | None, name: str, places: IntArray, out: Path) -> None:
    """Write examples of a group, each with its predictions, and their pictures."""
    at = compared.rows[places]  # in order: the places are, and so are the rows
    times = np.searchsorted(compared.rows, at, "right") - np.searchsorted(compared.rows, at)
    keys = compared.task.metadata.keys(at).to_pylist()
    texts: list[Any] = [None] * len(at)
    if rows is not None and rows.has_pictures:
        (out / f"data/groups/{name}.webp").write_bytes(wall(rows, at))
    elif rows is not None and rows.dataset.manifest.pixels_included:
        texts = rows.texts(at)
    predicted = np.stack([labels[places] for labels in compared.predicted.values()], axis=1)
    right = predicted == compared.true[places][:, None]
    columns = {
        "key": keys,
        "predicted": predicted.tolist(),
        "right": right.tolist(),
        "severity": plain(compared.severity[places]),
        "times": times.tolist(),
        "text": texts,
    }
    examples = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    script = data_script(f"shown/{name}", {"examples": examples})
    (out / f"data/shown/{name}.js").write_text(script, encoding="utf-8")
