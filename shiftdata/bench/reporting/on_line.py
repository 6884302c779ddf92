"""The section on accuracy on the line: models on clean and shifted rows of one task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.bench.records import Records
from shiftdata.bench.reporting.scores import Group, Score, Section, alike, clean, rule_label
from shiftdata.bench.saved import SAVED, SavedRuns
from shiftdata.bench.selection import rule_of
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.metrics.line import FEWEST, Point, accuracy_line, agreement_line
from shiftdata.evaluation.tasks import Evaluation
from shiftdata.evaluation.tasks.sets import ROLES
from shiftdata.tables import Table

#: Kinds whose test sets are of other domains or severities than the validation set: where nobody asks for a
#: line, they have one if there are enough models, and not too many tasks.
SHIFTED = ("domain generalization", "domain adaptation", "continuous shift", "other tasks")
ENOUGH, MOST_TASKS = 5, 8
NOTE = (
    "A point is a model, the mean over its seeds, on rows of two sets. Effective robustness is the height "
    "above the line (Taori et al., 2020). Intervals allow for origins with several rows."
)


@dataclass(frozen=True)
class Side:
    """One axis: a set, or its rows of one severity."""

    set: str
    severity: str = ""

    @classmethod
    def read(cls, text: str, sets: Mapping[str, Evaluation]) -> Side:
        """Read SET, a role (select, test), or either with @SEVERITY."""
        whole = text in sets or "@" not in text  # a cell's set has @ in its name
        name, at, severity = (text, "", "") if whole else text.rpartition("@")
        if name not in sets:
            of_role = [each for each, result in sets.items() if result.role == name]
            if not of_role:
                raise not_found("set", name, [*sets, *ROLES], "Or give a severity of one, such as test@1.5.")
            name = of_role[0]
        steps = sets[name].cells.names.get("severity", ())
        if at and severity not in steps:
            raise InputError(f"{name} has no severity {severity}: it has {', '.join(steps) or 'none'}")
        return cls(name, severity)

    def __str__(self) -> str:
        return f"{self.set}@{self.severity}" if self.severity else self.set


def line_section(
    records: Records, groups: Sequence[Group], sides: Sequence[str] = (), axes: str = "probit"
) -> Section:
    """A line for each task and rule; `sides` are by default the validation set and the test set."""
    tasks: dict[tuple[str, str], list[Score]] = {}
    for same in alike(groups, "kind", "family", "dataset", "rule"):
        if not rule_of(same[0].rule).oracle and (sides or same[0].kind.name in SHIFTED):
            for score in (score for group in same for score in group.scores):
                tasks.setdefault((score.task_id, same[0].rule), []).append(score)
    if not sides:
        tasks = {key: scores for key, scores in tasks.items() if len(scores) >= ENOUGH}
        tasks = tasks if len(tasks) <= MOST_TASKS else {}
    tables = [table for scores in tasks.values() for table in _tables(records, scores, sides, axes)]
    return Section("Accuracy on the line", tuple(tables), (NOTE,) if tables else ())


def _tables(records: Records, scores: Sequence[Score], given: Sequence[str], axes: str) -> list[Table]:
    sets = records.tasks[scores[0].task_id]
    if not given and not any(result.role == "select" for result in sets.values()):
        return []
    sides = [Side.read(text, sets) for text in given or ("select", scores[0].test)]
    judged = [score for score in scores if all(_has(records, score, side.set) for side in sides)]
    study = scores[0].selected.study
    where = f"{clean(study.protocol)}, {scores[0].dataset}, {rule_label(scores[0].selected.rule)}"
    backbones = {score.selected.study.backbone for score in judged}
    points = [_point(records, score, sides, several=len(backbones) > 1) for score in judged]
    if len({point.clean for point in points}) < FEWEST and not given:
        return []
    names = [str(side) for side in sides]
    tables = [accuracy_line(points, axes=axes).table(f"Accuracy on the line: {where}", names)]
    clean_rows, shifted_rows = (
        [of for score in judged if (of := _labels(records, score, side)) is not None] for side in sides
    )
    if len(clean_rows) == len(shifted_rows) == len(judged):  # of the first seed of each
        accuracy, true = ([_share(records, score, side, 1)[0] for score in judged] for side in sides)
        labels, named = (np.stack(clean_rows), np.stack(shifted_rows)), [point.name for point in points]
        agreement = agreement_line(*labels, accuracy, names=named, axes=axes, true=true)
        tables.append(agreement.table(f"Shifted accuracy from agreement, without labels: {where}"))
    return tables


def _has(records: Records, score: Score, name: str) -> bool:
    return all((name, at.step) in records.places[at.run] for at in score.selected.runs)


def _point(records: Records, score: Score, sides: Sequence[Side], *, several: bool) -> Point:
    backbone = clean(score.selected.study.backbone)
    name = f"{score.method}, {backbone}" if several else score.method
    family = backbone if several else family_of_model(name) if backbone == SAVED else ""
    (clean_, n, size), (shifted, n_shifted, size_shifted) = (_share(records, score, side) for side in sides)
    return Point(name, clean_, shifted, n, n_shifted, family, (size, size_shifted))


def family_of_model(name: str) -> str:
    """Return the name of a model without its size, and without its head.

    >>> [family_of_model(name) for name in ("efficientnet-lite2, probe", "small-cnn:0.5", "clip")]
    ['efficientnet-lite', 'small-cnn', 'clip']
    """
    return re.sub(r"[:/_ -]?\d+(\.\d+)?$", "", name.partition(", ")[0])


def _share(
    records: Records, score: Score, side: Side, seeds: int | None = None
) -> tuple[float, float, float]:
    """The share of right rows over the first seeds, the rows, and how many of an origin each err as much."""
    cells = records.tasks[score.task_id][side.set].cells
    places = [records.places[at.run][side.set, at.step] for at in score.selected.runs[:seeds]]
    mine = np.ones(len(cells.n), bool)
    if side.severity:
        mine = cells.codes["severity"] == cells.names["severity"].index(side.severity)
    n = int(cells.n[mine].sum())
    if not n:
        raise InputError(f"{side} has no rows: take another set or severity")
    right = records.correct(places)[:, mine].sum() / (n * len(places))
    name = f"accuracy@{side.severity}" if side.severity else "overall"
    figures = {each["name"]: each for each in records.figures(places[:1]).to_pylist()}
    share, error = (figures.get(name, {}).get(key) for key in ("value", "sem"))
    size = 1 + share * (1 - share) / error**2 if share and error else cells.origins or n
    return float(right), float(n), float(min(n, size))


def _labels(records: Records, score: Score, side: Side) -> IntArray | None:
    """The labels that the first seed predicts for a side, in the order of rows."""
    first = score.selected.runs[0]
    labels = records.predicted(first.run, side.set, first.step)
    if labels is None or not side.severity:
        return labels
    if not isinstance(records, SavedRuns):
        return None  # the severities of rows are in the dataset, which a report does not read
    found: Any = labels[records.severity(side.set).round(6) == round(float(side.severity), 6)]
    return np.asarray(found, np.int64)
