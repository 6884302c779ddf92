"""Numbers on a dataset's page: rows of each group in each set of a task, and how rows are distributed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import SPLITS
from shiftdata.evaluation.protocols import parse_protocol, task
from shiftdata.evaluation.tasks import Task
from shiftdata.serve.pages.rows import Rows

#: Sets of one task whose counts are shown: a protocol may cut a set into hundreds.
MOST_SETS = 12
#: Bars of one chart at most.
MOST_BARS = 40


def counts_of(dataset: OpenDataset, base: str, words: str) -> dict[str, Any]:
    """Return the groups of every set of the task that `shiftdata.task` makes of the same words.

    `words` name a canonical split or protocols; empty, they are the sets of the base itself.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a protocol that leaks says so in the notes of the page
        protocol = words if dataset.manifest.canonical(words) else parse_protocol(words)
        shown_task = task(dataset, protocol, base=base, on_empty="report")
    report = shown_task.report()
    shown = list(report.sets.items())[:MOST_SETS]
    return {
        "words": words,
        "task": report.task,
        "leaks": report.leaks,
        "notes": list(report.notes),
        "more": len(report.sets) - len(shown),
        "sets": [
            {
                "name": name,
                "roles": list(rows.roles),
                "examples": rows.examples,
                "origins": rows.origins,
                "empty": len(rows.empty),
                "counts": np.array(rows.counts, np.int64).ravel().tolist(),
                "untouched": _untouched(shown_task, name),
            }
            for name, rows in shown
        ],
    }


def _untouched(shown_task: Task, name: str) -> list[int]:
    """Count the rows of each label in a set that are in no group: those without a nuisance."""
    rows, metadata = shown_task.sets[name], shown_task.metadata
    alone = metadata.group[rows.indices] < 0
    labels = metadata.label[rows.indices][alone]
    weights = None if rows.counts is None else rows.counts[alone]
    return [int(count) for count in np.bincount(labels, weights, minlength=len(metadata.labels))]


def base_names(manifest: Manifest) -> list[str]:
    """The bases, the default one first."""
    names = (base.name for base in manifest.bases)
    return sorted(names, key=lambda name: (name != manifest.default_base, name))


def distributions(rows: Rows) -> list[dict[str, Any]]:
    """Count rows by split, label, nuisance and severity."""
    known, label = rows.metadata, rows.dataset.manifest.roles.label
    steps, at_step = np.unique(known.columns["severity"], return_counts=True)
    by_nuisance = np.bincount(known.nuisance[known.nuisance >= 0], minlength=len(known.nuisances))
    charts = [
        _chart("splits", list(SPLITS), np.bincount(known.columns["split"], minlength=len(SPLITS))),
        _chart(f"{label}s", known.labels, np.bincount(known.label, minlength=len(known.labels))),
        _chart(f"{known.nuisance_column}s", known.nuisances, by_nuisance),
        *([_chart("severities", [f"{step:g}" for step in steps], at_step)] if rows.is_continuous else []),
    ]
    return [chart for chart in charts if chart["pairs"]]


def _chart(caption: str, names: Sequence[str], counts: NDArray[np.integer]) -> dict[str, Any]:
    """Return a chart of bars; of more than fit the longest."""
    pairs = [(name, int(count)) for name, count in zip(names, counts, strict=True) if count]
    if len(pairs) > MOST_BARS:
        caption = f"{caption}: the largest {MOST_BARS} of {len(pairs):,}"
        pairs = sorted(pairs, key=lambda pair: -pair[1])[:MOST_BARS]
    return {"caption": caption, "pairs": pairs}
