"""Estimates of label shift where the truth is known: their L1 error, and how often their intervals hold it.

    python scripts/bench/label_shift.py [--worlds 120] [--rows 500 5000] [--resampled]

A world has 3, 5 or 10 Gaussian classes at random places, a hold-out of Dirichlet label shares (10 a class)
and a target of others (.3, .5, 1 or 3 a class), both of as many rows. The classifier is Bayes' rule on the
hold-out, its logits as they are, times 3 (overconfident) or times .4 (underconfident). `holds` is the share
of classes whose true share lies in its nominal 95 % interval, `least` that of the worst of 12 settings
(number of classes, how far they lie apart), `width` the mean of the intervals. With --resampled the target is
drawn with replacement from a tenth as many rows, which are its origins.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.evaluation.label_shift import EstimationError, estimate_marginal
from shiftdata.stable import rng
from shiftdata.tables import aligned

CLASSES, APART, ALPHAS = (3, 5, 10), (1.5, 2.5, 4.0, 6.0), (0.3, 0.5, 1.0, 3.0)
SCALES = {"calibrated": 1.0, "overconfident x3": 3.0, "underconfident": 0.4}
#: Estimators by what the table calls them.
ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "bbse": ("bbse", {}),
    "bbse, hard": ("bbse", {"hard": True}),
    "rlls": ("rlls", {}),
    "mlls": ("mlls", {}),
    "mlls, uncalibrated": ("mlls", {"calibration": None}),
    "mean": ("mean", {}),
}
Floats = NDArray[np.float64]


class World:
    """Logits and labels of a hold-out and a target, and the target's true label shares."""

    def __init__(self, seed: int, rows: int, resampled: bool) -> None:
        self.setting = CLASSES[seed % 3], APART[seed // 3 % 4]
        n_classes, apart = self.setting
        self.generator = rng(seed, "bench", "label-shift")
        places = self.generator.normal(size=(n_classes, n_classes))
        self.places = apart * places / np.linalg.norm(places, axis=1, keepdims=True)
        self.prior = self.generator.dirichlet(np.full(n_classes, 10.0))
        self.truth = self.generator.dirichlet(np.full(n_classes, self.generator.choice(ALPHAS)))
        self.source, self.labels = self.draw(self.prior, rows)
        self.origins = np.arange(rows)
        if resampled:  # shares are exact in expectation: classes are drawn first, then a row of the class
            pool, labels = self.draw(self.prior, max(rows // 10, 10 * n_classes))
            weights = self.truth[labels] / np.bincount(labels, minlength=n_classes)[labels]
            self.origins = self.generator.choice(len(pool), size=rows, p=weights / weights.sum())
            self.target = pool[self.origins]
        else:
            self.target = self.draw(self.truth, rows)[0]

    def draw(self, shares: Floats, rows: int) -> tuple[Floats, NDArray[np.int64]]:
        labels = self.generator.choice(len(shares), size=rows, p=shares)
        points = self.places[labels] + self.generator.normal(size=(rows, len(shares)))
        squares = ((points[:, None] - self.places) ** 2).sum(axis=2)
        return np.log(self.prior) - squares / 2, labels


def softmax(logits: Floats) -> Floats:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def outcome(world: World, scale: float, name: str) -> list[float]:
    """L1 error; shares in their intervals, mean width; seconds."""
    method, options = ESTIMATORS[name]
    source, target = softmax(world.source * scale), softmax(world.target * scale)
    start = time.perf_counter()
    found = estimate_marginal(method, source, world.labels, target, origins=world.origins, **options)
    truth, low, high = world.truth, found.low, found.high
    seconds = time.perf_counter() - start
    return [
        float(np.abs(found.marginal - truth).sum()),
        float(((low <= truth) & (truth <= high)).mean()),
        float((high - low).mean()),
        seconds,
    ]


def main() -> None:
    """Print a table for each number of rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=120)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--resampled", action="store_true")
    options = parser.parse_args()
    for rows in options.rows:
        results = defaultdict(list)
        for seed in range(options.worlds):
            world = World(seed, rows, options.resampled)
            for kind, scale in SCALES.items():
                for name in ESTIMATORS:
                    try:
                        results[name, kind].append((world.setting, outcome(world, scale, name)))
                    except EstimationError:  # a class without rows, or never predicted
                        continue
        lines = []
        for (name, kind), found in results.items():
            values = np.array([one for _, one in found])
            settings = sorted({setting for setting, _ in found})
            least = min(np.mean([one[1] for setting, one in found if setting == asked]) for asked in settings)
            error, holds, width, seconds = values.mean(axis=0)
            figures = [error, holds, least, width]
            lines.append([name, kind, str(len(found)), *(f"{one:.3f}" for one in figures), f"{seconds:.2f}"])
        print(f"{rows:,} rows of hold-out and target" + (", resampled" if options.resampled else ""))
        header = [
            "estimator",
            "classifier",
            "worlds",
            "L1 error",
            "holds",
            "least",
            "width",
            "s",
        ]
        print(aligned(header, lines), flush=True)


if __name__ == "__main__":
    main()
