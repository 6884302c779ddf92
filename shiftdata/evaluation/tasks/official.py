"""The official metrics of tasks: functions from judged rows to named figures, in a table by name.

A figure's name has one meaning wherever it occurs. `mean`, `worst`, `worst_3`, `worst_5` are over groups;
`mean_class` over labels that have rows; `mean_domain`, `std_domain`, `worst_domain` over nuisances; `overall`
is the share of rows that are right, which some papers call accuracy.

Errors are over origins, from the derivatives of a figure by the accuracies of groups: `metrics/clusters.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.metrics import FailurePoints, GroupAccuracy, failure_points, group_accuracy
from shiftdata.evaluation.metrics.clusters import Clusters
from shiftdata.evaluation.metrics.groups import Linear
from shiftdata.evaluation.metrics.odds import ClassRates, Gap, LinearGap
from shiftdata.evaluation.metrics.records import Record, number, some
from shiftdata.evaluation.metrics.severity import severity_steps
from shiftdata.evaluation.tasks.cells import Cells


@dataclass(frozen=True, eq=False)
class Figure(float, Record):
    """A number with its rows `n`, what it is taken `of`, and its standard error `sem` over their `origins`.

    It is a float, so that it compares, rounds and adds as one. `linear` says how it depends on the accuracies
    of groups; it is there for what was just evaluated.
    """

    value: float
    n: int
    of: str = "rows"
    sem: float = math.nan
    origins: int = 0
    linear: Linear | None = field(default=None, repr=False)

    omitted: ClassVar[tuple[str, ...]] = ("linear",)

    def __new__(cls, value: float, *_: object, **__: object) -> Self:
        """Make the float; the dataclass sets the fields."""
        return super().__new__(cls, value)

    @classmethod
    def over(
        cls,
        groups: GroupAccuracy,
        derivatives: FloatArray,
        value: float,
        of: str,
        n: int | None = None,
        *,
        worst: int = 0,
    ) -> Self:
        """Give a figure its error over origins, from its derivatives by the accuracies of groups."""
        linear = Linear(groups, derivatives, worst)
        sem = linear.sem if math.isfinite(value) else math.nan
        return cls(value, linear.n if n is None else n, of, sem, linear.origins, linear)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `to_dict` stored: null is nan."""
        value, sem = (math.nan if stored[name] is None else stored[name] for name in ("value", "sem"))
        return cls(value, stored["n"], stored["of"], sem, stored["origins"])

    @property
    def rows(self) -> str:
        """The rows for a table, "300 of 34 origins" where these are fewer."""
        return f"{self.n:,}" + (f" of {self.origins:,} origins" if 0 < self.origins < self.n else "")

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval over origins; nan where there is none."""
        return (math.nan, math.nan) if self.linear is None else self.linear.interval(self.value)

    def __str__(self) -> str:
        error = f" ± {number(self.sem)}" if math.isfinite(self.sem) else ""
        return f"{number(self.value)}{error} (n={self.rows}, {self.of})"


@dataclass(frozen=True, eq=False)
class Judged:
    """Rows of a set with their true and predicted labels (`UNKNOWN` for unknown ones).

    `known` are the labels of training.
    """

    metadata: Metadata
    rows: IntArray
    cells: Cells
    true: IntArray
    predicted: IntArray
    known: IntArray

    def __len__(self) -> int:
        return len(self.true)

    @cached_property
    def groups(self) -> GroupAccuracy:
        return self.cells.by(["label", self.metadata.nuisance_column])

    @cached_property
    def classes(self) -> GroupAccuracy:
        return self.cells.by(["label"])

    @cached_property
    def domains(self) -> GroupAccuracy:
        return self.cells.by([self.metadata.nuisance_column])

    @cached_property
    def rates(self) -> ClassRates:
        """The true and false positive rates of each class in the nuisances of its groups."""
        codes, column = self.cells.codes, self.metadata.nuisance_column
        expected = np.zeros((len(self.metadata.labels), len(self.metadata.nuisances)), np.bool_)
        expected[codes["label"], codes[column]] = True
        return ClassRates.of_rows(
            self.true, self.predicted, self.metadata.nuisance[self.rows].astype(np.int64), expected
        )

    @property
    def severity(self) -> FloatArray:
        return np.asarray(self.metadata.columns["severity"][self.rows], np.float64)

    @cached_property
    def trajectory(self) -> IntArray:
        """The trajectory of each row; one that was drawn twice is two."""
        order = np.argsort(self.rows, kind="stable")
        copy = np.empty(len(self), np.int64)
        copy[order] = np.arange(len(self)) - np.searchsorted(self.rows[order], self.rows[order])
        trajectory = self.metadata.trajectory[self.rows].astype(np.int64)
        return np.asarray(trajectory * (1 + copy.max(initial=0)) + copy)

    @cached_property
    def failure_points(self) -> FailurePoints:
        """The failure points of every shift, by name; refused where a trajectory is not complete."""
        nuisance, names = self.metadata.nuisance[self.rows], self.metadata.nuisances
        right = self.true == self.predicted
        points = failure_points(right, self.severity, trajectories=self.trajectory, shifts=nuisance)
        return replace(points, shifts=tuple(names[number] for number in np.unique(nuisance)))


Named: TypeAlias = Iterator[tuple[str, Figure]]


def accuracy_of(rows: GroupAccuracy) -> Figure:
    """Return the share of rows that are right; `rows` has all as one group."""
    return Figure.over(rows, np.ones(1), rows.overall, "rows")


def _overall(judged: Judged) -> Named:
    yield "overall", accuracy_of(judged.cells.all)


def _mean(groups: GroupAccuracy, kind: str, m: int | None = None) -> Figure:
    """Return the mean over groups, or over the `m` that are worst."""
    chosen = np.arange(len(groups.n)) if m is None else np.argsort(groups.accuracy, kind="stable")[:m]
    value = groups.mean if m is None else groups.worst_of(m)
    over = f"{len(groups.n):,} {kind}"
    over = over if m is None else f"the {m} worst of {over}"
    return Figure.over(groups, _equal(groups, chosen), value, over, worst=m or 0)


def _equal(groups: GroupAccuracy, chosen: Any) -> FloatArray:
    """Return the derivatives of the mean over some groups."""
    derivatives = np.zeros(len(groups.n))
    derivatives[chosen] = 1
    return np.asarray(derivatives / max(1.0, derivatives.sum()))


def _worst(groups: GroupAccuracy) -> Figure:
    if groups.empty:
        return Figure(math.nan, 0, f"{groups.empty[0]}: no rows")
    return Figure.over(
        groups, _equal(groups, [groups.accuracy.argmin()]), groups.worst, str(groups.worst_group), worst=1
    )


def _plain(judged: Judged) -> Named:
    yield from _adaptation(judged)
    yield "mean", _mean(judged.groups, "groups")
    yield "worst", _worst(judged.groups)


def _fairness(judged: Judged) -> Named:
    """SMA, section 3.1.3 and appendix E.4."""
    groups = judged.groups
    yield "mean", _mean(groups, "groups")
    yield "worst", _worst(groups)
    for m in (3, 5):
        if len(groups.n) >= m:
            yield f"worst_{m}", _mean(groups, "groups", m)
    yield from _odds(judged)
    yield from _overall(judged)
    if not groups.empty:
        chance = groups.worst_by_chance()
        yield "worst_by_chance", Figure(chance.expected, len(judged), "groups that are equally hard")
        likely = chance.at_most(groups.worst)
        yield "worst_by_chance_p", Figure(likely, len(judged), "probability of a worst group this low")


def _odds(judged: Judged) -> Named:
    """Equal opportunity and equalized odds (SMA, section 4): the widest gap of a class, and the mean gap."""
    if not judged.rates.gaps():  # a class in a single nuisance has nothing to be compared with
        return
    for name, odds in (("equal_opportunity", False), ("equalized_odds", True)):
        gaps = judged.rates.gaps(odds=odds)
        worst = gaps[int(np.argmax([gap.value for gap in gaps]))]  # the first that is nan, if any
        yield name, _gap(judged, [worst], odds, _gap_name(judged, worst))
        yield f"{name}_mean", _gap(judged, gaps, odds, f"{len(gaps):,} classes")


def _gap(judged: Judged, gaps: Sequence[Gap], odds: bool, of: str) -> Figure:
    """Return the mean of gaps between rates, each of which depends on the rows of two nuisances."""
    value = float(np.mean([gap.value for gap in gaps]))
    if math.isnan(value):
        return Figure(math.nan, 0, f"{of}: a rate has no rows")
    nuisance, rows, rights = judged.metadata.nuisance[judged.rows], [], []
    for gap in gaps:
        is_class = (judged.true == gap.label) == gap.of_true
        for end in (gap.high, gap.low):
            rows.append(np.flatnonzero(is_class & (nuisance == end)))
            rights.append(judged.predicted[rows[-1]] == gap.label)
    ends, row = np.repeat(np.arange(len(rows)), list(map(len, rows))), np.concatenate(rows)
    groups = group_accuracy(
        np.ones_like(row), 1 * np.concatenate(rights), ends, n_groups=len(rows),
        origins=judged.metadata.origin[judged.rows[row]],
    )  # fmt: skip
    domains, independent = judged.domains, np.ones(len(judged.metadata.nuisances))
    present = np.unique(judged.cells.codes[judged.metadata.nuisance_column])
    independent[present] = domains.effective / np.maximum(domains.n, 1)
    linear = LinearGap(
        groups, np.tile([1.0, -1.0], len(gaps)) / len(gaps), rates=judged.rates, independent=independent,
        odds=odds, of_mean=len(gaps) > 1,
    )  # fmt: skip
    return Figure(value, linear.n, of, linear.sem, linear.origins, linear)


def _gap_name(judged: Judged, gap: Gap) -> str:
    high, low = (judged.metadata.nuisances[end] for end in (gap.high, gap.low))
    rate = "true" if gap.of_true else "false"
    return f"{judged.metadata.labels[gap.label]}, {rate} positives: {high} less {low}"


def _domains(judged: Judged) -> Named:
    """NICO++, equations 7 to 9; DomainBed."""
    domains = judged.domains
    yield "mean_domain", _mean(domains, "domains")
    yield "std_domain", Figure(domains.std, len(judged), f"{len(domains.n):,} domains")
    yield from _overall(judged)
    yield "worst_domain", _worst(domains)


def _adaptation(judged: Judged) -> Named:
    """Accuracy over rows, and over the classes that have some: a label shift may leave a class without."""
    yield from _overall(judged)
    every, present = len(judged.classes.n), judged.classes.without_empty()
    kind = "classes" if len(present.n) == every else f"of {every:,} classes, those with rows"
    yield "mean_class", _mean(present, kind)


def _wilds(judged: Judged) -> Named:
    """WILDS: accuracy; of FMoW the worst region, of CivilComments the worst identity and label.

    Both stand in the `params` of rows. The region "Other" does not count; a comment counts for each of the
    identities that it mentions.
    """
    yield from _overall(judged)
    regions = judged.metadata.params_of("region", judged.rows)
    named = [[region] if region and region != "Other" else [] for region in regions]
    if any(named):
        yield "worst_region", _worst(_overlapping(judged, named, "region"))
    identities = judged.metadata.params_of("identities", judged.rows)
    labels = judged.metadata.labels
    named = [
        [f"{identity} / {labels[label]}" for identity in mentioned or ()]
        for mentioned, label in zip(identities, judged.true.tolist(), strict=True)
    ]
    if any(named):
        yield "worst_identity", _worst(_overlapping(judged, named, "identity / label"))


def _overlapping(judged: Judged, groups: Sequence[Sequence[str]], by: str) -> GroupAccuracy:
    """Return the accuracy of groups of which a row may be in several, or in none."""
    names = tuple(sorted({name for mine in groups for name in mine}))
    number = {name: place for place, name in enumerate(names)}
    group = np.array([number[name] for mine in groups for name in mine])
    row = np.repeat(np.arange(len(groups)), list(map(len, groups)))
    right, origins = (judged.true == judged.predicted)[row], judged.metadata.origin[judged.rows[row]]
    accuracy = group_accuracy(np.ones_like(row), 1 * right, group, n_groups=len(names), origins=origins)
    return replace(accuracy, names=names, by=by)


def _universal(judged: Judged) -> Named:
    """The H-score (SMA, section 3.2.1), over rows as in SMA's code, and over classes as in OVANet's.

    It is the harmonic mean of the accuracy on shared classes and on all others, which are one class, unknown.
    """
    expected = np.unique(judged.cells.codes["label"])  # as `judged.classes` has them
    is_shared = np.isin(expected, judged.known)
    shared = int(is_shared.sum())
    for suffix, average in (("", "rows"), ("_classes", "classes")):
        # The unknown are the last part; the known are one part too where rows are averaged.
        parts = np.cumsum(is_shared) - 1 if suffix else np.zeros(len(is_shared), np.int64)
        last = shared if suffix else 1
        groups = judged.classes.merge(np.where(is_shared, parts, last), tuple(range(last + 1)), "part")
        known, unknown = groups.accuracy[:last].mean() if last else math.nan, groups.accuracy[last]
        total = known + unknown
        h_score = 2 * known * unknown / total if total != 0 else 0.0
        # d/dk of 2 k u / (k + u) is 2 u^2 / (k + u)^2, and d/du likewise.
        by_known, by_unknown = 2 * (np.array([unknown, known]) / total) ** 2 if total != 0 else np.zeros(2)
        of_known, of_unknown = _equal(groups, np.arange(last)), _equal(groups, [last])
        derivatives = by_known * of_known + by_unknown * of_unknown
        over = f"harmonic mean, known over {average}"
        yield f"h_score{suffix}", Figure.over(groups, derivatives, float(h_score), over, len(judged))
        over = f"{shared:,} shared classes, {average}"
        yield f"known{suffix}", Figure.over(groups, of_known, float(known), over)
        if not suffix:
            yield "unknown", Figure.over(groups, of_unknown, float(unknown), "rows of unknown classes")


def _label_shift(judged: Judged) -> Named:
    """RLSbench: accuracy, and the l1 error of the marginal of labels, 0 to 2."""
    yield from _adaptation(judged)
    count = len(judged.metadata.labels)  # one more place is for unknown
    true, predicted = (
        np.bincount(np.where(labels < 0, count, labels), minlength=count + 1) / len(judged)
        for labels in (judged.true, judged.predicted)
    )
    yield (
        "marginal_error",
        Figure(float(np.abs(predicted - true).sum()), len(judged), "shares of predictions"),
    )


def _continuous(judged: Judged) -> Named:
    """CNS-Bench, appendix A: the mean over shifts at each severity, drops, failure points.

    A promised shift without rows leaves the means undefined, as does one that lacks a severity.
    """
    severities = severity_steps(judged.severity)[0]
    (nuisance, step), along = judged.cells.sums([judged.metadata.nuisance_column, "severity"])
    names, shift = np.unique(nuisance, return_inverse=True)
    accuracy = np.full((len(names), len(severities)), np.nan)
    accuracy[shift, step] = along.accuracy
    means, drops = accuracy.mean(axis=0), (accuracy[:, :1] - accuracy).mean(axis=0)
    over = f"mean over {len(names):,} shifts"
    at = [np.where(step == place, 1 / len(names), 0.0) for place in range(len(severities))]
    for place, severity in enumerate(severities):
        yield f"accuracy@{severity:g}", Figure.over(along, at[place], float(means[place]), over)
    if severities[0] == 0 and len(severities) > 1:
        for place, severity in enumerate(severities[1:], start=1):
            yield f"drop@{severity:g}", Figure.over(along, at[0] - at[place], float(drops[place]), over)
        # Severity 0 counts with its drop of 0, as in table 2.
        derivatives, over = at[0] - np.mean(at, axis=0), f"{len(severities)} severities, {over}"
        yield "mean_drop", Figure.over(along, derivatives, float(drops.mean()), over)
    yield from _failures(judged)


def _failures(judged: Judged) -> Named:
    """The mean failure point and the share that fails, with the error over the trajectories' origins."""
    points = judged.failure_points
    names, first = np.unique(judged.trajectory, return_index=True)
    rows = judged.rows[first[np.searchsorted(names, np.array(points.trajectory))]]
    origin = judged.metadata.origin[rows]
    fails, count = ~np.isnan(points.point), len(points.point)

    def mean(values: FloatArray, note: str, *, shares: bool) -> Figure:
        clusters = Clusters.of_rows(np.zeros(count, np.int64), origin, values, 1)
        whole = GroupAccuracy(values.mean(keepdims=True), np.array([count]), clusters=clusters)
        linear, over = Linear(whole, np.ones(1), shares=shares), f"{count:,} trajectories{note}"
        value = float(whole.accuracy[0])
        return Figure(value, len(judged), over, linear.sem, linear.origins, linear)

    reached = np.where(fails, points.point, points.beyond)
    yield "mean_failure_point", mean(reached, f", {points.beyond:g} where none", shares=False)
    yield "failures", mean(fails.astype(np.float64), " that fail anywhere", shares=True)
    if total := int(points.counts.sum()):  # table 3
        for severity, n in zip(points.severities.tolist(), points.counts.tolist(), strict=True):
            yield f"failures@{severity:g}", Figure(n / total, total, "first failures")


