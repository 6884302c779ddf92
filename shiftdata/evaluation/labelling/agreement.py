"""How far people agree who labelled the same pictures: two by Cohen's kappa, more by Krippendorff's alpha."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.evaluation.labelling.purposes import Purpose
from shiftdata.evaluation.labelling.table import Key
from shiftdata.evaluation.metrics import Interval, bootstrap_rows
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import Z, wilson
from shiftdata.tables import aligned

Floats: TypeAlias = NDArray[np.float64]
#: Keys that a text lists.
MOST_LISTED = 20


@dataclass(frozen=True)
class Kappa(Record):
    """Cohen's kappa with its 95 % interval in large samples (Fleiss, Cohen and Everitt 1969).

    Nothing is defined where both always gave one and the same label.
    """

    kappa: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.kappa, 3)} [{number(self.low, 3)}, {number(self.high, 3)}]"


def kappa(counts: NDArray[np.int64], weights: Floats | None = None) -> Kappa:
    """Cohen's kappa of a table of pairs of labels; `weights` is 1 where labels agree and less where not.

    >>> print(kappa(np.array([[20, 5], [10, 15]])))
    0.400 [0.151, 0.649]
    """
    weights = np.eye(len(counts)) if weights is None else weights
    n = counts.sum()
    if not n:
        return Kappa(math.nan, math.nan, math.nan)
    shares = counts / n
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    by_chance = float(rows @ weights @ columns)
    if by_chance > 1 - 1e-12:
        return Kappa(math.nan, math.nan, math.nan)
    estimate = (float((weights * shares).sum()) - by_chance) / (1 - by_chance)
    expected = (weights @ columns)[:, None] + (rows @ weights)[None, :]
    spread = (shares * (weights - expected * (1 - estimate)) ** 2).sum()
    variance = (spread - (estimate - by_chance * (1 - estimate)) ** 2) / n / (1 - by_chance) ** 2
    half = Z * math.sqrt(max(variance, 0.0))
    return Kappa(estimate, max(-1.0, estimate - half), min(1.0, estimate + half))


def alpha(people: Mapping[str, Mapping[Key, str]]) -> Interval | None:
    """Krippendorff's alpha (2004) of labels as names, 1 - D_o / D_e, whoever labelled a key.

    With n_uk labels k of key u, m_u of it and n in all, keys with one label left out: D_o = the sum over u of
    (m_u^2 - sum of n_uk^2) / (m_u - 1) / n, and D_e = (n^2 - sum of n_k^2) / (n (n - 1)). The interval draws
    keys. None without keys that have two labels, or where all their labels are the same.
    """
    given: dict[Key, list[str]] = {}
    for labels in people.values():
        for key, label in labels.items():
            given.setdefault(key, []).append(label)
    several = [labels for labels in given.values() if len(labels) > 1]
    names = sorted({label for labels in several for label in labels})
    if len(names) < 2:
        return None
    counts = np.array([[labels.count(name) for name in names] for labels in several])

    def statistic(rows: IntArray) -> float:
        drawn = counts[rows]
        sizes, totals = drawn.sum(axis=1), drawn.sum(axis=0)
        n = totals.sum()
        observed = ((sizes**2 - (drawn**2).sum(axis=1)) / (sizes - 1)).sum() / n
        expected = (n**2 - (totals**2).sum()) / (n * (n - 1))
        return float(1 - observed / expected) if expected else 1.0  # a draw in which all agree on one label

    return bootstrap_rows(statistic, len(counts))


def linear_weights(labels: int) -> Floats:
    """Agreement that falls evenly from 1 to 0 along an order of labels.

    >>> linear_weights(3).tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    steps = np.arange(labels)
    weights: Floats = 1 - np.abs(steps[:, None] - steps[None, :]) / (labels - 1)
    return weights


@dataclass(frozen=True, eq=False, kw_only=True)
class Agreement(Record):
    """Two people's labels of the keys that both labelled.

    `counts` has a row for each label of the first and a column for each of the second. `weighted` is None
    where labels have no order.
    """

    first: str
    second: str
    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    n: int
    raw: tuple[float, float, float]
    kappa: Kappa
    weighted: Kappa | None
    differ: tuple[tuple[Key, str, str], ...]

    def __str__(self) -> str:
        share, low, high = self.raw
        lines = [
            f"{self.first} and {self.second}: n = {self.n:,} labelled by both",
            f"agreement {number(share, 3)} [{number(low, 3)}, {number(high, 3)}]",
            f"Cohen's kappa {self.kappa}",
            *([f"linearly weighted kappa {self.weighted}"] if self.weighted else []),
        ]
        body = [[name, *map(str, row)] for name, row in zip(self.labels, self.counts.tolist(), strict=True)]
        lines.append(aligned([f"{self.first} (down), {self.second} (across)", *self.labels], body))
        for key, mine, other in self.differ[:MOST_LISTED]:
            lines.append(f"{' / '.join(key)}: {mine}, {other}")
        if more := len(self.differ) - MOST_LISTED:
            lines += [f"and {more:,} more"] if more > 0 else []
        return "\n".join(lines)


def compare(
    purpose: Purpose, first: tuple[str, Mapping[Key, str]], second: tuple[str, Mapping[Key, str]]
) -> Agreement:
    """The agreement of two people, each given by name and labels."""
    (one, mine), (two, others) = first, second
    both = sorted(mine.keys() & others.keys())
    place = {label: at for at, label in enumerate(purpose.labels)}
    counts = np.zeros((len(place), len(place)), np.int64)
    for key in both:
        counts[place[mine[key]], place[others[key]]] += 1
    same, n = int(counts.trace()), len(both)
    return Agreement(
        first=one,
        second=two,
        labels=purpose.labels,
        counts=counts,
        n=n,
        raw=(same / n if n else math.nan, *wilson(same, n)),
        kappa=kappa(counts),
        weighted=kappa(counts, linear_weights(len(place))) if purpose.ordered else None,
        differ=tuple((key, mine[key], others[key]) for key in both if mine[key] != others[key]),
    )


def agreements(
    purpose: Purpose, files: Sequence[tuple[str, Mapping[str, Mapping[Key, str]]]]
) -> Iterator[Agreement]:
    """The agreement of every two people; `files` are the labels by person of one or several named files.

    Who is in two files counts as two.
    """
    names = [who for _, people in files for who in people]
    people: list[tuple[str, Any]] = [
        (f"{who or 'nobody'} in {file}" if names.count(who) > 1 else who or "nobody", labels)
        for file, of in files
        for who, labels in sorted(of.items())
    ]
    for one, two in combinations(people, 2):
        yield compare(purpose, one, two)
