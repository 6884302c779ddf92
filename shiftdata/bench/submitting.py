"""Submissions from the records of a sweep, or from predictions that were made anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftdata.bench.card import TaskName, read_card_file
from shiftdata.bench.judging import Judge, is_leaky, task_named
from shiftdata.bench.records import DONE, Records
from shiftdata.bench.scoring import Entry
from shiftdata.bench.selection import Selected, Ties, rule_of, select
from shiftdata.bench.submission import Part, Submission, rows_of, tests_of
from shiftdata.dataset import OpenDataset
from shiftdata.errors import InputError
from shiftdata.files import whole_file
from shiftdata.metadata import Metadata
from shiftdata.tasks import Task
from shiftdata.tasks.predictions import predicted_rows


def from_predictions(
    metadata: Metadata, protocol: str, files: Sequence[str], card: Path, unlabelled: str = ""
) -> Submission:
    """A submission of files of predictions for a task, each `[SET=]FILE`; a set's second is its seed 1."""
    task = task_named(metadata, protocol, unlabelled)
    tests, task_id = tests_of(task), task.content_id()
    seeds: dict[str, int] = {}
    parts = []
    for text in files:
        name, path = _set_and_file(text, task, tests)
        seed = seeds[name] = seeds.get(name, -1) + 1
        rows, predicted = predicted_rows(task, name, path)
        once = np.unique(rows, return_index=True)[1]  # a row that was drawn twice has one key
        parts.append(rows_of(Part(task_id, name, seed), task, rows[once], predicted[once]))
    fields = read_card_file(card, {})
    return Submission.of(
        _about(fields, metadata, {task_id: TaskName(protocol=protocol, unlabelled=unlabelled)}), parts
    )


def from_records(
    records: Records,
    rule: str,
    *,
    data: Path | None = None,
    card: Path | None = None,
    m: int = 3,
    ties: Ties = "earliest",
) -> Submission:
    """A submission of what a rule chooses in records of one method on the tasks of one dataset.

    Where the records keep the predictions of every candidate for the set to select by, they are in it.
    """
    _check_one(records)
    judge, parts, names, chosen = Judge(data), [], {}, []
    for one in select(records, rule, m=m, ties=ties):
        if one.refused:
            raise InputError(f"{rule} cannot choose in {one.study.task}: {one.refused}")
        about = json.loads(records.column("about")[one.runs[0].run])
        metadata = judge.metadata(one.study.dataset.partition("/")[0], about["base"], one.study.content_id)
        task = task_named(metadata, one.study.protocol, about["unlabelled"])
        names[one.study.task_id] = TaskName(protocol=one.study.protocol, unlabelled=about["unlabelled"])
        parts += [*_chosen(records, one, task), *_candidates(records, one, task)]
        chosen.append((one, about, task))
    stated = {"rule": rule, "m": m, "ties": ties, "saw_test": rule_of(rule).oracle, "claims": {}}
    known = {**_known(records, chosen), **stated}
    fields = known if card is None else read_card_file(card, known)
    return Submission.of(_about(fields, metadata, names), parts)


def checked(
    submission: Submission, out: Path, *opened: OpenDataset | None, data: Path | None = None
) -> list[Entry]:
    """Write a submission, and judge the file as a leaderboard does; a file that is refused is not written."""
    judge = Judge(data, *(one for one in opened if one is not None))
    with whole_file(out) as temporary:
        submission.write(temporary)
        return judge.judge(Submission.read(temporary), out.name)


def _set_and_file(text: str, task: Task, tests: Sequence[str]) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if equals and name in tests:
        return name, path
    if len(tests) > 1:
        raise InputError(
            f"{task.describe()} is tested on {', '.join(tests)}: give predictions of each, as in "
            f"{tests[0]}={text}"
        )
    return tests[0], text


