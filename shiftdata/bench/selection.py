"""Model selection: a trial and its steps for each study, from records. Nothing is trained again.

Rules read evaluations of validation sets; only oracles read those of test sets. Each seed takes its own best
step, and a trial's score is the mean over the seeds that all trials of the study have: with one seed per
trial this is DomainBed-v2's search, with several BalancingGroups'. Among equals the first trial's earliest
step wins (DomainBed-v2, RLSbench; DomainBed takes the last trial).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from shiftdata.bench.records import DONE, PLACE, Records, Study, runs_of
from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.metrics.statistics import accuracies
from shiftdata.evaluation.tasks import Role, Task
from shiftdata.evaluation.tasks.cells import Cells

GROUP = ("label", "nuisance")
#: The groups whose accuracies "iid-worst-m" averages: SMA's m.
WORST_M = 3
#: A set that `Rule.reads` alone: domains that were held out from other runs of the trial.
CROSS = "cross-validation"


@dataclass(frozen=True)
class Rule:
    """A figure of the sets with a role, compared at every step or at the last one.

    The figure is the mean, the worst, or the mean of the three worst accuracies over labels, nuisances or
    groups (`over`; empty: over all rows). A rule without a figure takes the last step. `reads` names the one
    set that a rule reads, instead of all with the role.
    """

    about: str
    figure: Literal["", "mean", "worst", "worst-m"] = "mean"
    over: tuple[str, ...] = ()
    role: Role = "select"
    last_step: bool = False
    reads: str = ""

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

    `runs` has each seed that did not fail, with its step; `failed` counts the others. `among` is how many
    models were compared. If the rule cannot choose, `refused` is the reason and there are no runs.
    """

    study: Study
    rule: str
    trial: int
    score: float
    among: int
    runs: tuple[Chosen, ...]
    failed: int = 0
    refused: str = ""

    def __str__(self) -> str:
        where = f"{self.study.method} on {self.study.task}, {self.rule}"
        if self.refused:
            return f"{where}: {self.refused}"
        return f"{where}: trial {self.trial} ({number(self.score)}), of {self.among:,} models"


RULES: Mapping[str, Rule] = {
    "last": Rule("the last step, of one trial", "", last_step=True),
    "iid": Rule("share of right rows (DomainBed-v2, RLSbench)"),
    "iid-mean-class": Rule("mean over classes", over=("label",)),
    "iid-mean-domain": Rule("mean over domains (DomainBed)", over=("nuisance",)),
    "lodo-cv": Rule("mean over domains that were held out too (DomainBed)", over=("nuisance",), reads=CROSS),
    "iid-mean-group": Rule("mean over groups (SMA's code)", over=GROUP),
    "iid-worst": Rule("worst group (BalancingGroups, SMA)", "worst", GROUP),
    "iid-worst-m": Rule("mean of the 3 worst groups (SMA)", "worst-m", GROUP),
    "oracle": Rule("share of right rows of the test (DomainBed-v2)", role="test"),
    "oracle-last": Rule("the same, only last steps (DomainBed)", role="test", last_step=True),
}


def rule_of(name: str) -> Rule:
    """A rule by its name."""
    if name not in RULES:
        raise not_found("selection rule", name, RULES)
    return RULES[name]


def select(records: Records, rule: str) -> list[Selected]:
    """Choose a trial, and a step of each of its seeds, in every study, by a rule of `RULES`."""
    rule_of(rule)
    selected = []
    for study, runs in runs_of(records):
        try:
            selected.append(_select(records, study, runs, rule))
        except InputError as error:
            failed = sum(records.column("status")[run] != DONE for run in runs)
            selected.append(Selected(study, rule, -1, math.nan, 0, (), failed, str(error)))
    return selected


