"""Records of models that were never trained: each says which share of every group it has right."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import shiftdata as sd
from shiftdata.bench import Records
from shiftdata.bench.records import RECORDS, evaluated, write_runs, write_task
from shiftdata.stable import content_hash
from tests.evaluation.protocols.made import metadata

TASK = sd.task(metadata(4, 4, 20), "group-fairness", k=4, mu=0.5)
GROUPS = sorted(set(TASK.metadata.group[TASK.rows("validation")].tolist()))


def shares(*given: float) -> list[float]:
    """Sixteen groups: those given first, all others at one half."""
    return [*given, *[0.5] * (16 - len(given))]


def predicted(right: Sequence[float], name: str = "validation") -> np.ndarray:
    """Labels of which each group has the given share right, in the order of group numbers."""
    group, true = TASK.metadata.group[TASK.rows(name)], TASK.metadata.label[TASK.rows(name)].astype(int)
    labels = true.copy()
    for number, share in zip(GROUPS, right, strict=True):
        rows = np.flatnonzero(group == number)
        wrong = rows[round(share * len(rows)) :]
        labels[wrong] = (labels[wrong] + 1) % 4
    return labels


def run(
    steps: Mapping[int, Sequence[float]],
    *,
    trial: int = 0,
    seed: int = 0,
    test: float = 0.5,
    status: str = "done",
    **more: Any,
) -> dict[str, Any]:
    """A row of records: after each step the shares of validation's groups that are right."""
    evaluations, labels = [], []
    for step, right in steps.items() if status == "done" else ():
        for name, of in (("validation", right), ("test", shares(*[test] * 16))):
            labels.append(predicted(of, name))
            evaluations.append(evaluated(step, TASK.evaluate(labels[-1], name)))
    about = {"trial": trial, "seed": seed, **more}
    row = {
        "id": content_hash(json.dumps([trial, seed, sorted(map(str, more.items()))])),
        "sweep": "made", "study": "one", "trial": trial, "seed": seed,
        "dataset": "rows", "content_id": "0" * 64, "protocol": "group-fairness k=4 mu=0.5",
        "task": TASK.describe(), "task_id": TASK.content_id(), "method": "erm", "variant": "fixed",
        "backbone": "linear", "hyper": "{}", "training": "{}", "status": status, "reason": "", "commit": "c0",
        "seconds": 1.0, "processor_seconds": 1.0, "examples": 100, "peak_memory": 1,
        "evaluations": evaluations, "predicted": [label.tolist() for label in labels],
    }  # fmt: skip
    return row | {"about": json.dumps(about)} | {name: value for name, value in more.items() if name in row}


def records(folder: Path, *rows: Mapping[str, Any], file: str = "one") -> Records:
    """The records of some rows, through their files."""
    empty = {name: TASK.evaluate(predicted(shares(), name), name) for name in ("validation", "test")}
    write_task(folder, TASK.content_id(), empty)
    write_runs(folder / RECORDS / f"{file}.parquet", rows)
    return Records.read(folder)
