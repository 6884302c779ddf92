"""Runs that are fitted on another base than their task's, such as untouched pictures."""

from __future__ import annotations

import numpy as np

from shiftdata.baselines import fit
from shiftdata.baselines.sets import TaskSets
from shiftdata.bench.job import Job
from shiftdata.errors import InputError
from shiftdata.metadata import Metadata
from shiftdata.metrics.arrays import IntArray
from shiftdata.tasks import Task


def predicted_elsewhere(job: Job, task: Task, base: Metadata) -> dict[str, IntArray]:
    """Train on the canonical train rows of a base, and predict the sets of a task that test."""
    names = [name for name, rows in task.sets.items() if rows.role == "test"]
    tested = np.unique(np.concatenate([task.rows(name) for name in names]))
    there, method = Task.canonical(base), job.made_method()
    rows = there.rows("train")
    if shared := _origins(base, rows) & _origins(task.metadata, tested):
        raise InputError(
            f"{len(shared):,} origins of the test, such as {min(shared)}, are among the train rows of "
            f"{base.name}: train on another base"
        )
    sets = TaskSets(there, method, "train", None, None, np.zeros(0, np.int64))
    mine = sets.read(job.backbone, None, int, cache=True)
    others = TaskSets(task, method, "", None, None, tested).read(job.backbone, None, int, cache=True)
    model = fit(
        mine.followed_by(others),
        rows,
        base.label[rows].astype(np.int64),
        method=method,
        outputs=there.label_ids,
        backbone=job.backbone,
        training=job.training,
        seed=job.seed,
    )
    return {name: model.predict(len(base) + task.rows(name)) for name in names}


def _origins(metadata: Metadata, rows: IntArray) -> set[str]:
    return set(metadata.origin_names.take(np.unique(metadata.origin[rows])).to_pylist())