def run_scores(records: Records, runs: Sequence[int], rule: Rule) -> dict[int, dict[int, float]]:
    """Return the scores of runs of one task at each step, the mean over the sets that the rule reads."""
    names = records.sets_of(runs[0], rule.role)
    if rule.oracle and "oracle" in names:
        names = ["oracle"]
    names = [name for name in names if (name == rule.reads if rule.reads else name != CROSS)]
    if not names:
        sets = sorted({name for name, _ in records.places[runs[0]]})
        needed = f"the set {rule.reads}" if rule.reads else f"a set with the role {rule.role!r}"
        raise InputError(f"a rule needs {needed}, runs have {', '.join(sets)}")
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


def _select(records: Records, study: Study, runs: Sequence[int], name: str) -> Selected:
    rule, (trials, seeds, status) = RULES[name], map(records.column, (*PLACE, "status"))
    done = {(trials[run], seeds[run]): run for run in runs if status[run] == DONE}
    if not done:
        reason = records.column("reason")[runs[0]]
        raise InputError(f"none of its {len(runs)} runs was done, the first {status[runs[0]]}: {reason}")
    numbers = sorted({trials[run] for run in runs})
    failed = Counter(trials[run] for run in runs if status[run] != DONE)

    def selected(trial: int, score: float, among: int, steps: Mapping[int, int]) -> Selected:
        chosen = tuple(Chosen(done[trial, seed], seed, steps[seed]) for seed in sorted(steps))
        return Selected(study, name, trial, score, among, chosen, failed[trial])

    if not rule.figure:
        if len(numbers) > 1:
            several = f"{name} chooses a step and not a trial, and there are {len(numbers)}"
            raise InputError(f"{several}: take another")
        last = {seed: records.steps(run)[-1] for (_, seed), run in done.items()}
        return selected(numbers[0], math.nan, len(last), last)
    has_choice = len(numbers) > 1 or any(len(records.steps(run)) > 1 for run in done.values())
    if rule.role == "select" and has_choice and records.about[min(done.values())].get("trains_on_select"):
        raise InputError(f"{study.method} trains on the validation set: its score there cannot choose")
    # Trials are compared over the seeds that all of them have; of a single one, a failed seed does not count.
    common = [{seeds[run] for run in runs if trials[run] == trial} for trial in numbers]
    shared = set.intersection(*common) if len(numbers) > 1 else {seed for _, seed in done}
    of_runs = run_scores(records, list(done.values()), rule)
    scores = {place: of_runs[run] for place, run in done.items()}
    best = {place: _best(of_steps) for place, of_steps in scores.items()}
    means = {
        trial: float(np.mean([best.get((trial, seed), (0, math.nan))[1] for seed in sorted(shared)]))
        for trial in numbers
    }
    winner, score = _best(means)
    if math.isnan(score):
        raise InputError(f"all {len(means)} trials have undefined scores: runs failed, or groups are empty")
    compared = sum(len(of) for (_, seed), of in scores.items() if seed in shared)
    steps = {seed: step for (trial, seed), (step, _) in best.items() if trial == winner}
    return selected(winner, score, compared, steps)


def _best(scores: Mapping[int, float]) -> tuple[int, float]:
    """Return the trial or step with the highest score, and the score; the last and nan if none is defined."""
    defined = [key for key, score in scores.items() if not math.isnan(score)]
    best = max(defined, key=scores.__getitem__, default=max(scores))
    return best, scores[best]


def selected_predictions(folder: Path, task: Task, name: str) -> dict[str, Any]:
    """Return the predictions of a sweep for a set of a task, by method.

    Each method has the first seed of the trial that the sweep's first rule selects.
    """
    records = Records.read(folder)
    rule = records.sweeps[0]["rules"][0]
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
            method = f"{study.label}, {study.backbone}" if several else study.label
            if (predicted := records.predicted(run.run, name, run.step)) is not None:
                predictions[method] = predicted
    if not predictions:
        raise InputError(
            f"{folder} has no stored predictions for {name} of {task.describe()} under the rule {rule}: its "
            f"tasks are {', '.join(protocols):.300}; a sweep stores the predictions of selected runs"
        )
    return predictions
