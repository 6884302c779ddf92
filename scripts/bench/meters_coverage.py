"""How far the meters are off, and how often their intervals hold the truth, where the truth is known.

    python scripts/bench/meters_coverage.py [--draws 40] [--n 500 2000] [--dimensions 2 20] [--classes 2 4]
        [--noise .1]

Concept shift: labels are the sectors of a plane in which a row lies, 2 (half-planes) or more; the target's
sectors are turned until a given share of normal rows has another label. "density" moves the target's rows by
1 along the plane and doubles their scale in a third dimension: the shares over source and target then differ.
With noise, a share of labels is drawn at random; the truth stays that of the sectors.
Covariate shift: normal rows whose mean is moved, so that a half-space reaches the total variation. A line has
the truth, the mean estimate, the share of draws whose interval holds the truth, the mean width of intervals.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import Pool
from typing import TypeAlias

import numpy as np
from scipy.stats import norm

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.evaluation.meters import concept_shift_on_features, covariate_shift
from shiftdata.evaluation.metrics import Interval

SHARES = (0.0, 0.1, 0.25, 0.5, 1.0)
MEANS = (0.0, 0.5, 1.0, 2.0)
MANY = 1_000_000
#: From the number of a draw to intervals by name.
Draw: TypeAlias = Callable[[int], dict[str, Interval]]


def sectors(rows: FloatArray, classes: int, angle: float) -> IntArray:
    """The sector of the first two features, of sectors turned by an angle."""
    middles = angle + 2 * np.pi * np.arange(classes) / classes
    return np.asarray((rows[:, :2] @ np.stack([np.cos(middles), np.sin(middles)])).argmax(axis=1))


def domains(generator: np.random.Generator, n: int, d: int, density: bool) -> tuple[FloatArray, FloatArray]:
    """Normal rows of the source and of the target."""
    source, target = generator.normal(size=(2, n, d))
    if density:
        target[:, 0] += 1
        target[:, 2:3] *= 2
    return source, target


def concept(
    n: int, d: int, classes: int, share: float, density: bool, noise: float, seed: int
) -> dict[str, Interval]:
    """The meter on one draw."""
    generator = np.random.default_rng(seed)
    source, target = domains(generator, n, d, density)
    clean = sectors(source, classes, 0), sectors(target, classes, 2 * np.pi * share / classes)
    labels = [np.where(generator.random(n) < noise, generator.integers(classes, size=n), of) for of in clean]
    found = concept_shift_on_features(source, labels[0], target, labels[1], seed=seed)
    return {"min": found.minimum, "max": found.maximum, "source": found.on_source, "target": found.on_target}


def covariate(n: int, d: int, mean: float, seed: int) -> dict[str, Interval]:
    """The meter on one draw."""
    source, target = domains(np.random.default_rng(seed), n, d, density=False)
    target[:, 0] += mean
    return {"covariate": covariate_shift(source, target, seed=seed).interval}


def cases(
    sizes: list[int], dimensions: list[int], classes: list[int], noise: float
) -> Iterator[tuple[str, Draw, dict[str, float]]]:
    """A name, how to draw, and the true values."""
    for n, d in itertools.product(sizes, dimensions):
        for k, density, share in itertools.product(classes, (False, True), SHARES):
            both = domains(np.random.default_rng(0), MANY, min(d, 3), density)
            turned = 2 * np.pi * share / k
            differ = [float(np.mean(sectors(rows, k, 0) != sectors(rows, k, turned))) for rows in both]
            truth = {"min": min(differ), "max": max(differ), "source": differ[0], "target": differ[1]}
            name = f"n={n} d={d} classes={k}{' density' if density else ''}"
            yield name, partial(concept, n, d, k, share, density, noise), truth
        for mean in MEANS:
            truth = {"covariate": float(2 * norm.cdf(mean / 2) - 1)}
            yield f"n={n} d={d} mean={mean:g}", partial(covariate, n, d, mean), truth


def main() -> None:
    """Print a line for each case and figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--n", type=int, nargs="+", default=[500, 2000], help="rows of a side")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 20])
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 4])
    parser.add_argument(
        "--noise", type=float, default=0.0, help="the share of labels that are drawn at random"
    )
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    print(f"{'':<32}{'figure':<10} truth  mean of {options.draws:<4} covered  width")
    with Pool(options.processes) as pool:
        for name, draw, truth in cases(options.n, options.dimensions, options.classes, options.noise):
            drawn = pool.map(draw, range(options.draws), chunksize=1)
            for figure, true in truth.items():
                found = [intervals[figure] for intervals in drawn]
                covered = np.mean([one.low - 1e-9 <= true <= one.high + 1e-9 for one in found])
                mean, width = (np.mean([value(one) for one in found]) for value in (_estimate, _width))
                print(
                    f"{name:<32}{figure:<10} {true:.3f}  {mean:.3f}        {covered:.2f}     {width:.3f}",
                    flush=True,
                )


def _estimate(interval: Interval) -> float:
    return interval.estimate


def _width(interval: Interval) -> float:
    return interval.high - interval.low


if __name__ == "__main__":
    main()
