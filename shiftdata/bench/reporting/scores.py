"""The numbers behind every table: for each study and rule, each figure of each seed that was chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shiftdata.bench.records import Records
from shiftdata.bench.reporting.kinds import Kind, clean, kind_of, parameters_of, unit_of
from shiftdata.bench.selection import Chosen, Selected, rule_of, select
from shiftdata.metrics.arrays import FloatArray
from shiftdata.metrics.statistics import accuracies, spread
from shiftdata.tasks import Evaluation


@dataclass(frozen=True)
class Score:
    """A study under a rule: each figure as an array with a value a seed, in per cent where it is a share.

    `rows` has what each figure rests on; `domains` the accuracy of each nuisance of the test, which has `n`
    rows of `origins`.
    """

    selected: Selected
    kind: Kind
    seeds: tuple[int, ...]
    figures: Mapping[str, FloatArray]
    rows: Mapping[str, int]
    domains: Mapping[str, FloatArray]
    test: str
    n: int
    origins: int

    @property
    def method(self) -> str:
        return method_label(self.selected)

    @property
    def dataset(self) -> str:
        return clean(self.selected.study.dataset)

    @property
    def params(self) -> Mapping[str, Any]:
        return parameters_of(self.selected.study.task)

    @property
    def main(self) -> FloatArray:
        return self.figures[self.kind.main]


@dataclass(frozen=True)
class Cell:
    """A number of a table: a mean with its spread, over the seeds of one task or over several tasks."""

    value: float
    spread: float
    unit: str

    @property
    def printed(self) -> str:
        if self.unit == "rank":
            return f"{self.value:g}"
        digits = 1 if self.unit == "%" else 3
        spread = f"±{self.spread:.{digits}f}" if np.isfinite(self.spread) else ""
        return f"{round(self.value, digits) + 0.0:.{digits}f}{spread}"  # + 0.0: no minus before 0


def rule_label(rule: str) -> str:
    """The name of a rule; one that sees the test is marked.

    >>> rule_label("iid"), rule_label("oracle-last")
    ('iid', 'oracle-last (oracle)')
    """
    return f"{rule} (oracle)" if rule_of(rule).oracle else rule


def method_label(selected: Selected) -> str:
    """A method with its variant, marked where the rule has seen the test."""
    variant = f"@{selected.study.variant}" if selected.study.variant not in ("", "fixed") else ""
    mark = " (oracle)" if rule_of(selected.rule).oracle else ""
    return clean(f"{selected.study.method}{variant}{mark}")


def scores_of(records: Records, rule: str) -> tuple[list[Score], list[Selected]]:
    """The scores of every study under a rule, and what the rule could not choose from."""
    made, refused = [], []
    chosen: list[tuple[Selected, str, list[int]]] = []
    for one in select(records, rule):
        tests = records.sets_of(one.runs[0].run, "test") if one.runs else []
        there = [at for at in one.runs if tests and (tests[0], at.step) in records.places[at.run]]
        if there:
            places = [records.places[at.run][tests[0], at.step] for at in there]
            chosen.append((one, tests[0], places))
        else:
            refused.append(one)
    figures = _figures(records, [place for _, _, places in chosen for place in places])
    begin = 0
    for one, test, places in chosen:
        end = begin + len(places)
        made.append(_score(records, one, test, places, figures[begin:end]))
        begin = end
    return made, refused


def over_steps(records: Records, score: Score, most: int) -> list[FloatArray]:
    """The main figure of each chosen run after the last `most` steps at which its test was evaluated."""
    known = [
        (at.run, [step for step in records.steps(at.run) if (score.test, step) in records.places[at.run]])
        for at in score.selected.runs
    ]
    chosen = tuple(Chosen(run, step, step) for run, steps in known for step in steps[-most:])
    places = [records.places[at.run][score.test, at.step] for at in chosen]
    every = replace(score.selected, runs=chosen)  # a step of a run as a seed
    main = _score(records, every, score.test, places, _figures(records, places)).main
    return np.split(main, np.cumsum([len(steps[-most:]) for _, steps in known])[:-1])


def _figures(records: Records, places: Sequence[int]) -> list[dict[str, tuple[float, int]]]:
    """Value and rows of each figure of some evaluations."""
    table = records.figures(places)
    found: list[dict[str, tuple[float, int]]] = [{} for _ in places]
    columns = (table[name].to_pylist() for name in ("place", "name", "value", "n"))
    for place, name, value, n in zip(*columns, strict=True):
        found[place][name] = (np.nan if value is None else value, n or 0)
    return found


def _score(
    records: Records,
    one: Selected,
    test: str,
    places: list[int],
    figures: Sequence[Mapping[str, tuple[float, int]]],
) -> Score:
    empty = records.tasks[one.study.task_id][test]
    correct = records.correct(places)
    names = dict.fromkeys(name for of in figures for name in of)
    values = {
        name: np.array([of.get(name, (np.nan, 0))[0] for of in figures]) * _scale(name) for name in names
    }
    rows = {name: max(of.get(name, (0.0, 0))[1] for of in figures) for name in names}
    total = int(empty.cells.n.sum())
    kind, domains = kind_of(one.study.task), _domains(empty, correct)
    values.setdefault("overall", 100 * accuracies(correct.sum(axis=1), np.full(len(places), total)))
    if kind.main not in values:
        values["mean_domain"] = np.mean(list(domains.values()), axis=0)
    seeds = tuple(at.seed for at in one.runs if (test, at.step) in records.places[at.run])
    return Score(
        one, kind, seeds, values, {"overall": total, **rows}, domains, test, total, empty.cells.origins
    )


def _scale(figure: str) -> float:
    return 100.0 if unit_of(figure) == "%" else 1.0


def _domains(empty: Evaluation, correct: Any) -> dict[str, FloatArray]:
    """The accuracy of each nuisance, a value a seed."""
    cells = empty.cells
    codes, names = cells.codes[empty.nuisance], cells.names[empty.nuisance]
    made = {}
    for code in np.unique(codes).tolist():
        mine = codes == code
        n = cells.n[mine].sum()
        made[clean(names[code])] = 100 * accuracies(correct[:, mine].sum(axis=1), np.full(len(correct), n))
    return made


def cell_of(scores: Iterable[Score], values: Callable[[Score], FloatArray | None], unit: str) -> Cell | None:
    """A number over the seeds of one task, or over tasks by their means; None where it is undefined."""
    found = [of for one in scores if (of := values(one)) is not None]
    points = found[0] if len(found) == 1 else np.array([of.mean() for of in found])
    if not len(points) or not np.isfinite(points).all():
        return None
    return Cell(float(np.mean(points)), standard_error(points), unit)


def standard_error(points: FloatArray) -> float:
    """The SD (n - 1) over the square root of n; nan for fewer than two points."""
    return spread(points, "sma") / math.sqrt(len(points))
