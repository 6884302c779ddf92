"""Set a filter's threshold by a few labelled samples: some that should be kept, some that should not.

    shiftdata labels export build/shift/my_pets --labels keep,partly,drop --each 10 --out project
    shiftdata labels import project-1.json labels.csv
    python scripts/calibrate_filter.py build/shift/my_pets all to-start labels.csv --side most

The scores are those that the build published in `filters/<base>.parquet`. `labels.csv` is what
`shiftdata labels import` writes; your own table has the same columns, key,label,who,when (who and when may
be empty).
Samples that are labelled `partly` count as `--partly` says, or not at all; neither do those on which people
differ. How far every two agree is printed with the threshold, by Cohen's kappa. A distance needs
`--side most`. CNS-Bench labels 2.7 k pictures, and its code sets each threshold so that 90 % of those out of
class are left out: `--goal rejection --wanted 0.9`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from builders.filters.report import judged_rows
from builders.filters.rules import Bools, scores_of
from builders.filters.scorers import Floats
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.evaluation.labels import agreements, latest, read_labels, settled, with_interval
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import wilson
from shiftdata.tables import aligned

Goal: TypeAlias = Literal["f1", "accuracy", "precision", "rejection"]
Side: TypeAlias = Literal["least", "most"]
ROUNDING = 1e-12
LABELS = ("keep", "partly", "drop")


@dataclass(frozen=True, kw_only=True)
class Calibration(Record):
    """A threshold, and what it does to the labels it was chosen by (new samples fare a little worse)."""

    goal: Goal
    wanted: float | None
    side: Side
    threshold: float
    kept_good: int
    kept_bad: int
    dropped_good: int
    dropped_bad: int

    derived: ClassVar[tuple[str, ...]] = ("figures", "f1")

    @property
    def figures(self) -> dict[str, tuple[float, float, float]]:
        """Shares with Wilson's 95 % interval (share, low, high).

        "precision" is of good ones among the kept, "recall" of kept among the good, "rejection" of dropped
        among the bad, "accuracy" of right verdicts.
        """
        right = self.kept_good + self.dropped_bad
        parts = {
            "precision": (self.kept_good, self.kept_bad),
            "recall": (self.kept_good, self.dropped_good),
            "rejection": (self.dropped_bad, self.kept_bad),
            "accuracy": (right, self.kept_bad + self.dropped_good),
        }
        return {name: (yes / (yes + no), *wilson(yes, yes + no)) for name, (yes, no) in parts.items()}

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.kept_good / (2 * self.kept_good + self.kept_bad + self.dropped_good)

    def __str__(self) -> str:
        confusion = [
            ["should be kept", str(self.kept_good), str(self.dropped_good)],
            ["should be dropped", str(self.kept_bad), str(self.dropped_bad)],
        ]
        figures = [
            f"{name} {number(share)} [{number(low)}, {number(high)}]"
            for name, (share, low, high) in self.figures.items()
        ]
        bound = f"at {self.side} {self.threshold:.6g}"
        return "\n".join([aligned([bound, "kept", "dropped"], confusion), *figures, f"f1 {number(self.f1)}"])


def calibrate(
    scores: Mapping[str, float],
    labels: Mapping[str, Literal["keep", "drop"]],
    *,
    goal: Goal = "f1",
    wanted: float | None = None,
    side: Side = "least",
) -> Calibration:
    """The threshold on a score that reaches a goal on labelled samples; both are given by key.

    "f1" and "accuracy" are made as large as can be. Of "precision" and "rejection" at least `wanted` is
    reached, by the threshold that keeps most. `side` is "most" for a distance.
    """
    _check(goal, wanted, side)
    score, good = _labelled(scores, labels)
    signed = score if side == "least" else -score
    levels, place = np.unique(signed, return_inverse=True)
    kept_good, kept_bad = (
        np.cumsum(np.bincount(place[which], minlength=len(levels))[::-1])[::-1] for which in (good, ~good)
    )
    best = _choose(kept_good, kept_bad, goal, wanted)
    return Calibration(
        goal=goal,
        wanted=wanted,
        side=side,
        threshold=float(levels[best] if side == "least" else -levels[best]),
        kept_good=int(kept_good[best]),
        kept_bad=int(kept_bad[best]),
        dropped_good=int(kept_good[0] - kept_good[best]),
        dropped_bad=int(kept_bad[0] - kept_bad[best]),
    )


def _choose(good: NDArray[Any], bad: NDArray[Any], goal: Goal, wanted: float | None) -> int:
    """The level to keep from, by how many good and bad ones each keeps; of equals the one that keeps most."""
    if goal == "f1":
        return int(np.argmax(2 * good / (good + bad + good[0])))
    if goal == "accuracy":
        return int(np.argmax(good - bad))
    reached = good / (good + bad) if goal == "precision" else 1 - bad / bad[0]
    enough = np.flatnonzero(reached >= (wanted or 0) - ROUNDING)
    if not len(enough):
        raise InputError(
            f"no threshold reaches a {goal} of {wanted:g}, the best is {reached.max():.4f}: "
            "want less, label more, or take a better scorer"
        )
    return int(enough[0])


def _check(goal: Goal, wanted: float | None, side: Side) -> None:
    if goal not in ("f1", "accuracy", "precision", "rejection") or side not in ("least", "most"):
        raise InputError(
            f"goal {goal!r}, side {side!r}: goals are f1, accuracy, precision, rejection; sides least, most"
        )
    if (wanted is None) != (goal in ("f1", "accuracy")) or not (wanted is None or 0 < wanted <= 1):
        raise InputError(
            f"goal {goal!r} with wanted={wanted}: precision and rejection need a share above 0 and up to 1, "
            "f1 and accuracy take none"
        )


def _labelled(scores: Mapping[str, float], labels: Mapping[str, Any]) -> tuple[Floats, Bools]:
    """The score of each labelled sample, and whether it should be kept."""
    for key, verdict in labels.items():
        if verdict not in ("keep", "drop"):
            raise InputError(f"the label of {key!r} is {verdict!r}; it is 'keep' or 'drop'")
        if not math.isfinite(scores.get(key, math.nan)):
            raise InputError(f"{key!r} is labelled and has no score: take labels and scores of one dataset")
    absent = sorted({"keep", "drop"} - set(labels.values()))
    if absent:
        raise InputError(
            f"none of the {len(labels)} labels is {absent[0]!r}: a threshold needs samples of both kinds"
        )
    good = np.array([verdict == "keep" for verdict in labels.values()])
    return np.array([scores[key] for key in labels], dtype=np.float64), good


def _read(path: Path, partly: str | None) -> dict[str, Any]:
    """Return the verdict on each sample on which all agree; print how far they do and what is left out."""
    rows = read_labels(path, LABELS)
    for pair in agreements([(path.name, latest(rows))], LABELS):
        kappa, n = with_interval(*pair.kappa), pair.counts.sum()
        print(f"{pair.first} and {pair.second}: Cohen's kappa {kappa}, n = {n:,} labelled by both")
    labels, differ = settled(rows)
    verdicts = {key: (partly or label) if label == "partly" else label for key, label in labels.items()}
    clear = {key: verdict for key, verdict in verdicts.items() if verdict != "partly"}
    if differ or len(clear) < len(verdicts):
        print(f"left out: {len(verdicts) - len(clear):,} partly, {len(differ):,} on which people differ")
    return clear


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="a built dataset")
    parser.add_argument("base", help="which of its bases")
    parser.add_argument("scorer", help="the name of the score")
    parser.add_argument("labels", type=Path, help="a table of labels, as `shiftdata labels import` writes it")
    parser.add_argument("--partly", choices=("keep", "drop"), help="as what `partly` counts [not at all]")
    parser.add_argument("--goal", choices=("f1", "accuracy", "precision", "rejection"), default="f1")
    parser.add_argument("--wanted", type=float, help="the share that precision or rejection should reach")
    parser.add_argument("--side", choices=("least", "most"), default="least")
    options = parser.parse_args()
    try:
        rows = judged_rows(options.folder, options.base)
        scores = dict(zip(rows["key"].to_pylist(), scores_of(rows, options.scorer).tolist(), strict=True))
        labels = _read(options.labels, options.partly)
        print(calibrate(scores, labels, goal=options.goal, wanted=options.wanted, side=options.side))
    except ShiftdataError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
