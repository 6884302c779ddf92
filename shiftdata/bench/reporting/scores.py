"""From selected runs to cells: figures by seed, groups that share tables, means with errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from shiftdata.bench.records import IMPORTED, Records
from shiftdata.bench.selection import Selected, rule_of, select
from shiftdata.data.arrays import FloatArray
from shiftdata.evaluation.metrics.statistics import accuracies, spread
from shiftdata.evaluation.tasks import Evaluation
from shiftdata.evaluation.tasks.descriptions import parameters_of, steps_of
from shiftdata.tables import Cell, Cells, Table


@dataclass(frozen=True)
class Kind:
    """Tasks that share the form of their tables.

    `main` is the figure by which methods are compared, and `axes` are the parameters along which tables are
    laid out.
    """

    name: str
    main: str
    protocols: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()


_SCENARIO = ("source", "target", "scenario")
_DOMAINS = "leave-one-domain-out leave-one-group-out domainbed domainbed-v2 classic-dg flexible-dg"
_DOMAINS += " listed oracle oracle*"
#: The first that has one of a task's protocols.
KINDS = (
    Kind("label shift", "overall", ("label-shift",), ("alpha",)),
    Kind("group fairness", "worst", ("group-fairness",), ("k", "mu")),
    Kind("universal domain adaptation", "h_score", ("unida",), _SCENARIO),
    Kind("domain adaptation", "overall", ("uda",), _SCENARIO),
    Kind("continuous shift", "overall", ("continuous",)),
    Kind("domain generalization", "mean_domain", tuple(_DOMAINS.split()), ("test", "group", "groups")),
)
OTHER = Kind("other tasks", "overall")

#: The units of figures that are no shares of rows; all others are printed in per cent.
UNITS = {
    "mean_failure_point": "severity", "marginal_error": "l1", "worst_by_chance_p": "probability",
    "rank": "rank",
}  # fmt: skip
TITLES = {
    "overall": "accuracy", "worst": "worst group", "mean": "mean over groups",
    "worst_3": "3 worst groups", "worst_5": "5 worst groups", "h_score": "H-score",
    "h_score_classes": "H-score over classes", "known": "known classes", "unknown": "unknown classes",
    "mean_domain": "mean over domains", "worst_domain": "worst domain", "std_domain": "SD over domains",
    "mean_class": "mean over classes", "mean_drop": "mean drop", "failures": "trajectories that fail",
    "mean_failure_point": "mean failure point", "drop": "accuracy drop",
    "marginal_error": "error of the marginal of labels", "equal_opportunity": "gap of equal opportunity",
    "equalized_odds": "gap of equalized odds",
}  # fmt: skip


def unit_of(figure: str) -> str:
    """The unit of a figure in tables."""
    return UNITS.get(figure, "%")


def title_of(figure: str) -> str:
    """The title of a figure in tables."""
    return TITLES.get(figure, figure.replace("_", " "))


def family_of(task: str, kind: Kind) -> str:
    """Remove seeds and the axes of the kind: tasks of one family share their tables.

    >>> family_of("group-fairness@1(k=8, mu=0.1, seed=3) & (severity <= 1.0)", KINDS[1])
    'group-fairness & (severity <= 1.0)'
    """
    parts = []
    for name, params in steps_of(task):
        left = [f"{key}={value!r}" for key, value in params.items() if key not in ("seed", *kind.axes)]
        parts.append(f"{name}({', '.join(left)})" if left else name)
    return clean(" & ".join(parts))


def kind_of(task: str) -> Kind:
    """The kind of a task.

    >>> kind_of("group-fairness@1(k=8, mu=0.1, seed=0)").main
    'worst'
    """
    names = {name for name, _ in steps_of(task)}
    return next((kind for kind in KINDS if not names.isdisjoint(kind.protocols)), OTHER)


def capital(text: str) -> str:
    """Capitalise the first letter alone."""
    return f"{text[:1].upper()}{text[1:]}"


def clean(text: str) -> str:
    """A name on one line, without control characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


#: Characters of a hash in tables.
SHORT = 12
OVER_SEEDS = (
    "± is the standard error over seeds (SD / √seeds; over tasks where a number is of several draws)."
)


