"""Records of sweeps that nobody ran: the real writer, made tasks, predictions that are right so often."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np

import shiftdata as sd
from shiftdata.baselines.pretrained.registry import flagged, lookup
from shiftdata.bench.records import RECORDS, Records, evaluated, write_runs, write_task
from shiftdata.data.metadata import Metadata
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.tasks import Task
from shiftdata.stable import content_hash, rng
from tests.evaluation.protocols.made import metadata

#: How often a method is right in its dominant groups, and in the others.
METHODS = {"erm": (0.9, 0.4), "rwg": (0.85, 0.65), "group-dro": (0.86, 0.7)}


def made_task(protocol: str = "group-fairness k=4 mu=0.5", of: Metadata | None = None) -> Task:
    return sd.task(metadata(4, 4, 20) if of is None else of, parse_protocol(protocol), on_empty="report")


def predictions(task: Task, name: str, skill: tuple[float, float], *keys: object) -> np.ndarray:
    """Labels that are right with one probability where label and nuisance agree, with another elsewhere."""
    rows, labels = task.rows(name), task.label_ids
    true, nuisance = task.metadata.label[rows].astype(np.int64), task.metadata.nuisance[rows]
    likely = np.where(true == nuisance, *skill)
    draw = rng(0, "synthetic", *map(str, keys), name)
    wrong = labels[
        (np.searchsorted(labels, true) + draw.integers(1, max(2, len(labels)), len(rows))) % len(labels)
    ]
    right = (draw.random(len(rows)) < likely) & np.isin(true, labels)
    return np.where(right, true, wrong)


def synthetic(
    folder: Path,
    *,
    tasks: Mapping[str, Task] | None = None,
    methods: Mapping[str, tuple[float, float]] | None = None,
    trials: int = 2,
    seeds: int = 3,
    steps: Sequence[int] = (10, 20),
    failed: Sequence[tuple[str, int, int]] = (),
    sweep: str = "made",
    backbone: str = "heads",
    keep: bool = True,
    rules: Sequence[str] = ("iid-worst",),
    **other: str,
) -> Records:
    """Write the records of a small sweep to a folder, and read them.

    `tasks` are by their protocol, `methods` by name with `METHODS`' two probabilities; trial t is right 5 %
    less often for each t. `failed` are (method, trial, seed) that diverged. `other` replaces the commit, the
    dataset or the content_id.
    """
    tasks = tasks or {
        words: made_task(words) for words in ("group-fairness k=4 mu=0.5", "group-fairness k=4 mu=0.2")
    }
    methods = methods or METHODS
    same = steps, failed, sweep, backbone, keep, other
    for protocol, task in tasks.items():
        rows = [
            _run(folder, protocol, task, method, skill, trial, seed, *same)
            for (method, skill), trial, seed in product(methods.items(), range(trials), range(seeds))
        ]
        write_runs(folder / RECORDS / f"{content_hash(sweep, protocol, backbone)[:32]}.parquet", rows)
    asked = {
        "name": sweep, "about": "made up", "rules": list(rules), "backbones": [backbone],
        "search": {"kind": "random", "trials": trials, "seeds": seeds, "seeds_of": "each",
        "rule": "iid-worst"},
        "tasks": [{"dataset": other.get("dataset", "table"), "protocol": words, "base": None,
        "unlabelled": ""} for words in tasks],
        "methods": [{"name": method, "variant": "fixed"} for method in methods],
    }  # fmt: skip
    (folder / "sweep.json").write_text(json.dumps(asked))
    return Records.read(folder)


def _run(folder, protocol, task, method, skill, trial, seed, steps, failed, sweep, backbone, keep, other):
    about = {
        "sweep": sweep, "dataset": other.get("dataset", "table"), "content_id": other.get("content_id",
        "c" * 64),
        "protocol": protocol, "task_id": task.content_id(), "method": method, "variant": "fixed", "hyper": {},
        "backbone": backbone, "trial": trial, "seed": seed, "code_version": [1],
        "device": "cpu made",
        "versions": {"shiftdata": "0.1", "numpy": "2"}, "pretraining": flagged(lookup(""), ""),
    }  # fmt: skip
    names = ("sweep", "dataset", "content_id", "protocol", "task_id", "method", "variant", "backbone")
    row = {name: about[name] for name in (*names, "trial", "seed")}
    row |= {
        "id": content_hash(json.dumps([about, other])), "task": task.describe(), "hyper": "{}", "reason": "",
        "study": content_hash(sweep, row["dataset"], protocol, method, backbone)[:32], "status": "done",
        "training": json.dumps({"steps": max(steps), "learning_rate": 0.1 / (1 + trial)}),
        "about": json.dumps(about),
        "seconds": 1.5, "processor_seconds": 1.5, "examples": 100, "peak_memory": 2**20,
        "commit": other.get("commit", "abc123"), "evaluations": [], "predicted": [],
    }  # fmt: skip
    if (method, trial, seed) in failed:
        return row | {"status": "diverged", "reason": "the loss is nan after step 7"}
    sets = [name for name, rows in task.sets.items() if rows.role in ("select", "test") and len(rows)]
    for place, step in enumerate(steps):
        share = [right * (1 - 0.05 * trial) * (0.9 if place + 1 < len(steps) else 1) for right in skill]
        keys = (protocol, method, trial, seed, step, other)
        labels = {name: predictions(task, name, tuple(share), *keys) for name in sets}
        results = {name: task.evaluate(predicted, name) for name, predicted in labels.items()}
        write_task(folder, task.content_id(), results)
        row["evaluations"] += [evaluated(step, result) for result in results.values()]
        row["predicted"] += [predicted.tolist() if keep else None for predicted in labels.values()]
    return row
