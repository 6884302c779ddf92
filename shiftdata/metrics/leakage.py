"""How much a benchmark lets test information leak: oracle selection, pretraining, luck of seed and epoch.

Works on tables of recorded accuracies, in any unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import FloatArray, IntArray, as_floats, check_lengths
from shiftdata.metrics.records import Record, number, table
from shiftdata.metrics.statistics import Convention, spread

#: Combinations of test domains that are tried at most for one K.
MOST_COMBINATIONS = 100_000


@dataclass(frozen=True, eq=False)
class SelectionLeakage(Record):
    """What selecting a model on the test domains gains (DomainBed-v2, section 2.2 and table 4).

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
        """For each K: the change against the first K, -0.31 for 31 % less; nan where that has no leakage."""
        first = self.leakage[0]
        return self.leakage / first - 1 if first != 0 else np.full(len(self.k), np.nan)

    def table(self, domains: Sequence[str] | None = None) -> str:
        """One line for IID selection and one for each K, as table 4 of the paper."""
        names = domains or [str(i) for i in range(len(self.iid))]
        rows = [["IID", *map(number, [*self.iid, self.iid.mean(), 0.0]), "-"]]
        for k, accuracy, leak, relative in zip(self.k, self.oracle, self.leakage, self.relative, strict=True):
            change = f"{100 * relative:.0f}%" if np.isfinite(relative) else "-"
            rows.append([f"oracle K={k}", *map(number, [*accuracy, accuracy.mean(), leak]), change])
        return table(["selection", *names, "mean", "leakage", "change"], rows)

    def __str__(self) -> str:
        return self.table()


@dataclass(frozen=True)
class TrainingSpread(Record):
    """How much test accuracy moves for reasons that no method can claim (NICO++, section 5.4 and table 4).

    `epoch` is the standard deviation over the last epochs, the mean over seeds; `seed` that over seeds of
    the final models; `gap` what choosing the epoch on test instead of validation accuracy gains, nan
    without validation accuracies.
    """

    epoch: float
    seed: float
    gap: float
    seeds: int
    epochs: int

    def __str__(self) -> str:
        return (
            f"epoch {number(self.epoch)}, seed {number(self.seed)}, gap {number(self.gap)} "
            f"({self.seeds} seeds, last {self.epochs} epochs)"
        )


def selection_leakage(
    validation: Any, test: Any, *, domain_n: Any = None, most: int | None = None
) -> SelectionLeakage:
    """Compare model selection on validation data with selection on K test domains, for K from 1 on.

    For every combination of K domains the setting with the highest accuracy over them is chosen; a domain's
    figure is the mean over the combinations that contain it.

    Args:
        validation: The validation accuracy of each hyper-parameter setting.
        test: The test accuracy of each setting (row) on each test domain (column).
        domain_n: Rows of each test domain: with it, the accuracy over a combination weighs domains by size
            (micro average, as DomainBed-v2's code reports them); without it, all weigh the same.
        most: The largest K; all test domains by default.

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
    """How far linear probing is above fine-tuning: (LP - FT) / FT (DomainBed-v2, table 2).

    Above 0, a domain's accuracy comes from the pretrained weights rather than from the training domains.

    >>> probe_gap([97.7, 45.9], [97.4, 77.1]).round(3).tolist()
    [0.003, -0.405]
    """
    probed, tuned = as_floats("linear_probe", linear_probe), as_floats("fine_tune", fine_tune)
    check_lengths(linear_probe=probed, fine_tune=tuned)
    if (tuned <= 0).any():
        raise InputError("fine_tune: an accuracy of 0 or less leaves the gap undefined; leave it out")
    return (probed - tuned) / tuned


def training_spread(
    test: Any, validation: Any = None, *, last: int = 10, convention: Convention = "nico++"
) -> TrainingSpread:
    """The spread of test accuracy over epochs and seeds, and what oracle choice of the epoch gains.

    Args:
        test: The test accuracy of each seed (row) at each epoch (column).
        validation: The same on validation data of the training domains, for the gap.
        last: How many of the last epochs count; the paper takes 10.
        convention: What the standard deviations divide by.

    """
    accuracy = as_floats("test", test, ndim=2)
    seeds, epochs = accuracy.shape
    if not 1 <= last <= epochs:
        raise InputError(f"last={last} epochs of {epochs} recorded: give at most that many")
    gap = float("nan")
    if validation is not None:
        scores = as_floats("validation", validation, ndim=2)
        if scores.shape != accuracy.shape:
            shapes = f"validation {scores.shape} and test {accuracy.shape}"
            raise InputError(f"{shapes}: give the same seeds and epochs")
        chosen = accuracy[np.arange(seeds), scores.argmax(axis=1)]
        gap = float((accuracy.max(axis=1) - chosen).mean())
    over_epochs = [spread(row[-last:], convention) for row in accuracy]
    return TrainingSpread(float(np.mean(over_epochs)), spread(accuracy[:, -1], convention), gap, seeds, last)


def _oracle(accuracy: FloatArray, weights: FloatArray, k: int) -> FloatArray:
    """Each domain's accuracy under the oracle of `k` domains, the mean over combinations with it."""
    domains = accuracy.shape[1]
    if (tried := math.comb(domains, k)) > MOST_COMBINATIONS:
        raise InputError(f"{tried:,} combinations of {k} of {domains} test domains are too many: lower most")
    total, times = np.zeros(domains), np.zeros(domains)
    for chosen in combinations(range(domains), k):
        combination = np.array(chosen)
        best = (accuracy[:, combination] @ weights[combination]).argmax()
        total[combination] += accuracy[best, combination]
        times[combination] += 1
    return total / times