@dataclass(frozen=True)
class Score:
    """A study under a rule: each figure as an array with one value per seed, in per cent if it is a share.

    `rows` has the number of rows of each figure; `domains` the accuracy of each nuisance of the test set,
    which has `n` rows of `origins`.
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
    def task_id(self) -> str:
        return self.selected.study.task_id

    @property
    def params(self) -> Mapping[str, Any]:
        return parameters_of(self.selected.study.task)

    @property
    def main(self) -> FloatArray:
        return self.figures[self.kind.main]

    @property
    def by_seed(self) -> dict[int, float]:
        """The main figure of each seed."""
        return dict(zip(self.seeds, self.main.tolist(), strict=True))


@dataclass(frozen=True)
class Section:
    """Tables on one subject, which its title names."""

    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """The scores of one section: studies of a family of tasks, on a dataset, with a backbone, under a rule.

    `code` has the commits of their runs; `baseline` is the method that others are compared with. Comparisons
    over families and datasets use groups without a family.
    """

    kind: Kind
    dataset: str
    family: str
    backbone: str
    rule: str
    scores: tuple[Score, ...]
    baseline: str
    code: str

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(score.method for score in self.scores))

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(score.task_id for score in self.scores))

    @property
    def title(self) -> str:
        """The subject of its tables; without the protocol if the kind implies it."""
        family = "" if (self.family,) == self.kind.protocols else self.family
        parts = [self.dataset, family, self.backbone, f"selected by {rule_label(self.rule)}"]
        return ", ".join(part for part in parts if part)

    def has(self, figure: str) -> bool:
        return any(figure in score.figures for score in self.scores)

    def notes(self, spread: str = OVER_SEEDS) -> tuple[str, ...]:
        """The notes under each of its tables."""
        sizes, origins = span(score.n for score in self.scores), span(score.origins for score in self.scores)
        of = "" if origins in (sizes, "0") else f" of {origins} origins"
        seeds = span(len(score.seeds) for score in self.scores)
        models = span(score.selected.among for score in self.scores)
        ids = sorted({short(score.selected.study.content_id) for score in self.scores})
        lines = [
            f"n = {sizes} test rows{of} per task; {seeds} seeds per number; {spread}",
            f"Selected by {rule_label(self.rule)}: {rule_of(self.rule).about}, "
            f"among {models} models per study.",
            f"Dataset {self.dataset}, content_id {', '.join(ids)}; {self.code}.",
        ]
        if failed := sum(score.selected.failed for score in self.scores):
            lines.append(f"{failed:,} runs of chosen trials failed: their seeds are not in these numbers.")
        return tuple(lines)


def short(content_id: str) -> str:
    """Shorten a content_id; that of imported records still says so.

    >>> short("imported:" + 64 * "a"), short(64 * "b")
    ('imported:aaaaaaaaaaaa', 'bbbbbbbbbbbb')
    """
    return content_id[: SHORT + content_id.startswith(IMPORTED) * len(IMPORTED)]


def alike(groups: Iterable[Group], *names: str) -> list[list[Group]]:
    """Put groups that share these fields together."""
    places: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        places.setdefault(tuple(str(getattr(group, name)) for name in names), []).append(group)
    return list(places.values())


def rule_label(rule: str) -> str:
    """The name of a rule, marked if it sees the test set.

    >>> rule_label("iid"), rule_label("oracle-last")
    ('iid', 'oracle-last (oracle)')
    """
    return f"{rule} (oracle)" if rule_of(rule).oracle else rule


def method_label(selected: Selected) -> str:
    """A method with its variant, marked if the rule has seen the test set."""
    mark = " (oracle)" if rule_of(selected.rule).oracle else ""
    return clean(f"{selected.study.label}{mark}")


def span(values: Iterable[int]) -> str:
    """The smallest and the largest size."""
    ordered = sorted(set(values))
    return f"{ordered[0]:,}" + (f" to {ordered[-1]:,}" if len(ordered) > 1 else "")


def scores_of(records: Records, rule: str) -> tuple[list[Score], list[Selected]]:
    """The scores of every study under a rule, and the studies that it could not choose from."""
    chosen: list[tuple[Selected, str, list[int], list[int]]] = []
    refused = []
    for selected in select(records, rule):
        tests = records.sets_of(selected.runs[0].run, "test") if selected.runs else []
        runs = [at for at in selected.runs if tests and (tests[0], at.step) in records.places[at.run]]
        if runs:
            places = [records.places[at.run][tests[0], at.step] for at in runs]
            chosen.append((selected, tests[0], [at.seed for at in runs], places))
        else:
            refused.append(selected)
    return _scores(records, chosen), refused


def over_steps(records: Records, score: Score, most: int) -> list[FloatArray]:
    """The main figure of each chosen run at the last `most` steps with a test evaluation."""
    places = [
        [places[score.test, step] for step in records.steps(at.run) if (score.test, step) in places][-most:]
        for at in score.selected.runs
        for places in (records.places[at.run],)
    ]
    every = [place for of in places for place in of]
    (steps,) = _scores(records, [(score.selected, score.test, every, every)])  # steps take the place of seeds
    return np.split(steps.main, np.cumsum([len(of) for of in places])[:-1])


def _scores(
    records: Records, chosen: Sequence[tuple[Selected, str, Sequence[int], list[int]]]
) -> list[Score]:
    """The scores of studies, each given by its test set, seeds and the places of their evaluations."""
    every = [place for *_, places in chosen for place in places]
    table = records.figures(every)
    figures: list[dict[str, tuple[float, int]]] = [{} for _ in every]
    columns = (table[name].to_pylist() for name in ("place", "name", "value", "n"))
    for place, name, value, n in zip(*columns, strict=True):
        figures[place][name] = (np.nan if value is None else value, n or 0)
    evaluated, scores = iter(figures), []
    for selected, test, seeds, places in chosen:
        kind, empty = kind_of(selected.study.task), records.tasks[selected.study.task_id][test]
        correct, total = records.correct(places), int(empty.cells.n.sum())
        domains, of_seeds = _domains(empty, correct), list(islice(evaluated, len(places)))
        values: dict[str, FloatArray] = {}
        rows = {"overall": total}
        for name in dict.fromkeys(name for of in of_seeds for name in of):
            value, n = zip(*(of.get(name, (np.nan, 0)) for of in of_seeds), strict=True)
            values[name] = np.array(value) * (100.0 if unit_of(name) == "%" else 1.0)
            rows[name] = max(n)
        values.setdefault("overall", 100 * accuracies(correct.sum(axis=1), np.full(len(places), total)))
        if kind.main not in values:
            values["mean_domain"] = np.mean(list(domains.values()), axis=0)
        of_test = (test, total, empty.cells.origins)
        scores.append(Score(selected, kind, tuple(seeds), values, rows, domains, *of_test))
    return scores


def _domains(empty: Evaluation, correct: Any) -> dict[str, FloatArray]:
    """The accuracy of each nuisance, one value per seed."""
    cells = empty.cells
    codes, names = cells.codes[empty.nuisance], cells.names[empty.nuisance]
    domains = {}
    for code in np.unique(codes).tolist():
        mine = codes == code
        n = np.full(len(correct), cells.n[mine].sum())
        domains[clean(names[code])] = 100 * accuracies(correct[:, mine].sum(axis=1), n)
    return domains


def gains(score: Score, base: Mapping[int, float]) -> list[float]:
    """The differences of the main figure from a base, for the seeds that both have."""
    return [value - base[seed] for seed, value in score.by_seed.items() if seed in base]


def mean_cell(points: Sequence[float] | FloatArray, figure: str) -> Cell | None:
    """The mean of points with its standard error; None if it is undefined."""
    points = np.asarray(points, np.float64)
    if not len(points) or not np.isfinite(points).all():
        return None
    return cell(float(points.mean()), standard_error(points), figure)


def cell(value: float, error: float, figure: str) -> Cell:
    """A number as it is printed: per cents with one digit, the error if it is known."""
    unit = unit_of(figure)
    digits = 1 if unit == "%" else 3
    text = f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0 turns -0.0 into 0.0
    text += f"±{error:.{digits}f}" if math.isfinite(error) else ""
    metric = title_of(figure.partition("@")[0])
    return Cell(f"{value:g}" if figure == "rank" else text, metric, unit, value, error)


def standard_error(points: FloatArray) -> float:
    """The sample SD over the square root of n; nan for fewer than two points."""
    return spread(points) / math.sqrt(len(points))


def cells_of(
    scores: Iterable[Score],
    figure: str,
    column: str | Callable[[Score], str],
    *,
    row: Callable[[Score], str] = lambda score: score.method,
    part: Callable[[Score], str] = lambda score: "",
    values: Callable[[Score], Sequence[float] | FloatArray] | None = None,
) -> Cells:
    """Cells by place: the mean over seeds of one task, or over the means of several tasks.

    `values` gives the values of a score, by default those of its figure.
    """
    places: dict[tuple[str, str, str], list[Sequence[float] | FloatArray]] = {}
    for score in scores:
        place = (part(score), row(score), column if isinstance(column, str) else column(score))
        points = values(score) if values else score.figures.get(figure, ())
        places.setdefault(place, []).extend([points] if len(points) else [])
    cells = {
        place: mean_cell(of[0] if len(of) == 1 else [float(np.mean(points)) for points in of], figure)
        for place, of in places.items()
    }
    return {place: mean for place, mean in cells.items() if mean is not None}
