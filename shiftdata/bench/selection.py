"""Model selection: which trial and which step, from stored evaluations.

A rule is given the evaluations of sets with the role "select" and no others; only rules whose name says
oracle are given those of sets that test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from shiftdata.errors import InputError, not_found
from shiftdata.metrics.arrays import one_of
from shiftdata.metrics.records import Record, number
from shiftdata.tasks import Evaluation, Role

#: Who wins among equals: the first trial's earliest step (a strict comparison, as DomainBed, DomainBed-v2 and
#: RLSbench), or the last trial's latest step (SMA's released code).
Ties: TypeAlias = Literal["earliest", "latest"]

Score: TypeAlias = Callable[[Evaluation, int], float]


@dataclass(frozen=True)
class Candidate:
    """A trained model that may be chosen: a step of a trial, with its evaluations by set.

    `held_out` names the domain of training that a model for leave-one-domain-out was trained without, and
    which its set with the role "select" has.
    """

    trial: str | int
    step: int
    evaluations: Mapping[str, Evaluation]
    held_out: str = ""


@dataclass(frozen=True)
class Rule:
    """What a rule compares: a score of the sets with a role, at every step or at the last one."""

    about: str
    score: Score | None
    role: Role = "select"
    last_step: bool = False
    held_out: bool = False


@dataclass(frozen=True)
class Selected(Record):
    """The trial and step that a rule chose, the score, and among how many; `undefined` ones cannot win."""

    rule: str
    trial: str | int
    step: int
    score: float
    among: int
    undefined: int
    candidate: Candidate | None

    omitted: ClassVar[tuple[str, ...]] = ("candidate",)

    def __str__(self) -> str:
        undefined = f", {self.undefined:,} of them undefined" if self.undefined else ""
        return (
            f"{self.rule}: trial {self.trial}, step {self.step} ({number(self.score)}), "
            f"of {self.among:,} candidates{undefined}"
        )


def _overall(result: Evaluation, m: int) -> float:
    return result.overall


#: Another rule is another entry.
RULES: Mapping[str, Rule] = {
    "last": Rule("the last step, of one trial", None, last_step=True),
    "iid": Rule("share of right rows (DomainBed-v2, RLSbench)", _overall),
    "iid-mean-class": Rule("mean over classes", lambda result, m: result.by("label").mean),
    "iid-mean-domain": Rule("mean over domains (DomainBed)", lambda result, m: result.by("nuisance").mean),
    "iid-mean-group": Rule("mean over groups (SMA's code)", lambda result, m: result.mean),
    "iid-worst": Rule("worst group (BalancingGroups, SMA)", lambda result, m: result.worst),
    "iid-worst-m": Rule("mean of the m worst groups (SMA: 3)", lambda result, m: result.worst_of(m)),
    "leave-one-domain-out": Rule("mean over held-out training domains (DomainBed)", _overall, held_out=True),
    "oracle": Rule("share of right rows of the test (DomainBed-v2)", _overall, "test"),
    "oracle-last": Rule("the same, only last steps (DomainBed)", _overall, "test", last_step=True),
}


def select(
    candidates: Sequence[Candidate],
    rule: str,
    *,
    m: int = 3,
    ties: Ties = "earliest",
    sets: Sequence[str] = (),
) -> Selected:
    """Choose a trial and a step.

    Args:
        candidates: trials in their order, each with all steps that were evaluated.
        rule: a name in `RULES`.
        m: how many of the worst groups "iid-worst-m" averages.
        ties: who wins among equals.
        sets: the sets to score, several by their mean; default: all with the rule's role (for an oracle
            the set `oracle`, where there is one).

    """
    one_of("ties", ties, ("earliest", "latest"))
    if rule not in RULES:
        raise not_found("selection rule", rule, RULES)
    chosen = RULES[rule]
    pool = _pool(candidates, rule, chosen)
    if chosen.score is None:
        ((trial, step),) = pool
        scores = {(trial, step): math.nan}
        best = trial, step
    else:
        of = chosen.score
        scores = {
            place: _mean_over(models, rule, chosen.role, sets, lambda result: of(result, m))
            for place, models in pool.items()
        }
        best = _best(scores, rule, ties)
    full = [one for one in candidates if (one.trial, one.step) == best and not one.held_out]
    undefined = 0 if chosen.score is None else sum(map(math.isnan, scores.values()))
    return Selected(rule, *best, scores[best], len(pool), undefined, full[0] if full else None)


def _pool(
    candidates: Sequence[Candidate], name: str, rule: Rule
) -> dict[tuple[str | int, int], list[Candidate]]:
    """The models of each trial and step that a rule compares: one, or one a held-out domain."""
    order = {trial: place for place, trial in enumerate(dict.fromkeys(one.trial for one in candidates))}
    fitting = [one for one in candidates if bool(one.held_out) == rule.held_out]
    pool: dict[tuple[str | int, int], list[Candidate]] = {}
    for one in sorted(fitting, key=lambda one: (order[one.trial], one.step)):
        models = pool.setdefault((one.trial, one.step), [])
        if one.held_out in [other.held_out for other in models]:
            raise InputError(f"trial {one.trial}, step {one.step} is there twice: give each candidate once")
        models.append(one)
    if not pool:
        needed = "models with held_out= (a training domain)" if rule.held_out else "models without held_out="
        raise InputError(f"{name} compares {needed}, and none of {len(candidates)} candidates is one")
    if rule.held_out:
        domains = {one.held_out for one in fitting}
        for (trial, step), models in pool.items():
            if lost := domains - {one.held_out for one in models}:
                raise InputError(f"trial {trial}, step {step} has no model without {', '.join(sorted(lost))}")
    if rule.last_step:
        last = {trial: (trial, step) for trial, step in pool}  # steps ascend
        pool = {place: pool[place] for place in last.values()}
    if rule.score is None and len(pool) > 1:
        raise InputError(
            f"{name} chooses a step and not a trial: give one trial of {len(pool)}, or another rule"
        )
    return pool


def _mean_over(
    models: Sequence[Candidate],
    rule: str,
    role: Role,
    sets: Sequence[str],
    score: Callable[[Evaluation], float],
) -> float:
    """The score of a trial at a step: the mean over sets and held-out domains."""
    return float(np.mean([score(result) for one in models for result in _visible(one, rule, role, sets)]))


def _visible(candidate: Candidate, rule: str, role: Role, sets: Sequence[str]) -> list[Evaluation]:
    """The evaluations that a rule may see: nothing else of the others than their role is read."""
    roles = {name: result.role for name, result in candidate.evaluations.items()}
    seen = [name for name, of in roles.items() if of == role]
    wanted = list(sets) or (["oracle"] if role == "test" and "oracle" in seen else seen)
    where = f"trial {candidate.trial}, step {candidate.step}"
    for name in wanted:
        if name not in roles:
            raise not_found("set", name, roles, f"It was asked of {where}.")
        if name not in seen:
            raise InputError(
                f"{rule} is given sets with the role {role!r} alone, and {name} has {roles[name]!r}"
                + (": only rules named oracle see a test" if roles[name] == "test" else "")
            )
    if not wanted:
        known = ", ".join(f"{name} ({of})" for name, of in roles.items()) or "none"
        raise InputError(f"{rule} needs an evaluation of a set with the role {role!r}; {where} has {known}")
    return [candidate.evaluations[name] for name in wanted]


def _best(scores: Mapping[tuple[str | int, int], float], rule: str, ties: Ties) -> tuple[str | int, int]:
    defined = {place: score for place, score in scores.items() if not math.isnan(score)}
    if not defined:
        raise InputError(
            f"{rule}: the scores of all {len(scores)} candidates are undefined, as with groups without rows: "
            "choose a rule that does not need them"
        )
    order = list(defined) if ties == "earliest" else list(defined)[::-1]
    return max(order, key=lambda place: defined[place])  # the first of equals
