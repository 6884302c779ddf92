"""Submissions from the records of a sweep, or from files of predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftdata.bench.leaderboard.judging import task_named
from shiftdata.bench.leaderboard.submission import Part, Submission, read_card_file, rows_of, tests_of
from shiftdata.bench.records import IMPORTED, Records
from shiftdata.bench.selection import Selected, select
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.predictions import predicted_rows


def from_predictions(
    metadata: Metadata, protocol: str, files: Sequence[str], card: Path, unlabelled: str = ""
) -> Submission:
    """Make a submission of files `[SET=]FILE`; the second file of a set is its seed 1."""
    task = task_named(metadata, protocol, unlabelled)
    tests, task_id = tests_of(task), task.content_id()
    seeds = dict.fromkeys(tests, 0)
    parts = []
    for text in files:
        name, equals, path = text.partition("=")
        if not equals or name not in tests:
            name, path = tests[0], text
            if len(tests) > 1:
                hint = f"give predictions of each, as in {name}={text}"
                raise InputError(f"{task.describe()} is tested on {', '.join(tests)}: {hint}")
        rows, predicted = predicted_rows(task, name, path)
        once = np.unique(rows, return_index=True)[1]  # rows drawn twice share a key
        parts.append(rows_of(Part(task_id, name, seeds[name]), task, rows[once], predicted[once]))
        seeds[name] += 1
    names = {task_id: {"protocol": protocol, "unlabelled": unlabelled}}
    return Submission.of({**read_card_file(card), **_dataset(metadata), "tasks": names}, parts)


def from_records(records: Records, rule: str, metadata: Metadata, card: Path | None = None) -> Submission:
    """Make a submission of the models that a rule chooses in records of one method on one dataset.

    `metadata` is of the records' dataset; a card in TOML replaces fields that the records fill.
    """
    parts: list[pa.Table] = []
    names = {}
    for selected in select(records, rule):
        study = selected.study
        if selected.refused:
            raise InputError(f"{rule} cannot choose in {study.task}: {selected.refused}")
        unlabelled = records.about[selected.runs[0].run]["unlabelled"]
        task = task_named(metadata, study.protocol, unlabelled)
        names[study.task_id] = {"protocol": study.protocol, "unlabelled": unlabelled}
        parts += _chosen(records, selected, task)
    fields = _fields(records, selected, task) | {"rule": rule}
    if card is not None:
        fields |= read_card_file(card)
    return Submission.of({**fields, **_dataset(metadata), "tasks": names}, parts)


def dataset_of(records: Records) -> tuple[str, str]:
    """Return name and base of the dataset of records; refuse records of several methods or datasets."""
    if not len(records):
        raise InputError("there are no runs to submit")
    if any(of.startswith(IMPORTED) for of in records.column("content_id")):
        raise InputError("these records are imported: a leaderboard judges predictions by a dataset's rows")
    for name in ("dataset", "content_id", "method", "variant", "backbone", "sweep"):
        if len(values := sorted(set(records.column(name)))) > 1:
            option = "" if name in ("content_id", "sweep") else f" with --{name}"
            several = f"{len(values)} of {name}: {', '.join(values)}"
            raise InputError(f"these records have {several}; choose one{option}")
    name, _, base = records.column("dataset")[0].partition("/")
    return name, base


def _dataset(metadata: Metadata) -> dict[str, str]:
    """The fields of a card that name the dataset."""
    if metadata.dataset is None:
        raise InputError(f"{metadata.name} is a table of your own: submissions are for datasets")
    manifest = metadata.dataset.manifest
    content_id = manifest.base(metadata.base).content_id
    return {"dataset": manifest.name, "base": metadata.base, "content_id": content_id}


def _chosen(records: Records, selected: Selected, task: Task) -> Iterator[pa.Table]:
    for run in selected.runs:
        for name in tests_of(task):
            predicted = records.predicted(run.run, name, run.step)
            if predicted is None:
                hint = (
                    f'name {selected.rule} in the sweep\'s rules, or give it keep = "all", and run it again'
                )
                where = f"seed {run.seed}, step {run.step}, for {name}"
                raise InputError(f"predictions of {selected}, {where}, were not kept: {hint}")
            part = Part(selected.study.task_id, name, run.seed)
            yield rows_of(part, task, task.rows(name), predicted)


def _weights(flag: Mapping[str, Any] | str) -> dict[str, Any]:
    """The weights of a record; what its registry knew by their name or hash, each leaderboard knows too."""
    if isinstance(flag, str):  # of records that are older than the registry, as those of docs/findings
        flag = {"weights": flag, "sha256": "", "by": ""}
    stated = flag["by"] in ("record", "statement")
    return {
        "weights": flag["weights"],
        "sha256": flag["sha256"],
        "supervision": flag["supervision"] if stated else "",
        "corpora": flag["corpora"] if stated else [],
    }


def _fields(records: Records, selected: Selected, task: Task) -> dict[str, Any]:
    """The fields of a card that records know, from a selected study."""
    study, about = selected.study, records.about[selected.runs[0].run]
    sets = [name for name, rows in task.sets.items() if {"fit", "unlabelled"} & set(rows.roles)]
    if about.get("trains_on_select"):
        sets.append(task.set_of("select"))
    commit = records.column("commit")[0] or "unknown"
    return {
        "method": study.label,
        "authors": "",
        "url": "",
        "code": f"shiftdata {about['versions']['shiftdata']}, commit {commit}",
        "backbone": study.backbone,
        "pretraining": _weights(about.get("pretraining", "not recorded")),
        "trained_on": f"{', '.join(sets)} of each task",
        "trials": len(set(records.column("trial"))),
    }
