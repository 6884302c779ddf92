"""From selected runs to cells: the figures of each seed, the groups that share tables, means with errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from shiftdata.bench.records import Records
from shiftdata.bench.reporting.kinds import Kind, clean, kind_of, parameters_of, title_of, unit_of
from shiftdata.bench.selection import Chosen, Selected, rule_of, select
from shiftdata.metrics.arrays import FloatArray
from shiftdata.metrics.statistics import accuracies, spread
from shiftdata.tables import Block, Table
from shiftdata.tasks import Evaluation

#: Characters of a hash that are shown.
SHORT = 12
#: What follows ± in a table of seeds.
OVER_SEEDS = (
    "± is the standard error over seeds (SD / √seeds; over tasks where a number is of several draws)."
)


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
class Cell:
    """A number of a table: a mean with its spread, over the seeds of one task or over several tasks."""

    value: float
    spread: float
    figure: str

    @property
    def printed(self) -> str:
        if self.figure == "rank":
            return f"{self.value:g}"
        digits = 1 if unit_of(self.figure) == "%" else 3
        spread = f"±{self.spread:.{digits}f}" if np.isfinite(self.spread) else ""
        return f"{round(self.value, digits) + 0.0:.{digits}f}{spread}"  # + 0.0: no minus before 0


#: Cells by their part, row and column.
Cells: TypeAlias = dict[tuple[str, str, str], Cell]


@dataclass(frozen=True)
class Section:
    """Tables on one subject, which need not say it again where they stand below it."""

    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    subject: str = ""

    def head(self, table: Table) -> str:
        """The title of one of its tables, below its own."""
        return table.title.removesuffix(f": {self.subject}")


@dataclass(frozen=True)
class Group:
    """The scores of one section: studies of a family of tasks, on a dataset, with a backbone, under a rule.

    `code` has the commits of their runs; `baseline` is the method that others are compared with.
    """

    kind: Kind
    family: str
    dataset: str
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
        """What its tables are of; the protocol where the kind does not say it."""
        parts = [
            self.dataset,
            "" if (self.family,) == self.kind.protocols else self.family,
            self.backbone,
            f"selected by {rule_label(self.rule)}",
        ]
        return ", ".join(part for part in parts if part)

    def has(self, figure: str) -> bool:
        return any(figure in score.figures for score in self.scores)

    def notes(self, spread: str = OVER_SEEDS) -> tuple[str, ...]:
        """What stands under each of its tables."""
        sizes, origins = span(score.n for score in self.scores), span(score.origins for score in self.scores)
        of = "" if origins in (sizes, "0") else f" of {origins} origins"
        seeds = span(len(score.seeds) for score in self.scores)
        models = span(score.selected.among for score in self.scores)
        ids = sorted({score.selected.study.content_id[:SHORT] for score in self.scores})
        lines = [
            f"n = {sizes} test rows{of} a task; {seeds} seeds a number; {spread}",
            f"Selected by {rule_label(self.rule)}: {rule_of(self.rule).about}, "
            f"among {models} models a study.",
            f"Dataset {self.dataset}, content_id {', '.join(ids)}; {self.code}.",
        ]
        if failed := sum(score.selected.failed for score in self.scores):
            lines.append(f"{failed:,} runs of chosen trials failed: their seeds are not in these numbers.")
        return tuple(lines)


def rule_label(rule: str) -> str:
    """The name of a rule; one that sees the test is marked.

    >>> rule_label("iid"), rule_label("oracle-last")
    ('iid', 'oracle-last (oracle)')
    """
    return f"{rule} (oracle)" if rule_of(rule).oracle else rule


def method_label(selected: Selected) -> str:
    """A method with its variant, marked where the rule has seen the test."""
    mark = " (oracle)" if rule_of(selected.rule).oracle else ""
    return clean(f"{with_variant(selected.study.method, selected.study.variant)}{mark}")


def with_variant(method: str, variant: str) -> str:
    """A method with its variant where that is not the usual."""
    return f"{method}@{variant}" if variant not in ("", "fixed") else method


def span(values: Iterable[int]) -> str:
    """The smallest and the largest of some sizes."""
    ordered = sorted(set(values))
    return f"{ordered[0]:,}" + (f" to {ordered[-1]:,}" if len(ordered) > 1 else "")


def scores_of(records: Records, rule: str) -> tuple[list[Score], list[Selected]]:
    """The scores of every study under a rule, and what the rule could not choose from."""
    chosen: list[tuple[Selected, str, list[Chosen]]] = []
    refused = []
    for selected in select(records, rule):
        tests = records.sets_of(selected.runs[0].run, "test") if selected.runs else []
        runs = [at for at in selected.runs if tests and (tests[0], at.step) in records.places[at.run]]
        if runs:
            chosen.append((selected, tests[0], runs))
        else:
            refused.append(selected)
    places = [[records.places[at.run][test, at.step] for at in runs] for _, test, runs in chosen]
    figures = iter(_figures(records, [place for of in places for place in of]))
    scores = [
        _score(records, selected, test, tuple(at.seed for at in runs), of, list(islice(figures, len(of))))
        for (selected, test, runs), of in zip(chosen, places, strict=True)
    ]
    return scores, refused


def over_steps(records: Records, score: Score, most: int) -> list[FloatArray]:
    """The main figure of each chosen run after the last `most` steps at which its test was evaluated."""
    places = [
        [known[score.test, step] for step in records.steps(at.run) if (score.test, step) in known][-most:]
        for at in score.selected.runs
        for known in (records.places[at.run],)
    ]
    every = [place for of in places for place in of]
    as_seeds = tuple(range(len(every)))  # a step of a run as a seed
    main = _score(records, score.selected, score.test, as_seeds, every, _figures(records, every)).main
    return np.split(main, np.cumsum([len(of) for of in places])[:-1])


def _figures(records: Records, places: Sequence[int]) -> list[dict[str, tuple[float, int]]]:
    """Value and rows of each figure of some evaluations."""
    table = records.figures(places)
    figures: list[dict[str, tuple[float, int]]] = [{} for _ in places]
    columns = (table[name].to_pylist() for name in ("place", "name", "value", "n"))
    for place, name, value, n in zip(*columns, strict=True):
        figures[place][name] = (np.nan if value is None else value, n or 0)
    return figures


def _score(
    records: Records,
    selected: Selected,
    test: str,
    seeds: tuple[int, ...],
    places: list[int],
    figures: Sequence[Mapping[str, tuple[float, int]]],
) -> Score:
    empty = records.tasks[selected.study.task_id][test]
    correct, total = records.correct(places), int(empty.cells.n.sum())
    kind, domains = kind_of(selected.study.task), _domains(empty, correct)
    values: dict[str, FloatArray] = {}
    rows = {"overall": total}
    for name in dict.fromkeys(name for of in figures for name in of):
        value, n = zip(*(of.get(name, (np.nan, 0)) for of in figures), strict=True)
        values[name] = np.array(value) * (100.0 if unit_of(name) == "%" else 1.0)
        rows[name] = max(n)
    values.setdefault("overall", 100 * accuracies(correct.sum(axis=1), np.full(len(places), total)))
    if kind.main not in values:
        values["mean_domain"] = np.mean(list(domains.values()), axis=0)
    return Score(selected, kind, seeds, values, rows, domains, test, total, empty.cells.origins)


def _domains(empty: Evaluation, correct: Any) -> dict[str, FloatArray]:
    """The accuracy of each nuisance, a value a seed."""
    cells = empty.cells
    codes, names = cells.codes[empty.nuisance], cells.names[empty.nuisance]
    domains = {}
    for code in np.unique(codes).tolist():
        mine = codes == code
        n = np.full(len(correct), cells.n[mine].sum())
        domains[clean(names[code])] = 100 * accuracies(correct[:, mine].sum(axis=1), n)
    return domains


def cell_of(
    scores: Iterable[Score], figure: str, values: Callable[[Score], FloatArray | None] | None = None
) -> Cell | None:
    """A number over the seeds of one task, or over tasks by their means; None where it is undefined.

    `values` are those of a score. [default: its figure]
    """
    every = [
        of for score in scores if (of := values(score) if values else score.figures.get(figure)) is not None
    ]
    return cell(every[0] if len(every) == 1 else [of.mean() for of in every], figure)


def cell(points: Sequence[float] | FloatArray, figure: str) -> Cell | None:
    """The mean of some points with its standard error; None where it is undefined."""
    points = np.asarray(points, np.float64)
    if not len(points) or not np.isfinite(points).all():
        return None
    return Cell(float(points.mean()), standard_error(points), figure)


def standard_error(points: FloatArray) -> float:
    """The SD (n - 1) over the square root of n; nan for fewer than two points."""
    return spread(points, "sma") / math.sqrt(len(points))


def cells_of(
    scores: Iterable[Score],
    figure: str,
    column: str | Callable[[Score], str],
    *,
    row: Callable[[Score], str] = lambda score: score.method,
    part: Callable[[Score], str] = lambda score: "",
    values: Callable[[Score], FloatArray | None] | None = None,
) -> Cells:
    """Cells of scores by their place; studies that share a place are averaged."""
    places: dict[tuple[str, str, str], list[Score]] = {}
    for score in scores:
        name = column if isinstance(column, str) else column(score)
        places.setdefault((part(score), row(score), name), []).append(score)
    return {
        place: known for place, of in places.items() if (known := cell_of(of, figure, values)) is not None
    }


def table_of(
    title: str,
    cells: Cells,
    notes: tuple[str, ...],
    corner: str | Callable[[str], str],
    *,
    order: Sequence[str] = (),
    drawn: bool = True,
) -> Table:
    """A table of cells; `corner` stands over the rows of a part, `order` is that of the columns."""

    def blocks(chosen: Cells) -> tuple[Block, ...]:
        parts: dict[str, dict[tuple[str, str], str]] = {}
        for (part, row, column), known in chosen.items():
            parts.setdefault(part, {})[row, column] = known.printed
        corners = {part: corner if isinstance(corner, str) else corner(part) for part in parts}
        return tuple(Block.of(corners[part], of, order) for part, of in parts.items())

    units = [unit_of(known.figure) for known in cells.values()]
    # Ranks and per cents have no scale in common: a chart has the most frequent unit.
    most = max(dict.fromkeys(units), key=units.count, default="")
    shown = {place: known for place, known in cells.items() if drawn and unit_of(known.figure) == most}
    metrics = {title_of(known.figure.partition("@")[0]) for known in shown.values()}
    label = f"{metrics.pop()} ({most})" if len(metrics) == 1 else most
    return Table(title, blocks(cells), notes, blocks(shown), label)
