"""Model selection: which trial and which step of each study, from records. Nothing is trained again.

A rule reads evaluations of sets with the role "select" and no others; only rules whose name says oracle read
those of sets that test. Each seed chooses its own step, and a trial's score is the mean over the seeds that
every trial of the study has: with one seed a trial it is DomainBed-v2's search, with several
BalancingGroups'.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from shiftdata.bench.records import DONE, Records, Study, runs_of
from shiftdata.errors import InputError, not_found
from shiftdata.metrics.arrays import FloatArray, IntArray, one_of
from shiftdata.metrics.records import number
from shiftdata.metrics.statistics import accuracies
from shiftdata.tasks import Role
from shiftdata.tasks.evaluation import Cells

#: Who wins among equals: the first trial's earliest step (a strict comparison, as DomainBed, DomainBed-v2 and
#: RLSbench), or the last trial's latest step (SMA's released code).
Ties: TypeAlias = Literal["earliest", "latest"]

#: The scores of some models on a set: from its cells and the right rows of each, a line a model.
Score: TypeAlias = Callable[[Cells, IntArray, int], FloatArray]


@dataclass(frozen=True)
class Rule:
    """What a rule compares: a score of the sets with a role, at every step or at the last one."""

    about: str
    score: Score | None
    role: Role = "select"
    last_step: bool = False
    held_out: bool = False

    @property
    def oracle(self) -> bool:
        """Whether it sees the test."""
        return self.role == "test"


@dataclass(frozen=True)
class Chosen:
    """A run of the chosen trial, and the step that the rule chose for it."""

    run: int
    seed: int
    step: int


@dataclass(frozen=True)
class Selected:
    """The trial that a rule chose in a study: its score, and among how many models.

    `runs` has each of its seeds with a step; those that failed are not there, and count in `failed`. Of
    `among` models `undefined` had no score. Where the rule cannot choose, `refused` says why, and
    there are no runs.
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
        if self.refused:
            return f"{self.study.method} on {self.study.task}, {self.rule}: {self.refused}"
        undefined = f", {self.undefined:,} of them undefined" if self.undefined else ""
        return (
            f"{self.study.method} on {self.study.task}, {self.rule}: trial {self.trial} "
            f"({number(self.score)}), of {self.among:,} models{undefined}"
        )


def _overall(cells: Cells, correct: IntArray, m: int) -> FloatArray:
    return accuracies(correct.sum(axis=1), np.full(len(correct), cells.n.sum()))


def _by(cells: Cells, correct: IntArray, columns: Sequence[str]) -> FloatArray:
    """The accuracy of each label, nuisance or group: a line a model; nan where there is no row."""
    shape = tuple(max(1, len(cells.names[one])) for one in columns)
    joined = np.ravel_multi_index([cells.codes[one] for one in columns], shape)
    _, place = np.unique(joined, return_inverse=True)
    sums = np.zeros((place.max() + 1, len(place)), np.int64)
    sums[place, np.arange(len(place))] = 1
    return accuracies(correct @ sums.T, np.broadcast_to(sums @ cells.n, (len(correct), len(sums))))


def _groups(cells: Cells) -> list[str]:
    return [one for one in cells.codes if one != "severity"]


def _mean(*columns: str) -> Score:
    def score(cells: Cells, correct: IntArray, m: int) -> FloatArray:
        label, nuisance = _groups(cells)
        names = {"label": label, "nuisance": nuisance}
        return np.asarray(_by(cells, correct, [names[one] for one in columns]).mean(axis=1))

    return score


def _worst(cells: Cells, correct: IntArray, m: int) -> FloatArray:
    return np.asarray(_by(cells, correct, _groups(cells)).min(axis=1))


def _worst_m(cells: Cells, correct: IntArray, m: int) -> FloatArray:
    groups = _by(cells, correct, _groups(cells))
    if not 1 <= m <= groups.shape[1]:
        raise InputError(f"m={m} of the worst groups: give 1 to {groups.shape[1]}, as many as there are")
    worst = np.sort(groups, axis=1)[:, :m].mean(axis=1)
    return np.where(np.isnan(groups).any(axis=1), np.nan, worst)