def _about(fields: Mapping[str, Any], metadata: Metadata, names: Mapping[str, TaskName]) -> Mapping[str, Any]:
    """The fields of a card, with what the tool knows of dataset and tasks."""
    if metadata.dataset is None:
        raise InputError(f"{metadata.name} is a table of your own: submissions are for datasets")
    manifest = metadata.dataset.manifest
    return dict(fields) | {
        "dataset": manifest.name,
        "base": metadata.base,
        "content_id": manifest.base(metadata.base).content_id,
        "tasks": {task_id: vars(one) for task_id, one in names.items()},
    }


def _check_one(records: Records) -> None:
    """Refuse records of several methods or datasets: a submission is of one."""
    if not len(records):
        raise InputError("there are no runs to submit")
    for name in ("dataset", "content_id", "method", "variant", "backbone", "sweep"):
        if len(values := sorted(set(records.column(name)))) > 1:
            option = "" if name in ("content_id", "sweep") else f" with --{name}"
            raise InputError(
                f"these records have {len(values)} of {name}: {', '.join(values)}; choose one{option}"
            )


def _chosen(records: Records, one: Selected, task: Task) -> Iterator[pa.Table]:
    for run in one.runs:
        for name in tests_of(task):
            predicted = records.predicted(run.run, name, run.step)
            if predicted is None:
                raise InputError(
                    f"the predictions of {one.study.method}, trial {one.trial}, seed {run.seed}, step "
                    f"{run.step}, for {name} were not kept: name the rule {one.rule} in the sweep's rules, "
                    "or give it "
                    'keep = "all", and run it again'
                )
            part = Part(one.study.task_id, name, run.seed, one.trial, run.step)
            yield rows_of(part, task, task.rows(name), predicted)


def _candidates(records: Records, one: Selected, task: Task) -> Iterable[pa.Table]:
    """What every candidate predicts for the sets to select by; nothing where some was not kept."""
    rule = rule_of(one.rule)
    if rule.role != "select" or rule.held_out:
        return []
    made = []
    wanted = zip(*(records.column(name) for name in ("study", "held_out", "status")), strict=True)
    for run, place in enumerate(wanted):
        if place != (one.study.id, "", DONE):
            continue
        trial, seed = (records.column(name)[run] for name in ("trial", "seed"))
        for name in records.sets_of(run, "select"):
            for step in records.steps(run):
                predicted = records.predicted(run, name, step)
                if predicted is None:
                    return []
                part = Part(one.study.task_id, name, seed, trial, step)
                made.append(rows_of(part, task, task.rows(name), predicted))
    return made


def _known(records: Records, chosen: Sequence[tuple[Selected, Mapping[str, Any], Task]]) -> Mapping[str, Any]:
    """The fields of a card that records can fill in."""
    (one, about, task), *_ = chosen
    commit = records.column("commit")[0] or "unknown"
    study, seconds = one.study, sum(value or 0.0 for value in records.column("seconds"))
    sets = [name for name, roles in task.roles.items() if {"fit", "unlabelled"} & set(roles)]
    if about.get("trains_on_select"):
        sets.append(task.set_of("select"))
    trained_on = f"{', '.join(sets)} of each task"
    if elsewhere := about.get("trained_on"):
        trained_on = f"the train rows of another base, content_id {elsewhere}"
    used = {of.protocol: set(records.where(task_id=of.task_id).column("trial")) for of in records.studies()}
    return {
        "method": study.method if study.variant == "fixed" else f"{study.method}@{study.variant}",
        "authors": [],
        "url": "",
        "code": f"shiftdata {about['versions']['shiftdata']}, commit {commit}",
        "code_license": "Apache-2.0",
        "backbone": study.backbone,
        "pretraining": about.get("pretraining") or "none",
        "trained_on": trained_on,
        "trials": max(map(len, used.values())),
        "cost": f"{seconds:,.0f} s of {len(records):,} runs",
        "date": date.today().isoformat(),
        "leaks": any(is_leaky(of) for _, _, of in chosen),
        "hyper": {
            of.study.protocol: {name: info[name] for name in ("hyper", "training")} for of, info, _ in chosen
        },
    }
