"""Rules: which samples of a continuous shift are kept, from their scores. Records that stand in a recipe.

After the stages of CNS-Bench (appendix A.5, table 4): a trajectory goes if its picture at severity 0 fails
`base` (ii); a sample that passes `easy` needs no other test (iii), all others must pass `keep` (iv). Then,
as its published code does, a trajectory with a failing sample goes as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from builders.filters.scorers import Floats, Scorer, identity
from shiftdata.errors import InputError, not_found

Bools = NDArray[np.bool_]
SCORE = "score_"
VERDICTS = ("base", "easy", "passes", "kept", "why")
LACKS = "trajectory lacks a severity"

ABOUT = {
    "key": "the sample, as in the dataset where it was kept",
    "nuisance": "the shift",
    "severity": "how strong the shift is, 0 being none",
    "trajectory": "the samples of one picture under one shift, over all severities",
    "label": "the class",
    "origin": "what the picture was made from",
    "kept": "whether the sample is in the dataset: it passed, and its whole trajectory with it",
    "why": "why it was left out; null where it was kept",
}


class Rule(Protocol):
    """A yes or no for each row of scores."""

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """Whose scores it needs."""

    @property
    def description(self) -> str:
        """The rule as text, for counts of what it leaves out."""

    def passes(self, scores: Mapping[str, Floats], /) -> Bools:
        """Return the mask of the rows that pass, from the scores of each scorer by name."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A score of at least `least`, or at most `most`, or between the two."""

    scorer: Scorer
    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        bounds = [bound for bound in (self.least, self.most) if bound is not None]
        if not bounds or not np.isfinite(bounds).all() or bounds != sorted(bounds):
            raise InputError(
                f"the threshold of {self.scorer.name} is least={self.least}, most={self.most}: give one, "
                "or both in this order, as finite numbers"
            )

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        return (self.scorer,)

    @property
    def description(self) -> str:
        least = "" if self.least is None else f" at least {self.least:g}"
        return f"{self.scorer.name}{least}" + ("" if self.most is None else f" at most {self.most:g}")

    def passes(self, scores: Mapping[str, Floats]) -> Bools:
        low, high = -np.inf if self.least is None else self.least, np.inf if self.most is None else self.most
        return (scores[self.scorer.name] >= low) & (scores[self.scorer.name] <= high)


