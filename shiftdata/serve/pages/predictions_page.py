"""A page of predictions as files: the accuracy of each group, confusions, and the pictures behind them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.pages.shell import data_script, render, write_assets
from shiftdata.evaluation.tasks import Task
from shiftdata.files import write_text
from shiftdata.serve.pages.pages import COLUMNS, SIDE
from shiftdata.serve.pages.predictions import FIRST, PART, UNKNOWN, Compared
from shiftdata.serve.pages.rows import Indices, Rows
from shiftdata.serve.pages.sprites import sprite


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

    Args:
        task: the task.
        predictions: by method, in any form that `task.evaluate` takes.
        out: a folder.
        name: the set. [default: the first that tests]
        remap: numbers count the task's labels.
        begin: is called with the page's name and its steps, and gives what to call at each step.

    """
    compared = Compared.of(task, predictions, name, remap=remap)
    shown = compared.shown()
    step = begin(f"{compared.set}, {len(predictions)} methods", sum(map(len, shown.values())))
    write_assets(out)
    for folder in ("data/groups", "data/shown"):
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir(parents=True)
    dataset = task.metadata.dataset  # None for a table of one's own, which has no examples
    rows = None if dataset is None else Rows.of(dataset, task.metadata.base)
    for group, parts in shown.items():
        for part, places in enumerate(parts):
            _write_part(compared, rows, f"{group}-{part}", places, out)
            step()
    title, first = " and ".join(predictions), next(iter(compared.results.values()))
    text = render(
        "predictions.html",
        root="",
        page=_page_data(compared, rows) | {"parts": {group: len(parts) for group, parts in shown.items()}},
        title=title,
        about=f"{first.dataset}, {first.task}; {first.set}: {first.cells.counted}",
        notes=first.notes,
        figures=_figures(compared),
    )
    write_text(out / "index.html", text)
    return out / "index.html"


def _page_data(compared: Compared, rows: Rows | None) -> dict[str, Any]:
    metadata = compared.task.metadata
    return {
        "here": "",
        "live": False,
        "pictures": rows is not None and rows.has_pictures,
        "labels": [*metadata.labels, UNKNOWN],
        "nuisances": list(metadata.nuisances),
        "nuisance": metadata.nuisance_column,
        "base": metadata.base,
        "methods": [
            {
                "name": method,
                "worst": compared.worst_line(method),
                "groups": compared.groups(method),
                "confusions": compared.confusions(method),
                "along": compared.along(method),
                "failures": compared.failures(method),
            }
            for method in compared.predicted
        ],
        "steps": compared.steps if len(compared.steps) > 1 else [],
        "pairs": list(compared.pairs()),
        "columns": COLUMNS,
        "first": FIRST,
        "more": PART,
    }


def _write_part(compared: Compared, rows: Rows | None, name: str, places: Indices, out: Path) -> None:
    """Write examples of a group, each with its predictions, and their pictures."""
    at = compared.rows[places]  # in order: the places are, and so are the rows
    times = np.searchsorted(compared.rows, at, "right") - np.searchsorted(compared.rows, at)
    keys = compared.task.metadata.keys(at).to_pylist()
    texts: list[Any] = [None] * len(at)
    if rows is not None and rows.has_pictures:
        (out / f"data/groups/{name}.webp").write_bytes(sprite(rows.examples(at), SIDE, COLUMNS))
    elif rows is not None and rows.dataset.manifest.pixels_included:
        texts = rows.texts(at)
    predicted = np.stack([labels[places] for labels in compared.predicted.values()], axis=1)
    right = predicted == compared.true[places][:, None]
    columns = {
        "key": keys,
        "predicted": predicted.tolist(),
        "right": right.tolist(),
        "severity": [None if np.isnan(step) else float(step) for step in compared.severity[places]],
        "times": times.tolist(),
        "text": texts,
    }
    examples = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    script = data_script(f"shown/{name}", {"examples": examples})
    (out / f"data/shown/{name}.js").write_text(script, encoding="utf-8")


def _figures(compared: Compared) -> list[dict[str, Any]]:
    """Return the official figures, a line each, with one cell a method."""

    def cell(figure: Any) -> str:
        error = f" ± {number(figure.sem)}" if np.isfinite(figure.sem) else ""
        return f"{number(figure.value)}{error}"

    results = list(compared.results.values())
    return [
        {
            "name": name.replace("_", " "),
            "rows": figure.rows,
            "of": figure.of,
            "cells": [cell(result.figures[name]) for result in results],
        }
        for name, figure in results[0].figures.items()
    ]