#: Another rule is another entry.
RULES: Mapping[str, Rule] = {
    "last": Rule("the last step, of one trial", None, last_step=True),
    "iid": Rule("share of right rows (DomainBed-v2, RLSbench)", _overall),
    "iid-mean-class": Rule("mean over classes", _mean("label")),
    "iid-mean-domain": Rule("mean over domains (DomainBed)", _mean("nuisance")),
    "iid-mean-group": Rule("mean over groups (SMA's code)", _mean("label", "nuisance")),
    "iid-worst": Rule("worst group (BalancingGroups, SMA)", _worst),
    "iid-worst-m": Rule("mean of the m worst groups (SMA: 3)", _worst_m),
    "leave-one-domain-out": Rule(
        "mean over the training domains, each by a model trained without it (DomainBed)",
        _overall,
        held_out=True,
    ),
    "oracle": Rule("share of right rows of the test (DomainBed-v2)", _overall, "test"),
    "oracle-last": Rule("the same, only last steps (DomainBed)", _overall, "test", last_step=True),
}


def rule_of(name: str) -> Rule:
    """A rule by its name."""
    if name not in RULES:
        raise not_found("selection rule", name, RULES)
    return RULES[name]


def select(records: Records, rule: str, *, m: int = 3, ties: Ties = "earliest") -> list[Selected]:
    """Choose a trial, and a step of each of its seeds, in every study.

    Args:
        records: of whole studies.
        rule: a name in `RULES`.
        m: how many of the worst groups "iid-worst-m" averages.
        ties: who wins among equals.

    """
    one_of("ties", ties, ("earliest", "latest"))
    chosen = rule_of(rule)
    made = []
    for study, runs in runs_of(records):
        try:
            made.append(_Study(records, study, runs, rule, chosen, m, ties).select())
        except InputError as error:
            failed = sum(records.column("status")[run] != DONE for run in runs)
            made.append(Selected(study, rule, -1, math.nan, 0, 0, (), failed, str(error)))
    return made


def run_scores(records: Records, runs: Sequence[int], rule: Rule, m: int = 3) -> dict[int, dict[int, float]]:
    """The scores of some runs of one task after each step at which they were evaluated.

    Where a rule reads several sets they are the mean over these.
    """
    assert rule.score is not None
    names = records.sets_of(runs[0], rule.role)
    if rule.oracle and "oracle" in names:
        names = ["oracle"]
    if not names:
        sets = sorted({name for name, _ in records.places[runs[0]]})
        raise InputError(
            f"a rule needs a set with the role {rule.role!r}, and the runs have {', '.join(sets)}"
        )
    steps = [(run, step) for run in runs for step in records.steps(run)[-1 if rule.last_step else 0 :]]
    places = [[records.places[run].get((name, step), -1) for run, step in steps] for name in names]
    if any(place < 0 for of in places for place in of):
        raise InputError(f"a rule needs an evaluation of {', '.join(names)} after every step")
    task = records.task_of(runs[0])
    scores = [
        rule.score(task[name].cells, records.correct(of), m) for name, of in zip(names, places, strict=True)
    ]
    made: dict[int, dict[int, float]] = {run: {} for run in runs}
    for (run, step), score in zip(steps, np.mean(scores, axis=0).tolist(), strict=True):
        made[run][step] = score
    return made


