"""Submissions from the records of a sweep, or from files of predictions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftdata.bench.leaderboard.card import read_card_file
from shiftdata.bench.leaderboard.judging import Judge, is_leaky, task_named
from shiftdata.bench.leaderboard.submission import Part, Submission, rows_of, tests_of
from shiftdata.bench.records import DONE, Records
from shiftdata.bench.selection import Selected, Ties, rule_of, select
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
    return Submission.of({**read_card_file(card, {}), **_dataset(metadata), "tasks": names}, parts)


def from_records(
    records: Records,
    rule: str,
    *,
    data: Path | None = None,
    card: Path | None = None,
    m: int = 3,
    ties: Ties = "earliest",
) -> Submission:
    """Make a submission of the models that a rule chooses in records of one method on one dataset.

    If the records keep the predictions of every candidate for the validation set, it has them too.
    """
    _check_single(records)
    judge, parts, names, chosen = Judge(data), [], {}, []
    for selected in select(records, rule, m=m, ties=ties):
        study = selected.study
        if selected.refused:
            raise InputError(f"{rule} cannot choose in {study.task}: {selected.refused}")
        about = json.loads(records.column("about")[selected.runs[0].run])
        metadata = judge.metadata(study.dataset.partition("/")[0], about["base"], study.content_id)
        task = task_named(metadata, study.protocol, about["unlabelled"])
        names[study.task_id] = {"protocol": study.protocol, "unlabelled": about["unlabelled"]}
        parts += [*_chosen(records, selected, task), *_candidates(records, selected, task)]
        chosen.append((selected, about, task))
    fields = _fields(records, chosen) | {"rule": rule, "m": m, "ties": ties}
    if card is not None:
        fields = read_card_file(card, fields)
    return Submission.of({**fields, **_dataset(metadata), "tasks": names}, parts)


def _dataset(metadata: Metadata) -> dict[str, str]:
    """The fields of a card that name the dataset."""
    if metadata.dataset is None:
        raise InputError(f"{metadata.name} is a table of your own: submissions are for datasets")
    manifest = metadata.dataset.manifest
    content_id = manifest.base(metadata.base).content_id
    return {"dataset": manifest.name, "base": metadata.base, "content_id": content_id}


def _check_single(records: Records) -> None:
    """Refuse records of several methods or datasets."""
    if not len(records):
        raise InputError("there are no runs to submit")
    for name in ("dataset", "content_id", "method", "variant", "backbone", "sweep"):
        if len(values := sorted(set(records.column(name)))) > 1:
            option = "" if name in ("content_id", "sweep") else f" with --{name}"
            several = f"{len(values)} of {name}: {', '.join(values)}"
            raise InputError(f"these records have {several}; choose one{option}")


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
            part = Part(selected.study.task_id, name, run.seed, selected.trial, run.step)
            yield rows_of(part, task, task.rows(name), predicted)


def _candidates(records: Records, selected: Selected, task: Task) -> list[pa.Table]:
    """Every candidate's predictions for validation sets; none if one was not kept."""
    rule, parts = rule_of(selected.rule), []
    columns = map(records.column, ("study", "held_out", "status", "trial", "seed"))
    for run, (*place, trial, seed) in enumerate(zip(*columns, strict=True)):
        if place != [selected.study.id, "", DONE] or rule.role != "select" or rule.held_out:
            continue
        for name, step in product(records.sets_of(run, "select"), records.steps(run)):
            predicted = records.predicted(run, name, step)
            if predicted is None:
                return []
            part = Part(selected.study.task_id, name, seed, trial, step)
            parts.append(rows_of(part, task, task.rows(name), predicted))
    return parts


def _fields(records: Records, chosen: Sequence[tuple[Selected, Mapping[str, Any], Task]]) -> dict[str, Any]:
    """The fields of a card that records know."""
    (selected, about, task), *_ = chosen
    study, seconds = selected.study, sum(value or 0.0 for value in records.column("seconds"))
    sets = [name for name, rows in task.sets.items() if {"fit", "unlabelled"} & set(rows.roles)]
    if about.get("trains_on_select"):
        sets.append(task.set_of("select"))
    commit = records.column("commit")[0] or "unknown"
    settings = set(zip(records.column("task_id"), records.column("trial"), strict=True))
    return {
        "method": study.method if study.variant == "fixed" else f"{study.method}@{study.variant}",
        "authors": [],
        "url": "",
        "code": f"shiftdata {about['versions']['shiftdata']}, commit {commit}",
        "code_license": "Apache-2.0",
        "backbone": study.backbone,
        "pretraining": about.get("pretraining") or "none",
        "trained_on": f"{', '.join(sets)} of each task",
        "trials": max(Counter(task_id for task_id, _ in settings).values()),
        "cost": f"{seconds:,.0f} s of {len(records):,} runs",
        "date": date.today().isoformat(),
        "leaks": any(is_leaky(task) for _, _, task in chosen),
        "hyper": {
            of.study.protocol: {name: about[name] for name in ("hyper", "training")}
            for of, about, _ in chosen
        },
    }
