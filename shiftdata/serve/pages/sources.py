"""Where predictions for a page come from: a file, the folder of a run, the records of a sweep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shiftdata.bench.records import RECORDS, SWEEP, Records, Study
from shiftdata.bench.selection import select
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import Task


def predictions_of(text: str, task: Task, name: str | None = None) -> dict[str, Any]:
    """The predictions for a set of a task that [NAME=]PLACE names, by method.

    A place is a file that `task.evaluate` reads, the folder of a `shiftdata train --folder`, or that of a
    sweep: of each of its methods on this task comes the first seed of the trial that its first rule selects.
    """
    given, _, place = ("", "", text) if Path(text).exists() or "=" not in text else text.partition("=")
    path, name = Path(place), name or task.set_of("test")
    if (path / RECORDS).is_dir():
        return _of_sweep(path, task, name, given)
    if (path / "run.json").is_file():
        about = json.loads((path / "run.json").read_text(encoding="utf-8"))
        file = path / f"predictions-{name.replace('/', '-')}.parquet"
        if not file.is_file():
            raise InputError(f"{path} has no predictions for {name}: it was trained on another task")
        return {given or str(about.get("method", path.name)): str(file)}
    return {given or path.stem: place}


def _of_sweep(folder: Path, task: Task, name: str, given: str) -> dict[str, Any]:
    records, rule = Records.read(folder), json.loads((folder / SWEEP).read_text(encoding="utf-8"))["rules"][0]
    protocols, task_id = sorted(set(records.column("protocol"))), task.content_id()
    made: dict[str, Any] = {}
    if task_id in records.column("task_id"):
        records = records.where(task_id=task_id)
        selected = select(records, rule)
        several = len({one.study.backbone for one in selected}) > 1
        for one in selected:
            for chosen in one.runs[:1]:
                predicted = records.predicted(chosen.run, name, chosen.step)
                if predicted is not None:
                    made["/".join(filter(None, [given, _named(one.study, several)]))] = predicted
    if not made:
        raise InputError(
            f"{folder} has no kept predictions for {name} of {task.describe()} under the rule {rule}: its "
            f"tasks are {', '.join(protocols):.300}; a sweep keeps the predictions of what its rules choose"
        )
    return made


def _named(study: Study, several: bool) -> str:
    """A method by its variant, and by its backbone where there are `several`."""
    variant = "" if study.variant == "fixed" else f"@{study.variant}"
    return f"{study.method}{variant}{f', {study.backbone}' if several else ''}"