class _Study:
    """The runs of a study, and what a rule makes of them."""

    def __init__(
        self, records: Records, study: Study, runs: list[int], name: str, rule: Rule, m: int, ties: Ties
    ) -> None:
        self.records, self.study, self.runs = records, study, runs
        self.name, self.rule, self.m, self.ties = name, rule, m, ties
        at = {
            one: [records.column(one)[run] for run in runs] for one in ("trial", "seed", "held_out", "status")
        }
        places = list(zip(runs, at["trial"], at["seed"], at["held_out"], at["status"], strict=True))
        #: The run of each trial and seed, and those without a training domain.
        self.full = {
            (trial, seed): run for run, trial, seed, out, status in places if not out and status == DONE
        }
        self.parts: dict[tuple[int, int], dict[str, int | None]] = {}
        for run, trial, seed, out, status in places:
            if out:
                self.parts.setdefault((trial, seed), {})[out] = run if status == DONE else None
        self.trials = sorted({trial for _, trial, _, out, _ in places if not out})
        seeds = [{seed for _, of, seed, out, _ in places if of == trial and not out} for trial in self.trials]
        self.seeds = sorted(set.intersection(*seeds)) if seeds else []
        if len(self.trials) == 1:  # it competes with none: a seed that failed takes nothing from the others
            self.seeds = [seed for _, seed in sorted(self.full)]
        self.failed = Counter(trial for _, trial, _, out, status in places if not out and status != DONE)

    def select(self) -> Selected:
        if not self.full:
            status, reason = (self.records.column(one)[self.runs[0]] for one in ("status", "reason"))
            raise InputError(f"none of its {len(self.runs)} runs was done, the first {status}: {reason}")
        if self.rule.score is None:
            return self._last()
        self._check_seen()
        scores = self._scores()
        best = {key: self._best_step(of) for key, of in scores.items()}
        means = {
            trial: float(np.mean([best.get((trial, seed), (0, math.nan))[1] for seed in self.seeds]))
            for trial in self.trials
        }
        known = {trial: score for trial, score in means.items() if not math.isnan(score)}
        if not known:
            raise InputError(
                f"the scores of all {len(means)} trials are undefined: runs failed, or groups are empty"
            )
        order = list(known) if self.ties == "earliest" else list(known)[::-1]
        winner = max(order, key=lambda trial: known[trial])
        every = [score for (_, seed), of in scores.items() if seed in self.seeds for score in of.values()]
        steps = {seed: best[trial, seed][0] for trial, seed in best if trial == winner}
        return self._selected(winner, known[winner], len(every), sum(map(math.isnan, every)), steps)

    def _check_seen(self) -> None:
        """Refuse to choose by rows that the method was trained on."""
        about = json.loads(self.records.column("about")[next(iter(self.full.values()))])
        several = len(self.trials) > 1 or any(len(self.records.steps(run)) > 1 for run in self.full.values())
        if about.get("trains_on_select") and self.rule.role == "select" and several:
            raise InputError(
                f"{self.study.method} trains on the set to select by: its score there cannot choose"
            )

    def _last(self) -> Selected:
        if len(self.trials) > 1:
            raise InputError(
                f"{self.name} chooses a step and not a trial, and there are {len(self.trials)}: take another"
            )
        (trial,) = self.trials
        steps = {seed: self.records.steps(run)[-1] for (_, seed), run in self.full.items()}
        return self._selected(trial, math.nan, len(steps), 0, steps)

    def _selected(
        self, trial: int, score: float, among: int, undefined: int, steps: Mapping[int, int]
    ) -> Selected:
        runs = tuple(Chosen(self.full[trial, seed], seed, steps[seed]) for seed in sorted(steps))
        return Selected(self.study, self.name, trial, score, among, undefined, runs, self.failed[trial])

    def _scores(self) -> dict[tuple[int, int], dict[int, float]]:
        """The scores of each trial and seed after each step."""
        if not self.rule.held_out:
            made = run_scores(self.records, list(self.full.values()), self.rule, self.m)
            return {key: made[run] for key, run in self.full.items()}
        every = {out for of in self.parts.values() for out in of}
        if not every:
            raise InputError(
                f"{self.name} needs runs that were trained without a domain each, and there are none: give "
                "the sweep leave_domains_out = true"
            )
        of_domain = [self._without(out) for out in every]
        return {
            key: {
                step: float(np.mean([one.get(key, {}).get(step, math.nan) for one in of_domain]))
                for step in self.records.steps(run)
            }
            for key, run in self.full.items()
        }

    def _without(self, domain: str) -> dict[tuple[int, int], dict[int, float]]:
        """The scores of the models without a domain; a trial whose model failed is not there."""
        there = {key: run for key, of in self.parts.items() if (run := of.get(domain)) is not None}
        if not there:
            return {}
        made = run_scores(self.records, list(there.values()), self.rule, self.m)
        return {key: made[run] for key, run in there.items()}

    def _best_step(self, scores: Mapping[int, float]) -> tuple[int, float]:
        known = {step: score for step, score in scores.items() if not math.isnan(score)}
        if not known:
            return max(scores), math.nan
        order = list(known) if self.ties == "earliest" else list(known)[::-1]
        step: int = max(order, key=lambda one: known[one])
        return step, known[step]
