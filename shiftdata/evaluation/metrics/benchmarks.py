"""Figures about a benchmark, from recorded accuracies or features.

Ranks of methods, leaks of test information, fidelity of styles, distance of domains.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray, as_floats, check_lengths
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import MeanSEM, mean_sem


@dataclass(frozen=True, eq=False)
class SelectionLeakage(Record):
    """The gain from selecting a model on the test domains (DomainBed-v2, section 2.2 and table 4).

    `iid` has the accuracy of each test domain under selection on validation data, `oracle[i]` under
    selection on `k[i]` test domains at once.
    """

    iid: FloatArray
    k: IntArray
    oracle: FloatArray

    derived: ClassVar[tuple[str, ...]] = ("leakage", "relative")

    @property
    def leakage(self) -> FloatArray:
        """For each K: mean accuracy under oracle selection minus that under IID selection."""
        return np.asarray(self.oracle.mean(axis=1) - self.iid.mean())

    @property
    def relative(self) -> FloatArray:
        """For each K: the change from the first K, -0.31 for 31 % less; nan where that has no leakage."""
        first = self.leakage[0]
        return self.leakage / first - 1 if first != 0 else np.full(len(self.k), np.nan)


def selection_leakage(
    validation: Any, test: Any, *, domain_n: Any = None, most: int | None = None
) -> SelectionLeakage:
    """Compare model selection on validation data with selection on K test domains, for K from 1 to `most`.

    For every combination of K domains the setting with the highest accuracy over them is chosen; a domain's
    figure is the mean over the combinations that contain it. `test` has a row per setting and a column per
    test domain. With `domain_n`, a combination weighs domains by size, as DomainBed-v2's code does.

    >>> result = selection_leakage([0.9, 0.8], [[0.5, 0.5], [0.7, 0.4]])
    >>> result.leakage.round(3).tolist(), result.relative.round(3).tolist()
    ([0.1, 0.05], [0.0, -0.5])
    """
    scores, accuracy = as_floats("validation", validation), as_floats("test", test, ndim=2)
    check_lengths(validation=scores, test=accuracy)
    domains = accuracy.shape[1]
    weights = np.ones(domains) if domain_n is None else as_floats("domain_n", domain_n)
    if len(weights) != domains or (weights <= 0).any():
        raise InputError(f"domain_n: give the rows of each of the {domains} test domains, all above 0")
    largest = domains if most is None else most
    if not 1 <= largest <= domains:
        raise InputError(f"most={most} test domains of {domains}: give 1 to {domains}")
    k = np.arange(1, largest + 1)
    oracle = np.stack([_oracle(accuracy, weights, int(size)) for size in k])
    return SelectionLeakage(accuracy[scores.argmax()], k, oracle)


def probe_gap(linear_probe: Any, fine_tune: Any) -> FloatArray:
    """The relative gap of linear probing to fine-tuning: (LP - FT) / FT (DomainBed-v2, table 2).

    Above 0, a domain's accuracy comes from the pretrained weights rather than from the training domains.

    >>> probe_gap([97.7, 45.9], [97.4, 77.1]).round(3).tolist()
    [0.003, -0.405]
    """
    probed, tuned = as_floats("linear_probe", linear_probe), as_floats("fine_tune", fine_tune)
    check_lengths(linear_probe=probed, fine_tune=tuned)
    if (tuned <= 0).any():
        raise InputError("fine_tune: an accuracy of 0 or less leaves the gap undefined; leave it out")
    return (probed - tuned) / tuned


def _oracle(accuracy: FloatArray, weights: FloatArray, k: int) -> FloatArray:
    """Each domain's accuracy under the oracle of `k` domains, the mean over combinations with it."""
    domains = accuracy.shape[1]
    total, times = np.zeros(domains), np.zeros(domains)
    for chosen in combinations(range(domains), k):
        combination = np.array(chosen)
        best = (accuracy[:, combination] @ weights[combination]).argmax()
        total[combination] += accuracy[best, combination]
        times[combination] += 1
    return total / times


@dataclass(frozen=True, eq=False)
class RankAgreement(Record):
    """Two rankings of the same methods: their ranks and how far they agree."""

    first: FloatArray
    second: FloatArray
    spearman: float
    kendall: float

    @property
    def change(self) -> FloatArray:
        """Places that each method gained from the first to the second (DomainBed-v2, table 5)."""
        return self.first - self.second

    def __str__(self) -> str:
        return f"Spearman {number(self.spearman)}, Kendall {number(self.kendall)} ({len(self.first)} methods)"


