"""A page of predictions as files: what each group's accuracy is, what is taken for what, and the pictures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.pages.shell import data_script, render, write_assets
from shiftdata.evaluation.tasks import Task
from shiftdata.files import write_text
from shiftdata.serve.pages import RECORD
from shiftdata.serve.pages.pages import COLUMNS, SIDE
from shiftdata.serve.pages.predictions import FIRST, PART, UNKNOWN, Compared, worst_line
from shiftdata.serve.pages.rows import Indices, Rows
from shiftdata.serve.pages.sprites import sprite

#: The first parts of a group, whose examples have pages of their own in a gallery of files too.
LINKED = 4
#: Groups of a method that are listed without JavaScript.
PLAIN = 100


def predictions_page(
    task: Task,
    predictions: Mapping[str, Any],
    out: Path,
    name: str | None = None,
    *,
    remap: bool = False,
    title: str = "",
    begin: Callable[[str, int], Callable[[], object]] = lambda name, steps: lambda: None,
) -> Path:
    """Write pages on the predictions of some methods for a set of a task, and return the front one.

    Args:
        task: the task.
        predictions: by method, in any form that `task.evaluate` takes.
        out: a folder; `shiftdata gallery --predictions` puts it beside the pages of the dataset.
        name: the set. [default: the first that tests]
        remap: numbers count the task's labels.
        title: of the page. [default: the methods]
        begin: is called with the page's name and its steps, and gives what to call at each step.

    """
    compared = Compared.of(task, predictions, name, remap=remap)
    shown = compared.shown()
    step = begin(f"{compared.set}, {len(predictions)} methods", sum(map(len, shown.values())))
    write_assets(out)
    for folder in ("data/groups", "data/shown"):
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir(parents=True)
    rows = _rows(task)
    keys: list[str] = []
    for group, parts in shown.items():
        for part, places in enumerate(parts):
            written = _write_part(compared, rows, f"{group}-{part}", places, out)
            keys += written if part < LINKED else []
            step()
    (out / "data" / "place.js").write_text(data_script("place", {"dataset": ""}), encoding="utf-8")
    title = title or " and ".join(predictions)
    page = _page_data(compared, rows) | {"parts": {group: len(parts) for group, parts in shown.items()}}
    first = next(iter(compared.results.values()))
    text = render(
        "predictions.html",
        root="",
        page=page,
        title=title,
        about=f"{first.dataset}, {first.task}; {first.set}: {first.cells.counted}",
        notes=first.notes,
        figures=_figures(compared),
        plain=_plain(compared),
    )
    write_text(out / "index.html", text)
    write_text(out / RECORD, json.dumps(_record(compared, title, keys), indent=1, ensure_ascii=False) + "\n")
    return out / "index.html"


def _rows(task: Task) -> Rows | None:
    """The rows of the task's dataset; None for a table of one's own, which has no examples."""
    dataset = task.metadata.dataset
    return None if dataset is None else Rows.of(dataset, task.metadata.base)


def _page_data(compared: Compared, rows: Rows | None) -> dict[str, Any]:
    metadata = compared.task.metadata
    has = rows is not None and rows.dataset.manifest.pixels_included
    return {
        "here": "",
        "live": False,
        "pictures": has and rows is not None and rows.modality == "image",
        "labels": [*metadata.labels, UNKNOWN],
        "nuisances": list(metadata.nuisances),
        "nuisance": metadata.nuisance_column,
        "base": metadata.base,
        "methods": [
            {
                "name": method,
                "worst": worst_line(compared, method),
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
        "linked": LINKED,
        "first": FIRST,
        "more": PART,
    }


def _plain(compared: Compared) -> list[dict[str, Any]]:
    """Return what the page shows without JavaScript: the worst groups of each method, in per cent."""
    found = []
    for method in compared.predicted:
        groups = sorted(compared.groups(method), key=lambda one: (one[3] / one[2], -one[2]))
        lines = [
            {
                "name": compared.task.metadata.group_name(
                    label * len(compared.task.metadata.nuisances) + nuisance
                ),
                "n": n,
                "origins": origins,
                **{
                    name: round(100 * share)
                    for name, share in (("right", right / n), ("low", low), ("high", high))
                },
            }
            for label, nuisance, n, right, low, high, origins in groups[:PLAIN]
        ]
        found.append({"name": method, "groups": lines, "more": len(groups) - len(lines)})
    return found


def _write_part(compared: Compared, rows: Rows | None, name: str, places: Indices, out: Path) -> list[str]:
    """Write examples of a group: what each method takes them for, and their pictures. Return their keys."""
    at = compared.rows[places]
    times = np.searchsorted(compared.rows, at, "right") - np.searchsorted(compared.rows, at)
    keys = compared.task.metadata.keys(np.sort(at)).to_pylist()
    by_row = dict(zip(np.sort(at).tolist(), keys, strict=True))
    texts: list[Any] = [None] * len(at)
    if rows is not None and rows.dataset.manifest.pixels_included:
        if rows.modality == "image":
            data = sprite(rows.examples(at), SIDE, COLUMNS)
            (out / "data" / "groups" / f"{name}.webp").write_bytes(data)
        else:
            texts = rows.texts(at)
    examples = [
        {
            "key": by_row[int(row)],
            "predicted": [int(compared.predicted[method][place]) for method in compared.predicted],
            "right": [bool(compared.right(method)[place]) for method in compared.predicted],
            "severity": None if np.isnan(compared.severity[place]) else float(compared.severity[place]),
            "times": drawn,
            "text": text,
        }
        for row, place, drawn, text in zip(at.tolist(), places.tolist(), times.tolist(), texts, strict=True)
    ]
    script = data_script(f"shown/{name}", {"examples": examples})
    (out / "data" / "shown" / f"{name}.js").write_text(script, encoding="utf-8")
    return [str(one["key"]) for one in examples]


def _figures(compared: Compared) -> list[dict[str, Any]]:
    """The official figures, a line each, with one cell a method."""
    first = next(iter(compared.results.values()))
    return [
        {
            "name": name.replace("_", " "),
            "rows": one.rows,
            "of": one.of,
            "cells": [
                f"{number(result.figures[name].value)} ± {number(result.figures[name].sem)}"
                if np.isfinite(result.figures[name].sem)
                else number(result.figures[name].value)
                for result in compared.results.values()
            ],
        }
        for name, one in first.figures.items()
    ]


def _record(compared: Compared, title: str, keys: Sequence[str]) -> dict[str, Any]:
    """What a front page says of it, and what the dataset's page of severities shows."""
    dataset = compared.task.metadata.dataset
    return {
        "title": title,
        "dataset": dataset.manifest.name if dataset is not None else compared.task.metadata.name,
        "content_id": dataset.manifest.content_id if dataset is not None else "",
        "task": compared.task.describe(),
        "set": compared.set,
        "base": compared.task.metadata.base,
        "keys": sorted(keys),
        "methods": list(compared.predicted),
        "lines": [worst_line(compared, method) for method in compared.predicted],
        "severity": {method: along for method in compared.predicted if (along := compared.along(method))},
    }