@dataclass(frozen=True, kw_only=True)
class AtLeast:
    """At least `m` of some rules. CNS-Bench: 2 of 4 (two CLIP texts, CLIP and DINOv2 beside severity 0)."""

    m: int
    of: tuple[Rule, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.m <= len(self.of):
            raise InputError(f"at least {self.m} of {len(self.of)} rules: m is from 1 to the number of rules")

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        return tuple(scorer for rule in self.of for scorer in rule.scorers)

    @property
    def description(self) -> str:
        return f"{self.m} of {len(self.of)} ({'; '.join(rule.description for rule in self.of)})"

    def passes(self, scores: Mapping[str, Floats]) -> Bools:
        enough: Bools = np.sum([rule.passes(scores) for rule in self.of], axis=0) >= self.m
        return enough


@dataclass(frozen=True, kw_only=True)
class Slider:
    """A score that should grow with severity: trajectories of lower rank correlation are named, and kept."""

    scorer: Scorer
    least: float = 0.9


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The rules by which samples of a continuous shift are left out, and scores to report only (`also`)."""

    code_version: ClassVar[int] = 1

    base: Rule | None = None
    easy: Rule | None = None
    keep: Rule | None = None
    slider: Slider | None = None
    also: tuple[Scorer, ...] = ()

    def __post_init__(self) -> None:
        if self.easy is not None and self.keep is None:
            raise InputError("`easy` says which samples need not pass `keep`: give a rule to `keep` too")
        if not self.scorers:
            raise InputError("filters need a scorer: give a rule to `base` or `keep`, or a scorer to `also`")
        for scorer in self.scorers:
            if not re.fullmatch(r"[a-z0-9_-]+", scorer.name):
                raise InputError(f"a scorer's name is made of [a-z0-9_-], got {scorer.name!r}")

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        rules = [rule for rule in (self.base, self.easy, self.keep) if rule is not None]
        given = [*(scorer for rule in rules for scorer in rule.scorers), *self.also]
        named: dict[str, Scorer] = {}
        for scorer in [*given, *([self.slider.scorer] if self.slider else [])]:
            known = named.setdefault(scorer.name, scorer)
            if identity(known) != identity(scorer):
                raise InputError(f"two scorers are named {scorer.name!r}: give one another `name`")
        return tuple(named.values())


def judge(filters: Filters, rows: pa.Table, severities: Sequence[float]) -> pa.Table:
    """The rows with a verdict of each stage, `base`, `easy`, `passes` and in the end `kept`, and `why` not.

    Rows have a trajectory, a severity and their scores, as those of `filters/<base>.parquet`; older verdicts
    are replaced, so that other rules can be tried on published scores. A trajectory that lacks one of the
    severities passes nothing.
    """
    scores = {scorer.name: scores_of(rows, scorer.name) for scorer in filters.scorers}
    trajectory = np.unique(rows["trajectory"].to_numpy(zero_copy_only=False), return_inverse=True)[1]
    severity = rows["severity"].to_numpy()
    why = np.full(len(rows), None, dtype=object)
    alive: Bools = (np.bincount(trajectory) == len(severities))[trajectory]
    why[~alive] = LACKS
    verdicts: dict[str, Bools] = {}

    def go_on(with_those: Bools, reason: str) -> Bools:
        why[alive & ~with_those] = f"samples {reason}"
        return alive & with_those

    if filters.base is not None:
        failing = (severity == severities[0]) & ~filters.base.passes(scores)
        start = (np.bincount(trajectory, failing) == 0)[trajectory]
        reason = f"of trajectories whose severity {severities[0]:g} is without {filters.base.description}"
        alive = verdicts["base"] = go_on(start, reason)
    if filters.keep is not None:
        passing = filters.keep.passes(scores)
        if filters.easy is not None:
            verdicts["easy"] = alive & filters.easy.passes(scores)
            passing = passing | verdicts["easy"]
        alive = verdicts["passes"] = go_on(passing, f"without {filters.keep.description}")
    whole = (np.bincount(trajectory, ~alive) == 0)[trajectory]
    verdicts["kept"] = go_on(whole, "of trajectories that fail at another severity")
    columns = {name: rows[name] for name in rows.column_names if name not in VERDICTS}
    return pa.table(columns | verdicts | {"why": pa.array(why, pa.string())})


def described(filters: Filters, judged: pa.Table) -> pa.Table:
    """Judged rows whose schema says of each column what it means, under the key `description`."""
    verdicts = {"base": filters.base, "easy": filters.easy, "passes": filters.keep}
    rules = {name: rule.description for name, rule in verdicts.items() if rule is not None}
    meanings = ABOUT | {
        "base": f"whether the sample's trajectory has at severity 0: {rules.get('base')}",
        "easy": f"whether the sample, alive so far, needs no other test: {rules.get('easy')}",
        "passes": f"whether the sample, alive so far, passes or needs no test: {rules.get('passes')}",
    }
    for scorer in filters.scorers:
        about, made = type(scorer).__doc__, f"{type(scorer).__name__}("  # as a dataclass without one has
        line = " ".join((about or "").partition("\n\n")[0].split())
        meanings[SCORE + scorer.name] = line if line and not line.startswith(made) else f"by {scorer.name}"
    fields = [field.with_metadata({"description": meanings[field.name]}) for field in judged.schema]
    return judged.cast(pa.schema(fields, judged.schema.metadata))


def scores_of(rows: pa.Table, scorer: str) -> Floats:
    """The scores of judged or scored rows."""
    if SCORE + scorer not in rows.column_names:
        known = [column.removeprefix(SCORE) for column in rows.column_names if column.startswith(SCORE)]
        raise not_found("scorer", scorer, known, "These rows have no score of it.")
    scores: Floats = rows[SCORE + scorer].to_numpy()
    return scores
