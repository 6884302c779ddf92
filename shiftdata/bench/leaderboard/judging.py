"""Judge submissions: compute every number from predictions, or refuse with a reason."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.bench.leaderboard.card import Card
from shiftdata.bench.leaderboard.submission import Part, Submission, tests_of
from shiftdata.bench.records import DONE, SCHEMA, STUDY, Records, evaluated
from shiftdata.bench.selection import RULES, Selected, select
from shiftdata.data.arrays import FloatArray
from shiftdata.data.dataset import OpenDataset, open_dataset
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.metrics.records import some
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.protocols import task as make_task
from shiftdata.evaluation.tasks import Evaluation, Task, TaskWarning
from shiftdata.evaluation.tasks.predictions import predicted_rows

#: The figure by which a table is ranked: the first that its task has.
HEADLINES = ("worst", "mean_domain", "h_score", "mean_drop", "overall")


@dataclass(frozen=True)
class Score:
    """A figure: its mean over seeds, a 95 % interval over origins (nan for none), its spread over seeds.

    `influence` is that of each origin on a headline figure, the mean over seeds; `reach` is half the width of
    its interval in standard errors.
    """

    value: float
    low: float
    high: float
    spread: float
    n: int
    of: str
    origins: int = 0
    reach: float = math.nan
    influence: FloatArray | None = field(default=None, repr=False, compare=False)

    @property
    def rows(self) -> str:
        """The number of rows, as "300 of 34 origins" if origins are fewer."""
        return f"{self.n:,}" + (f" of {self.origins:,} origins" if 0 < self.origins < self.n else "")

    def minus(self, other: Score) -> tuple[float, float]:
        """The 95 % interval of the difference from another method's figure, paired by origin."""
        if self.influence is None or other.influence is None:
            return math.nan, math.nan
        error = math.sqrt(float(((self.influence - other.influence) ** 2).sum()))
        middle, half = self.value - other.value, max(self.reach, other.reach) * error
        return middle - half, middle + half


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The result of a submission on a test set.

    `repeated` counts the models among which its selection was repeated, 0 if it is only stated.
    """

    file: str
    card: Card
    task_id: str
    set: str
    task: str
    main: bool
    leaky: bool
    rows: int
    seeds: tuple[int, ...]
    scores: Mapping[str, Score]
    repeated: int
    trials: int

    @property
    def badge(self) -> str:
        """The evidence for its selection."""
        if not self.repeated:
            return "selection as stated"
        part = f", {self.trials} of {self.card.trials} trials" if self.trials < self.card.trials else ""
        return f"selection repeated ({self.repeated:,} models{part})"


def scores_of(results: Sequence[Evaluation]) -> dict[str, Score]:
    """Each official figure over seeds; the ends of intervals are means over seeds."""
    scores = {}
    for name, first in results[0].figures.items():
        figures = [result.figures[name] for result in results]
        values = np.array([figure.value for figure in figures])
        low, high = np.mean([figure.interval for figure in figures], axis=0).tolist()
        linear = [figure.linear for figure in figures if figure.linear is not None]
        ranks = name in HEADLINES and len(linear) == len(figures)
        scores[name] = Score(
            float(values.mean()),
            low,
            high,
            float(values.std(ddof=1)) if len(values) > 1 else math.nan,
            first.n,
            first.of if len({figure.of for figure in figures}) == 1 else "another in each seed",
            first.origins,
            math.nan if first.linear is None else first.linear.reach,
            np.asarray(np.mean([of.influence() for of in linear], axis=0)) if ranks else None,
        )
    return scores


class Judge:
    """Judge submissions on datasets of this machine; each dataset and task is read once."""

    def __init__(self, data: Path | None = None, *opened: OpenDataset) -> None:
        self.data = data
        self._datasets = {dataset.manifest.name: dataset for dataset in opened}
        self._metadata: dict[tuple[str, str], Metadata] = {}
        self._tasks: dict[tuple[str, ...], Task] = {}

    def judge(self, submission: Submission, file: str) -> list[Entry]:
        """Return a result for each test set; any fault is an `InputError`."""
        card = submission.card
        metadata = self.metadata(card.dataset, card.base, card.content_id)
        given = {part.task_id for part in submission.parts}
        if unnamed := sorted(given - set(card.tasks)):
            raise InputError(f"it predicts the task {unnamed[0]!r:.80}, which its card does not name")
        if missing := sorted(set(card.tasks) - given):
            raise InputError(f"its card names the task {missing[0]}, for which it has no predictions")
        entries = []
        for task_id in card.tasks:
            entries += _Judged(submission, task_id, self._task(card, task_id, metadata)).entries(file)
        return entries

    def metadata(self, name: str, base: str, content_id: str) -> Metadata:
        """The metadata of a base of a dataset; refuse another build."""
        if name not in self._datasets:
            self._datasets[name] = open_dataset(name if self.data is None else self.data / name)
        dataset = self._datasets[name]
        here = dataset.manifest.base(base).content_id
        if here != content_id:
            build = f"another build of {name}, {base}: content_id {content_id[:16]}, here {here[:16]}"
            raise InputError(f"it is for {build}: predict this build, or judge it where that build is")
        if (name, base) not in self._metadata:
            self._metadata[name, base] = read_metadata(dataset, base)
        return self._metadata[name, base]

    def _task(self, card: Card, task_id: str, metadata: Metadata) -> Task:
        named = card.tasks[task_id]
        place = (card.content_id, metadata.base, named.protocol, named.unlabelled)
        if place not in self._tasks:
            self._tasks[place] = task_named(metadata, named.protocol, named.unlabelled)
        task = self._tasks[place]
        if (here := task.content_id()) != task_id:
            tasks = f"is the task {here[:16]}, and the submission has {task_id[:16]}"
            hint = "the protocol has another version, or its rows were changed"
            raise InputError(f"{named.protocol} of this dataset {tasks}: {hint}")
        if is_leaky(task) and not card.leaks:
            raise InputError(f"{task.describe()} has origins on two sides: its card says leaks = true")
        return task


def task_named(metadata: Metadata, protocol: str, unlabelled: str = "") -> Task:
    """The task of a canonical split or of protocols; a path of a file is refused."""
    file = protocol.endswith(".parquet")  # parsed as a protocol, which is unknown
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TaskWarning)  # the board says it in `Table.about`
        task = make_task(metadata, parse_protocol(protocol) if file else protocol, on_empty="report")
    return task.also(unlabelled, "unlabelled") if unlabelled else task


def is_leaky(task: Task) -> bool:
    """Return True if an origin is on two sides; a task from a file of keys does not remember it."""
    return task.history.leaky or task.report().leaks > 0


class _Judged:
    """The parts of a submission that belong to one task."""

    def __init__(self, submission: Submission, task_id: str, task: Task) -> None:
        self.card, self.task_id, self.task = submission.card, task_id, task
        self.parts = {part: rows for part, rows in submission.parts.items() if part.task_id == task_id}
        self.tests: dict[str, dict[int, Part]] = {name: {} for name in tests_of(task)}
        self.select = [name for name, rows in task.sets.items() if rows.role == "select"]
        for part in self.parts:
            self._place(part)
        seeds = {seed for of in self.tests.values() for seed in of} or {0}
        for name, of in self.tests.items():
            if missing := seeds - set(of):
                raise InputError(
                    f"{task.describe()} is tested on {', '.join(self.tests)}, and predictions for seed "
                    f"{min(missing)} of {name} are missing: give one for each key"
                )

    def _place(self, part: Part) -> None:
        if part.set in self.tests:
            if (first := self.tests[part.set].setdefault(part.seed, part)) != part:
                models = [f"trial {of.trial} step {of.step}" for of in (first, part)]
                where = f"{part.set}, seed {part.seed}, has predictions of two models"
                raise InputError(f"{where}, {' and '.join(models)}: give those of the chosen one")
        elif part.set not in self.select:
            hint = f"It is for {self.task.describe()}."
            raise not_found("set of a submission", part.set[:100], [*self.tests, *self.select], hint)

    def entries(self, file: str) -> list[Entry]:
        repeated, trials = self._repeat()
        entries: list[Entry] = []
        for name, seeds in self.tests.items():
            entry = Entry(
                file=file,
                card=self.card,
                task_id=self.task_id,
                set=name,
                task=self.task.describe(),
                main=not entries,
                leaky=is_leaky(self.task),
                rows=len(self.task.sets[name]),
                seeds=tuple(sorted(seeds)),
                scores=scores_of([self._evaluate(part) for _, part in sorted(seeds.items())]),
                repeated=repeated,
                trials=trials,
            )
            entries.append(entry)
        return entries

    def _evaluate(self, part: Part) -> Evaluation:
        try:
            self._check_names(self.parts[part]["prediction"])
            predicted = predicted_rows(self.task, part.set, self.parts[part])[1]
            return self.task.evaluate(predicted, part.set)
        except InputError as error:
            model = "" if part.trial is None else f", trial {part.trial}, step {part.step}"
            raise InputError(f"{part.set}, seed {part.seed}{model}: {error}") from error

    def _check_names(self, names: pa.ChunkedArray) -> None:
        """Refuse a prediction that is not exactly the name of a label of the task."""
        labels = np.array(self.task.metadata.labels, object)[self.task.remapped >= 0].tolist()
        labels += ["unknown"] if "universal" in self.task.history.metrics else []
        for name, rows in (count.values() for count in pc.value_counts(names).to_pylist()):
            if name not in labels:
                shown = f"{rows:,} predictions are {name if name is None else name[:60]!a}"
                hint = f"not a label of the task, character by character: it has {some(labels, 20)}"
                raise InputError(f"{shown}, which is {hint}")

    def _repeat(self) -> tuple[int, int]:
        """Repeat the stated selection; count its models and trials, 0 if it cannot be repeated."""
        rule = RULES.get(self.card.rule)
        parts = [part for part in self.parts if part.set in self.select]
        if rule is None or rule.role != "select" or rule.held_out or not parts:
            return 0, 0
        (selected,) = select(self._records(parts), self.card.rule, m=self.card.m, ties=self.card.ties)
        if selected.refused:
            raise InputError(f"{self.card.rule} cannot choose among its candidates: {selected.refused}")
        trials = {part.trial for part in parts}
        if len(trials) > self.card.trials:
            stated = f"its card says {self.card.trials} trials"
            raise InputError(f"{stated}, and it has candidates of {len(trials)}")
        self._check_chosen(selected)
        return len({(part.trial, part.step, part.seed) for part in parts}), len(trials)

    def _check_chosen(self, selected: Selected) -> None:
        chosen = {run.seed: (selected.trial, run.step) for run in selected.runs}
        for name, seeds in self.tests.items():
            if set(seeds) != set(chosen):
                raise InputError(
                    f"{name} has the seeds {some(sorted(seeds), 9)}, and the trial that {self.card.rule} "
                    f"chooses ({selected.trial}) has {some(sorted(chosen), 9)}: give each"
                )
            for seed, part in seeds.items():
                trial, step = chosen[seed]
                if (part.trial, part.step) != (trial, step):
                    raise InputError(
                        f"test-tuned: {self.card.rule}, repeated on its own candidates, chooses trial "
                        f"{trial} step {step} for seed {seed}, and {name} has predictions of trial "
                        f"{part.trial} step {part.step}"
                    )

    def _records(self, parts: Sequence[Part]) -> Records:
        """The candidates as records, from which rules select."""
        runs: dict[tuple[int, int], list[dict[str, Any]]] = {}
        sets: dict[str, Evaluation] = {}
        for part in sorted(parts, key=lambda part: (part.trial or 0, part.seed, part.step or 0)):
            if part.trial is None or part.step is None:
                raise InputError(f"predictions of {part.set} lack trial or step: candidates have both")
            result = self._evaluate(part)
            sets.setdefault(part.set, result)
            runs.setdefault((part.trial, part.seed), []).append(evaluated(part.step, result))
        same: Mapping[str, Any] = dict.fromkeys((*STUDY, "study", "held_out"), "") | {
            "task_id": self.task_id,
            "task": self.task.describe(),
            "method": self.card.method,
            "status": DONE,
            "about": "{}",
        }
        rows = [{**same, "trial": at[0], "seed": at[1], "evaluations": of} for at, of in runs.items()]
        return Records(pa.Table.from_pylist(rows, SCHEMA), {self.task_id: sets})