#: Another official metric is another entry; protocols name theirs.
OFFICIAL: Mapping[str, Callable[[Judged], Named]] = {
    "fairness": _fairness,
    "domains": _domains,
    "adaptation": _adaptation,
    "universal": _universal,
    "label-shift": _label_shift,
    "continuous": _continuous,
    "wilds": _wilds,
}

#: The figures of each that every such task has, the headline first.
FIGURES: Mapping[str, Sequence[str]] = {
    "fairness": ("worst", "mean", "overall"),
    "domains": ("mean_domain", "worst_domain", "overall"),
    "adaptation": ("overall", "mean_class"),
    "universal": ("h_score", "known", "unknown"),
    "label-shift": ("overall", "mean_class", "marginal_error"),
    "continuous": ("mean_drop", "mean_failure_point", "failures"),
    "wilds": ("overall",),
}


def figures_of(judged: Judged, metrics: tuple[str, ...]) -> tuple[dict[str, Figure], list[str]]:
    """Return the figures of some official metrics (plain ones for none), and why some are missing."""
    figures: dict[str, Figure] = {}
    notes: list[str] = []
    for name in metrics:
        if name not in OFFICIAL:
            raise not_found("official metric", name, OFFICIAL)
    for metric in [OFFICIAL[name] for name in metrics] or [_plain]:
        try:
            for name, figure in metric(judged):
                figures[name] = figure
        except InputError as error:
            if metric is not _continuous:
                raise
            notes.append(f"no failure points: {error}")
    groups = {"groups": judged.groups, "classes": judged.classes, "domains": judged.domains}
    for kind, accuracy in groups.items():
        if accuracy.empty:
            notes.append(
                f"{len(accuracy.empty):,} {kind} have no rows ({some(accuracy.empty)}): what needs them is "
                "undefined, without_empty() leaves them out"
            )
    return figures, notes
