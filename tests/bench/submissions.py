"""Submissions for tests: predictions with a chosen share right, and a card to change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import shiftdata as sd
from shiftdata.bench.leaderboard.submission import Part, Submission, rows_of
from shiftdata.evaluation.tasks import Task

GF = "group-fairness k=4 mu=0.2"
CARD: dict[str, Any] = {
    "method": "mine", "authors": "A. Author", "url": "https://example.org/paper", "code": "",
    "backbone": "small-cnn", "pretraining": {"weights": "", "sha256": "", "supervision": "", "corpora": []},
    "trained_on": "train", "rule": "last", "trials": 1,
}  # fmt: skip


def card_of(task: Task, words: str = GF, **changed: Any) -> dict[str, Any]:
    manifest = task.metadata.dataset.manifest
    about = {
        "dataset": manifest.name,
        "base": task.metadata.base,
        "content_id": manifest.base(task.metadata.base).content_id,
        "tasks": {task.content_id(): {"protocol": words, "unlabelled": ""}},
    }
    return CARD | about | changed


def guess(task: Task, name: str, share: float, seed: int = 0) -> np.ndarray:
    true, generator = task.metadata.label[task.rows(name)].astype(np.int64), np.random.default_rng(seed)
    ids = task.label_ids
    wrong = ids[(np.searchsorted(ids, true) + 1) % len(ids)]
    return np.where(generator.random(len(true)) < share, true, wrong)


def part(task: Task, name: str, share: float, seed: int = 0) -> pa.Table:
    """The rows of one set, with a share of them right."""
    predicted = guess(task, name, share, seed)
    return rows_of(Part(task.content_id(), name, seed), task, task.rows(name), predicted)


def submitted(
    task: Task, parts: Iterable[pa.Table] | None = None, words: str = GF, **changed: Any
) -> Submission:
    parts = [part(task, "test", 0.7)] if parts is None else parts
    return Submission.of(card_of(task, words, **changed), parts)


def written(folder: Path, name: str, submission: Submission) -> Path:
    submission.write(folder / name)
    return folder / name


def fair(tiny: Path) -> Task:
    return sd.task(tiny, "group-fairness", k=4, mu=0.2)


def edited(submission: Submission, **columns: Sequence[Any] | pa.Array) -> Submission:
    """The submission with other columns, as a forger would write it."""
    rows = submission.rows
    for name, values in columns.items():
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(values))
    return Submission(submission.card, rows)
