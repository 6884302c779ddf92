"""How far people agree beyond chance: Cohen's kappa of two, Krippendorff's alpha of more, labels by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from shiftdata.labelling.table import Row, latest
from shiftdata.metrics import Interval, Resampling, bootstrap_rows
from shiftdata.metrics.arrays import FloatArray, IntArray
from shiftdata.metrics.bootstrap import DEFAULT
from shiftdata.metrics.records import Record, number
from shiftdata.metrics.statistics import wilson


@dataclass(frozen=True, kw_only=True)
class Agreement(Record):
    """1 is agreement on every sample, 0 what independent labels give; samples are those with several labels.

    `unanimous` counts samples on which all agree.
    """

    measure: str
    people: int
    samples: int
    unanimous: int
    interval: Interval

    def __str__(self) -> str:
        low, high = wilson(self.unanimous, self.samples)
        share = f"{number(self.unanimous / self.samples)} [{number(low)}, {number(high)}]"
        return (
            f"{self.people} people, {self.samples:,} samples with several labels; all agree on {share}\n"
            f"{self.measure} {self.interval}"
        )


def agreement(rows: Iterable[Row], resampling: Resampling = DEFAULT) -> Agreement | None:
    """The agreement of the labels that count.

    None where no sample has two labels, or all labels are the same: chance then explains everything.
    """
    by_person = latest(rows)
    keys = sorted({key for labels in by_person.values() for key in labels})
    names = sorted({label for labels in by_person.values() for label in labels.values()})
    # Samples x people x labels: 1 where a person gave the label.
    given = np.array(
        [[[labels.get(key) == name for name in names] for labels in by_person.values()] for key in keys],
        dtype=np.int64,
    ).reshape(len(keys), len(by_person), len(names))
    given = given[given.sum(axis=(1, 2)) > 1]
    if len(given) == 0 or (given.sum(axis=(0, 1)) > 0).sum() < 2:
        return None
    figure, measure = (
        (cohen, "Cohen's kappa") if len(by_person) == 2 else (krippendorff, "Krippendorff's alpha")
    )
    return Agreement(
        measure=measure,
        people=len(by_person),
        samples=len(given),
        unanimous=int(((given.sum(axis=1) > 0).sum(axis=1) == 1).sum()),
        interval=bootstrap_rows(_of_samples(figure, given), len(given), resampling),
    )


def cohen(given: IntArray) -> float:
    """Cohen's kappa (1960), (p_o - p_e) / (1 - p_e): shares of equal labels, observed and by chance."""
    shares: FloatArray = given.mean(axis=0)
    observed, expected = given.prod(axis=1).sum(axis=-1).mean(), shares.prod(axis=0).sum()
    return float((observed - expected) / (1 - expected))


def krippendorff(given: IntArray) -> float:
    """Krippendorff's alpha (2004) for names, 1 - D_o / D_e, whoever labelled a sample.

    With n_uk labels k of sample u, m_u of it and n in all: D_o = sum over u of (m_u^2 - sum of n_uk^2) /
    (m_u - 1) / n, and D_e = (n^2 - sum of n_k^2) / (n (n - 1)).
    """
    counts = given.sum(axis=1)
    labels, totals = counts.sum(axis=1), counts.sum(axis=0)
    n = totals.sum()
    observed = ((labels**2 - (counts**2).sum(axis=1)) / (labels - 1)).sum() / n
    return float(1 - observed * n * (n - 1) / (n**2 - (totals**2).sum()))


def _of_samples(figure: Callable[[IntArray], float], given: IntArray) -> Callable[[IntArray], float]:
    def of_samples(samples: IntArray) -> float:
        drawn = given[samples]
        # Where a draw has one label alone, chance explains all: everyone agrees.
        return figure(drawn) if (drawn.sum(axis=(0, 1)) > 0).sum() > 1 else 1.0

    return of_samples
