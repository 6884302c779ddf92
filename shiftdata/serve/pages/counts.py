"""Numbers on a dataset's page: rows of each group in each set of a task, and how rows are distributed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.schema import SPLITS
from shiftdata.evaluation.protocols import parse_protocol, task
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
        report = task(dataset, protocol, base=base, on_empty="report").report()
    shown = list(report.sets.items())[:MOST_SETS]
    return {
        "words": words,
        "task": report.task,
        "leaks": report.leaks,
        "notes": list(report.notes),
        "more": len(report.sets) - len(shown),
        "sets": [
            vars(rows) | {"name": name, "counts": sum(rows.counts, ()), "empty": len(rows.empty)}
            for name, rows in shown
        ],
    }


def distributions(rows: Rows) -> list[dict[str, Any]]:
    """Count rows by split, label, nuisance and severity."""
    known, label = rows.metadata, rows.dataset.manifest.roles.label
    steps, at_step = np.unique(known.columns["severity"], return_inverse=True)
    columns = {
        "splits": (list(SPLITS), known.columns["split"]),
        f"{label}s": (known.labels, known.label),
        f"{known.nuisance_column}s": (known.nuisances, known.nuisance[known.nuisance >= 0]),
        "severities": ([f"{step:g}" for step in steps], at_step if rows.is_continuous else at_step[:0]),
    }
    charts = [_chart(caption, names, codes) for caption, (names, codes) in columns.items()]
    return [chart for chart in charts if chart["pairs"]]


def _chart(caption: str, names: Sequence[str], codes: NDArray[np.integer]) -> dict[str, Any]:
    """Return a chart of bars; of more than fit the longest."""
    counts = np.bincount(codes, minlength=len(names)).tolist()
    pairs = [(name, count) for name, count in zip(names, counts, strict=True) if count]
    if len(pairs) > MOST_BARS:
        caption = f"{caption}: the largest {MOST_BARS} of {len(pairs):,}"
        pairs = sorted(pairs, key=lambda pair: -pair[1])[:MOST_BARS]
    return {"caption": caption, "pairs": pairs}
