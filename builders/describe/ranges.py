"""The interval of another network's accuracy, from a few networks with a few seeds each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Literal, TypeAlias

from shiftdata.data.format.records import Measure
from shiftdata.evaluation.metrics.statistics import Z, student_quantile

#: Split, method, set and kind of model: what networks and seeds repeat.
Cell: TypeAlias = tuple[str, str, str, str]
Figure: TypeAlias = Literal["mean", "worst"]
#: Of networks that fall into an interval.
LEVEL = 0.9
#: The weight of a dataset's pooled variance between networks, in degrees of freedom: its cells compare the
#: same two networks, so that a dozen of them are worth a few.
PRIOR = 4
#: The least standard deviation between networks, on the scale of `ranges`. Ours share a trainer and a first
#: layer with instance norm, and may agree by it. Ten trainings of networks with batch norm alone by another
#: trainer (scripts/bench/outside_networks.py) set it: 7 fall into their intervals with .06, 9 with .15.
TRAINERS = 0.15
SCRATCH = "scratch"


@dataclass(frozen=True)
class Range:
    """The accuracies that were measured, their middle, and the interval of another network of that kind.

    There is no interval if a single network was measured.
    """

    low: float
    high: float
    middle: float
    expected: tuple[float, float] | None


def cells_of(measures: Iterable[Measure]) -> dict[Cell, list[Measure]]:
    """Group the measures that differ by network and seed alone."""
    cells: dict[Cell, list[Measure]] = {}
    for by in measures:
        cells.setdefault((by.split, by.trained, by.set, by.mode), []).append(by)
    return cells


def ranges(measures: Sequence[Measure], figure: Figure) -> dict[Cell, Range]:
    """Return the range of each cell of a dataset.

    On the scale y = arcsin(sqrt(accuracy)), where the variance of a share over test rows does not depend on
    the share, training s of network n in a cell has y = middle + network(n) + seed(n, s) + rows. Of k
    networks with S seeds each, another network of one seed differs from their mean by the variance

        B (1 + 1 / k) + W (1 - 1 / S) + R.

    W is the variance between seeds of a network, pooled over the cells of a kind. B is that between the means
    of networks, which contains W / S, so that W (1 - 1 / S) completes the seed of the new network. R is the
    variance over origins of test rows: the rows are the same, but two networks that err on different ones
    look alike by chance.

    Two networks say little of B: a cell's own estimate (k - 1 degrees of freedom) is averaged with that of
    all cells, which counts `PRIOR` degrees (the moderated variance of G. K. Smyth, SAGMB 3, 2004), and the
    quantile is Student's. That of all cells is at least `TRAINERS` squared. A kind of a single network, as
    frozen features, borrows that of those from scratch.
    """
    cells = cells_of(measures)
    networks = {cell: _by_network(of, figure) for cell, of in cells.items()}
    between = {cell: variance(map(fmean, of.values())) for cell, of in networks.items() if len(of) > 1}
    within: dict[str, list[float]] = {}
    for cell, of in networks.items():
        within.setdefault(cell[3], []).extend(variance(ys) for ys in of.values() if len(ys) > 1)
    return {
        cell: _range(of, networks[cell], figure, _prior(between, cell[3]), fmean(within[cell[3]] or [0.0]))
        for cell, of in cells.items()
    }


def _prior(between: Mapping[Cell, float], kind: str) -> float | None:
    """Return the variance between networks of a kind, or of those from scratch; None without two of them."""
    same = [value for cell, value in between.items() if cell[3] == kind]
    pooled = same or [value for cell, value in between.items() if cell[3] == SCRATCH]
    return max(TRAINERS**2, fmean(pooled)) if pooled else None


def _by_network(measures: Sequence[Measure], figure: Figure) -> dict[str, list[float]]:
    networks: dict[str, list[float]] = {}
    for by in measures:
        networks.setdefault(by.network, []).append(_angle(getattr(by, figure)[0]))
    return networks


def _range(
    measures: Sequence[Measure],
    networks: Mapping[str, Sequence[float]],
    figure: Figure,
    prior: float | None,
    within: float,
) -> Range:
    shares = [getattr(by, figure) for by in measures]
    measured = [share for share, _, _ in shares]
    means = [fmean(ys) for ys in networks.values()]
    middle = fmean(means)
    expected = None
    if prior is not None:
        k, seeds = len(means), min(map(len, networks.values()))
        own = variance(means) if k > 1 else 0.0
        between = (PRIOR * prior + (k - 1) * own) / (PRIOR + k - 1)
        rows = fmean(((_angle(high) - _angle(low)) / (2 * Z)) ** 2 for _, low, high in shares)
        spread = math.sqrt(between * (1 + 1 / k) + within * (1 - 1 / seeds) + rows)
        reach = student_quantile(LEVEL, PRIOR + k - 1) * spread
        expected = _share(middle - reach), _share(middle + reach)
    return Range(min(measured), max(measured), _share(middle), expected)


def _angle(share: float) -> float:
    return math.asin(math.sqrt(share))


def _share(angle: float) -> float:
    return math.sin(min(max(angle, 0.0), math.pi / 2)) ** 2
