"""Folders of saved runs and predictions as records, so that `report` reads them as it reads sweeps."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np

from shiftdata.bench.records import DONE, Records, evaluated
from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.data.dataset import open_dataset
from shiftdata.data.format.conditions import parse_condition
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import some
from shiftdata.evaluation.protocols import Protocol, Where, protocol
from shiftdata.evaluation.protocols import task as make_task
from shiftdata.evaluation.tasks import Evaluation, Task
from shiftdata.evaluation.tasks.descriptions import steps_of
from shiftdata.evaluation.tasks.predictions import predicted_rows, predictions_file
from shiftdata.stable import content_hash
from shiftdata.untrusted.texts import read_json

#: The backbone of records of saved runs: models of any network stand in one table.
SAVED = "saved runs"
RUN = "run.json"
#: What a run.json must say, so that its task can be made again.
IDENTITY = ("dataset", "content_id", "task", "task_id")


class SavedRuns(Records):
    """Saved runs and predictions of one task, evaluated now; each name is a study, with a seed or several."""

    def __init__(self, task: Task, places: Sequence[tuple[Path, str, Mapping[str, Any]]]) -> None:
        """Read `places`: folders, each with the name of its model and its run.json."""
        self.task, self._labels, rows = task, [], list[dict[str, Any]]()
        empty: dict[str, Evaluation] = {}
        for folder, name, about in places:
            results, labels = self._evaluated(folder)
            empty |= {of: _empty(result) for of, result in results.items()}
            self._labels.append(labels)
            rows.append(_row(name, about, [evaluated(0, result) for result in results.values()]))
        seeds = Counter((row["method"], row["seed"]) for row in rows)
        if twice := [f"{name}, seed {seed}" for (name, seed), times in seeds.items() if times > 1]:
            raise InputError(f"two runs are {some(twice)}: give each a name, as in wide={places[-1][0]}")
        super().__init__(self.table_of(rows), {task.content_id(): empty})

    @classmethod
    def read(cls, *places: str | Path, dataset: str | None = None) -> SavedRuns:
        """Read folders, [NAME=]FOLDER each; `dataset` says where the data is, by default as they name it."""
        split = [_split(str(place)) for place in places]
        abouts = [read_json(Path(folder) / RUN) for _, folder in split]
        for (_, folder), about in zip(split, abouts, strict=True):
            if lost := [key for key in IDENTITY if not about.get(key)]:
                raise InputError(
                    f"{folder}/{RUN} does not say {', '.join(lost)}: it is not of a dataset's task"
                )
        if len(tasks := {str(about["task_id"]) for about in abouts}) > 1:
            described = "; ".join(sorted({str(about["task"]) for about in abouts}))
            raise InputError(f"a report compares models on one task, these are of {len(tasks)}: {described}")
        names = [given or name for (given, _), name in zip(split, _names(abouts), strict=True)]
        folders = [Path(folder) for _, folder in split]
        return cls(saved_task(abouts[0], dataset), list(zip(folders, names, abouts, strict=True)))

    def predicted(self, run: int, name: str | None = None, step: int | None = None) -> IntArray | None:
        return self._labels[run].get(name or self.task.set_of("test"))

    def severity(self, name: str) -> FloatArray:
        """The severity of each row of a set."""
        return np.asarray(self.task.metadata.columns["severity"][self.task.rows(name)], np.float64)

    def _evaluated(self, folder: Path) -> tuple[dict[str, Evaluation], dict[str, IntArray]]:
        results, labels = dict[str, Evaluation](), dict[str, IntArray]()
        for name, rowset in self.task.sets.items():
            file = folder / predictions_file(name)
            if rowset.role in ("select", "test") and file.is_file():
                _, labels[name] = predicted_rows(self.task, name, str(file))
                result = self.task.evaluate(str(file), name)  # also of outputs that are no label
                # Its error over origins, which counts of cells do not have.
                results[name] = replace(result, figures={"overall": result.accuracy, **result.figures})
            elif rowset.role == "test":
                raise InputError(f"{folder} has no {file.name}: save the predictions of every test set")
        return results, labels


def _empty(result: Evaluation) -> Evaluation:
    return replace(result, figures={}, cells=replace(result.cells, correct=np.zeros_like(result.cells.n)))


def is_saved(place: str) -> bool:
    """True for [NAME=]FOLDER of a saved run or prediction."""
    return (Path(_split(place)[1]) / RUN).is_file()


def _split(place: str) -> tuple[str, str]:
    given, equals, folder = place.partition("=")
    return (given, folder) if equals and not Path(place).exists() else ("", place)


def _names(abouts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The model or backbone of each run, with its method where these differ."""
    models = [str(about.get("model") or about.get("backbone") or "model") for about in abouts]
    methods = [str(about.get("method", "")) for about in abouts]
    if len(set(methods)) == 1:
        return models
    return methods if len(set(models)) == 1 else list(map(", ".join, zip(models, methods, strict=True)))


def _row(name: str, about: Mapping[str, Any], evaluations: list[dict[str, Any]]) -> dict[str, Any]:
    known = {key: value for key, value in about.items() if key not in ("history", "outputs")}
    text = json.dumps(known, sort_keys=True)
    own: dict[str, Any] = {key: str(about.get(key, "")) for key in (*IDENTITY, "variant", "commit")}
    own |= {key: float(about.get(key, 0)) for key in ("seconds", "processor_seconds")}
    own |= {key: json.dumps(about.get(key, {})) for key in ("hyper", "training")}
    return own | {
        "id": content_hash(name, text),
        "study": content_hash(own["task_id"], name)[:32],
        "sweep": SAVED,
        "protocol": own["task"],
        "method": name,
        "backbone": SAVED,
        "about": text,
        "status": DONE,
        "trial": 0,
        "seed": int(about.get("seed", 0)),
        "evaluations": evaluations,
    }


def saved_task(about: Mapping[str, Any], dataset: str | None = None) -> Task:
    """Make the task of a saved run again, from what its run.json says, and compare the keys of its sets."""
    opened = open_dataset(dataset or str(about["dataset"]).partition("/")[0])
    bases = [base.name for base in opened.manifest.bases if base.content_id == about["content_id"]]
    if not bases:
        raise InputError(
            f"{opened.manifest.name} has other rows here than in this run (content_id "
            f"{str(about['content_id'])[:12]}): give the dataset that it was made with as --dataset"
        )
    steps, also = list[Protocol](), list[str]()
    for name, params in steps_of(str(about["task"])):
        if name.startswith("("):
            steps.append(Where(*parse_condition(name[1:-1])))
        elif match := re.fullmatch(r"(\S+) also unlabelled", name):
            also.append(match[1])
        elif name != "canonical":
            steps.append(protocol(name, **params))
    task = make_task(opened, reduce(and_, steps) if steps else None, base=bases[0], on_empty="report")
    for name in also:
        task = task.also(name, "unlabelled")
    if task.content_id() != about["task_id"]:
        raise InputError(f"{about['task']} of {about['dataset']} has other rows here than in this run")
    return task
