"""Model selection: a trial and its steps for each study, from records. Nothing is trained again.

Rules read evaluations of validation sets; only oracles read those of test sets. Each seed takes its own best
step, and a trial's score is the mean over the seeds that all trials of the study have: with one seed per
trial this is DomainBed-v2's search, with several BalancingGroups'.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from shiftdata.bench.records import DONE, PLACE, SWEEP, Records, Study, runs_of
from shiftdata.data.arrays import FloatArray, IntArray, one_of
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.metrics.statistics import accuracies
from shiftdata.evaluation.tasks import Role, Task
from shiftdata.evaluation.tasks.cells import Cells

#: Among equals, the first trial's earliest step wins (DomainBed, DomainBed-v2, RLSbench), or the last trial's
#: latest step (SMA's released code).
Ties: TypeAlias = Literal["earliest", "latest"]

GROUP = ("label", "nuisance")
#: The groups whose accuracies "iid-worst-m" averages: SMA's m.
WORST_M = 3


@dataclass(frozen=True)
class Rule:
    """A figure of the sets with a role, compared at every step or at the last one.

    The figure is the mean, the worst, or the mean of the three worst accuracies over labels, nuisances or
    groups (`over`; empty: over all rows). A rule without a figure takes the last step.
    """

    about: str
    figure: Literal["", "mean", "worst", "worst-m"] = "mean"
    over: tuple[str, ...] = ()
    role: Role = "select"
    last_step: bool = False
    held_out: bool = False

    @property
    def oracle(self) -> bool:
        """True if it sees the test set."""
        return self.role == "test"

    def scores(self, cells: Cells, correct: IntArray) -> FloatArray:
        """Return the figure of each model from right rows (models x cells); nan if a group is empty."""
        columns = dict(zip(GROUP, (name for name in cells.codes if name != "severity"), strict=True))
        codes = [cells.codes[columns[name]] for name in self.over] or [np.zeros(len(cells.n), np.int64)]
        place = np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel()
        sums = np.eye(place.max() + 1, dtype=np.int64)[place]
        groups = accuracies(correct @ sums, np.broadcast_to(cells.n @ sums, (len(correct), len(sums.T))))
        if self.figure == "mean":
            return np.asarray(groups.mean(axis=1))
        worst = WORST_M if self.figure == "worst-m" else 1
        if groups.shape[1] < worst:
            raise InputError(f"the rule averages the {worst} worst groups, and there are {groups.shape[1]}")
        means = np.sort(groups, axis=1)[:, :worst].mean(axis=1)
        return np.where(np.isnan(groups).any(axis=1), np.nan, means)


@dataclass(frozen=True)
class Chosen:
    """A run of the selected trial, and its selected step."""

    run: int
    seed: int
    step: int


@dataclass(frozen=True)
class Selected:
    """The trial that a rule selected in a study, and its score.

    `runs` has each seed that did not fail, with its step; `failed` counts the others. Of `among` models
    `undefined` had no score. If the rule cannot choose, `refused` is the reason and there are no runs.
    """

    study: Study
    rule: str
    trial: int
    score: float
    among: int
    undefined: int
    runs: tuple[Chosen, ...]
    failed: int = 0
    refused: str = ""

    def __str__(self) -> str:
        where = f"{self.study.method} on {self.study.task}, {self.rule}"
        if self.refused:
            return f"{where}: {self.refused}"
        among = f"of {self.among:,} models, {self.undefined:,} of them undefined"
        return f"{where}: trial {self.trial} ({number(self.score)}), {among}"


RULES: Mapping[str, Rule] = {
    "last": Rule("the last step, of one trial", "", last_step=True),
    "iid": Rule("share of right rows (DomainBed-v2, RLSbench)"),
    "iid-mean-class": Rule("mean over classes", over=("label",)),
    "iid-mean-domain": Rule("mean over domains (DomainBed)", over=("nuisance",)),
    "iid-mean-group": Rule("mean over groups (SMA's code)", over=GROUP),
    "iid-worst": Rule("worst group (BalancingGroups, SMA)", "worst", GROUP),
    "iid-worst-m": Rule("mean of the 3 worst groups (SMA)", "worst-m", GROUP),
    "leave-one-domain-out": Rule(
        "mean over the training domains, each by a model trained without it (DomainBed)", held_out=True
    ),
    "oracle": Rule("share of right rows of the test (DomainBed-v2)", role="test"),
    "oracle-last": Rule("the same, only last steps (DomainBed)", role="test", last_step=True),
}


def rule_of(name: str) -> Rule:
    """A rule by its name."""
    if name not in RULES:
        raise not_found("selection rule", name, RULES)
    return RULES[name]


def select(records: Records, rule: str, *, ties: Ties = "earliest") -> list[Selected]:
    """Choose a trial, and a step of each of its seeds, in every study, by a rule of `RULES`."""
    one_of("ties", ties, ("earliest", "latest"))
    rule_of(rule)
    selected = []
    for study, runs in runs_of(records):
        try:
            selected.append(_Study(records, study, runs, rule, ties).select())
        except InputError as error:
            failed = sum(records.column("status")[run] != DONE for run in runs)
            selected.append(Selected(study, rule, -1, math.nan, 0, 0, (), failed, str(error)))
    return selected


def run_scores(records: Records, runs: Sequence[int], rule: Rule) -> dict[int, dict[int, float]]:
    """Return the scores of runs of one task at each step, the mean over the sets that the rule reads."""
    names = records.sets_of(runs[0], rule.role)
    if rule.oracle and "oracle" in names:
        names = ["oracle"]
    if not names:
        sets = sorted({name for name, _ in records.places[runs[0]]})
        raise InputError(f"a rule needs a set with the role {rule.role!r}, runs have {', '.join(sets)}")
    steps = [(run, step) for run in runs for step in records.steps(run)[-1 if rule.last_step else 0 :]]
    places = [[records.places[run].get((name, step), -1) for run, step in steps] for name in names]
    if any(-1 in rows for rows in places):
        raise InputError(f"a rule needs an evaluation of {', '.join(names)} after every step")
    task = records.task_of(runs[0])
    figures = [
        rule.scores(task[name].cells, records.correct(rows)) for name, rows in zip(names, places, strict=True)
    ]
    scores: dict[int, dict[int, float]] = {run: {} for run in runs}
    for (run, step), score in zip(steps, np.mean(figures, axis=0).tolist(), strict=True):
        scores[run][step] = score
    return scores


@dataclass
class _Study:
    """The runs of a study, among which a rule selects."""

    records: Records
    study: Study
    runs: list[int]
    name: str
    ties: Ties

    def __post_init__(self) -> None:
        self.rule = RULES[self.name]
        columns = [self.records.column(name) for name in (*PLACE, "status")]
        places = [(run, *(column[run] for column in columns)) for run in self.runs]
        whole = [(run, trial, seed, status) for run, trial, seed, domain, status in places if not domain]
        #: The run of each trial and seed; below, by domain, those trained without a domain.
        self.full = {(trial, seed): run for run, trial, seed, status in whole if status == DONE}
        self.without: dict[str, dict[tuple[int, int], int]] = {}
        for run, trial, seed, domain, status in places:
            if domain:
                self.without.setdefault(domain, {}).update({(trial, seed): run} if status == DONE else {})
        self.trials = sorted({trial for _, trial, _, _ in whole})
        seeds = [{seed for _, of, seed, _ in whole if of == trial} for trial in self.trials]
        self.seeds = sorted(set.intersection(*seeds)) if seeds else []
        if len(self.trials) == 1:  # nothing to compare: a failed seed does not count
            self.seeds = [seed for _, seed in sorted(self.full)]
        self.failed = Counter(trial for _, trial, _, status in whole if status != DONE)

    def select(self) -> Selected:
        if not self.full:
            status, reason = (self.records.column(name)[self.runs[0]] for name in ("status", "reason"))
            raise InputError(f"none of its {len(self.runs)} runs was done, the first {status}: {reason}")
        if not self.rule.figure:
            return self._last()
        self._check_seen()
        scores = self._scores()
        best = {key: self._best_step(of) for key, of in scores.items()}
        means = {
            trial: float(np.mean([best.get((trial, seed), (0, math.nan))[1] for seed in self.seeds]))
            for trial in self.trials
        }
        winner, score = self._best(means)
        if math.isnan(score):
            trials = f"the scores of all {len(means)} trials"
            raise InputError(f"{trials} are undefined: runs failed, or groups are empty")
        every = [score for (_, seed), of in scores.items() if seed in self.seeds for score in of.values()]
        steps = {seed: step for (trial, seed), (step, _) in best.items() if trial == winner}
        return self._selected(winner, score, len(every), sum(map(math.isnan, every)), steps)

    def _check_seen(self) -> None:
        """Refuse to choose by rows that the method was trained on."""
        about = json.loads(self.records.column("about")[next(iter(self.full.values()))])
        several = len(self.trials) > 1 or any(len(self.records.steps(run)) > 1 for run in self.full.values())
        if about.get("trains_on_select") and self.rule.role == "select" and several:
            method = self.study.method
            raise InputError(f"{method} trains on the validation set: its score there cannot choose")

    def _last(self) -> Selected:
        if len(self.trials) > 1:
            rule, trials = f"{self.name} chooses a step and not a trial", len(self.trials)
            raise InputError(f"{rule}, and there are {trials}: take another")
        steps = {seed: self.records.steps(run)[-1] for (_, seed), run in self.full.items()}
        return self._selected(self.trials[0], math.nan, len(steps), 0, steps)

    def _selected(
        self, trial: int, score: float, among: int, undefined: int, steps: Mapping[int, int]
    ) -> Selected:
        runs = tuple(Chosen(self.full[trial, seed], seed, steps[seed]) for seed in sorted(steps))
        return Selected(self.study, self.name, trial, score, among, undefined, runs, self.failed[trial])

    def _scores(self) -> dict[tuple[int, int], dict[int, float]]:
        """Return the scores of each trial and seed at each step."""
        if not self.rule.held_out:
            return self._scores_of(self.full)
        if not self.without:
            hint = "name it in the rules of the sweep"
            raise InputError(f"{self.name} needs runs that were trained without a domain each: {hint}")
        domains = [self._scores_of(runs) for runs in self.without.values()]
        return {
            key: {
                step: float(np.mean([of.get(key, {}).get(step, math.nan) for of in domains]))
                for step in self.records.steps(run)
            }
            for key, run in self.full.items()
        }

    def _scores_of(self, runs: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], dict[int, float]]:
        scores = run_scores(self.records, list(runs.values()), self.rule) if runs else {}
        return {key: scores[run] for key, run in runs.items()}

    def _best_step(self, scores: Mapping[int, float]) -> tuple[int, float]:
        step, score = self._best(scores)
        return (max(scores), score) if math.isnan(score) else (step, score)

    def _best(self, scores: Mapping[int, float]) -> tuple[int, float]:
        """Return the trial or step with the highest score, and the score; nan if none is defined."""
        defined = [key for key, score in scores.items() if not math.isnan(score)]
        ordered = defined if self.ties == "earliest" else defined[::-1]
        best = max(ordered, key=scores.__getitem__, default=-1)
        return best, scores.get(best, math.nan)


def selected_predictions(folder: Path, task: Task, name: str) -> dict[str, Any]:
    """Return the predictions of a sweep for a set of a task, by method.

    Each method has the first seed of the trial that the sweep's first rule selects.
    """
    records = Records.read(folder)
    rule = json.loads((folder / SWEEP).read_text(encoding="utf-8"))["rules"][0]
    protocols, task_id = sorted(set(records.column("protocol"))), task.content_id()
    predictions: dict[str, Any] = {}
    if task_id in records.column("task_id"):
        records = records.where(task_id=task_id)
        selected = select(records, rule)
        several = len({choice.study.backbone for choice in selected}) > 1
        for choice in selected:
            if not choice.runs:
                continue
            study, run = choice.study, choice.runs[0]
            variant = "" if study.variant == "fixed" else f"@{study.variant}"
            method = f"{study.method}{variant}{f', {study.backbone}' if several else ''}"
            if (predicted := records.predicted(run.run, name, run.step)) is not None:
                predictions[method] = predicted
    if not predictions:
        raise InputError(
            f"{folder} has no stored predictions for {name} of {task.describe()} under the rule {rule}: its "
            f"tasks are {', '.join(protocols):.300}; a sweep stores the predictions of selected runs"
        )
    return predictions