def ranks(values: Any, *, lower_is_better: bool = False) -> FloatArray:
    """The rank of each value, 1 for the best; equal values share the mean of their ranks.

    >>> ranks([69.6, 72.9, 69.0, 72.9]).tolist()
    [3.0, 1.5, 4.0, 1.5]
    """
    array = as_floats("values", values)
    signed = array if lower_is_better else -array
    _, inverse, counts = np.unique(signed, return_inverse=True, return_counts=True)
    return np.asarray((counts.cumsum() - (counts - 1) / 2)[inverse])


def spearman(a: Any, b: Any) -> float:
    """The rank correlation of two lists of values; nan where one of them does not vary.

    >>> round(spearman([1, 2, 3, 4], [1, 2, 4, 3]), 3)
    0.8
    """
    first, second = ranks(a), ranks(b)
    check_lengths(a=first, b=second)
    return _cosine(first - first.mean(), second - second.mean())


def rank_agreement(a: Any, b: Any, *, lower_is_better: bool = False) -> RankAgreement:
    """Rank the same methods by two lists of values, in the same order, and compare the rankings."""
    first = ranks(a, lower_is_better=lower_is_better)
    second = ranks(b, lower_is_better=lower_is_better)
    check_lengths(a=first, b=second)
    if len(first) < 2:
        raise InputError("two rankings are compared over at least 2 methods, got 1")
    pairs = np.triu_indices(len(first), 1)
    signs = [np.sign(np.subtract.outer(places, places))[pairs] for places in (first, second)]
    return RankAgreement(first, second, spearman(first, second), _cosine(signs[0], signs[1]))


def _cosine(a: FloatArray, b: FloatArray) -> float:
    """Kendall's tau b is the cosine of the signs of all pairs, Pearson's r that of the centred values."""
    length = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / length if length else float("nan")


def stylization_fidelity(stylized: Any, original: Any) -> MeanSEM:
    """The fidelity of a style (SMA, section 2.2, appendix D) from the accuracies of its trials.

    It is a mean of ratios, not a ratio of means: each trial has its own classes. SMA keeps styles above 0.8.

    >>> print(stylization_fidelity([0.72, 0.90], [0.90, 0.90]))
    0.9000 ± 0.1000 (n=2)
    """
    above, below = as_floats("stylized", stylized), as_floats("original", original)
    check_lengths(stylized=above, original=below)
    if (above < 0).any() or (below <= 0).any():
        raise InputError(
            "accuracies: stylised ones are not negative, original ones are above 0; drop failed trials"
        )
    return mean_sem(above / below)


def frechet_distance(a: Any, b: Any) -> float:
    """The squared Fréchet distance of two sets of features (rows x features): FID on Inception's features.

    DomainBed-v2 measures the distance of test domains to ImageNet with it (table 2). It is biased upwards for
    few rows: compare it only at equal numbers of rows.

    >>> round(frechet_distance([[0.0, 0.0], [2.0, 0.0]], [[0.0, 1.0], [2.0, 1.0]]), 6)
    1.0
    """
    first, second = as_floats("a", a, ndim=2), as_floats("b", b, ndim=2)
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"features: {first.shape[1]} and {second.shape[1]} columns; use one network for both"
        )
    if min(len(first), len(second)) < 2:
        raise InputError(f"features: {len(first)} and {len(second)} rows; a covariance needs at least 2")
    means = float(np.square(first.mean(axis=0) - second.mean(axis=0)).sum())
    root_a, root_b = _root(first), _root(second)
    traces = float(np.square(root_a).sum() + np.square(root_b).sum())
    # The trace of (A B)^(1/2), for A = R^T R and B = S^T S, is the sum of the singular values of R S^T.
    covariances = max(0.0, traces - 2 * float(np.linalg.norm(root_a @ root_b.T, "nuc")))
    return means + covariances


def _root(features: FloatArray) -> FloatArray:
    """R with R^T R = covariance of the features, and no more rows than columns."""
    centered = (features - features.mean(axis=0)) / np.sqrt(len(features) - 1)
    root: Any = np.linalg.qr(centered, mode="r") if len(features) > features.shape[1] else centered
    return np.asarray(root)
