"""Set a filter's threshold by a few labelled samples: some that should be kept, some that should not.

    python scripts/calibrate_filter.py build/shift/my_pets all to-start labels.csv --side most

The scores are those that the build published in `filters/<base>.parquet`. `labels.csv` has the columns `key`
and `label`: keep, partly or drop. Samples that are labelled `partly` count as `--partly` says, or not at all;
neither do those with different labels. A distance needs `--side most`. CNS-Bench labels 2.7 k pictures, and
its code sets each threshold so that 90 % of those out of class are left out: `--rejection 0.9`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from builders.filters.report import judged_rows
from builders.filters.rules import scores_of
from builders.shifts.styles.listed import read_rows
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.metrics.statistics import wilson
from shiftdata.tables import aligned

Side: TypeAlias = Literal["least", "most"]
ROUNDING = 1e-12
LABELS = ("keep", "partly", "drop")


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A threshold, and what it does to the labels it was chosen by (new samples fare a little worse)."""

    side: Side
    threshold: float
    kept_good: int
    kept_bad: int
    dropped_good: int
    dropped_bad: int

    @property
    def figures(self) -> dict[str, tuple[float, float, float]]:
        """Shares with Wilson's 95 % interval (share, low, high).

        "precision" is of good ones among the kept, "recall" of kept among the good, "rejection" of dropped
        among the bad.
        """
        parts = {
            "precision": (self.kept_good, self.kept_bad),
            "recall": (self.kept_good, self.dropped_good),
            "rejection": (self.dropped_bad, self.kept_bad),
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
    labels: Mapping[str, str],
    *,
    rejection: float | None = None,
    side: Side = "least",
) -> Calibration:
    """The threshold of the largest f1 on samples labelled keep or drop; scores and labels are given by key.

    With `rejection`, the threshold that keeps most of those that drop at least this share of the bad ones.
    """
    for key in labels:
        if not math.isfinite(scores.get(key, math.nan)):
            raise InputError(f"{key!r} is labelled and has no score: take labels and scores of one dataset")
    if absent := sorted({"keep", "drop"} - set(labels.values())):
        raise InputError(
            f"none of the {len(labels)} labels is {absent[0]!r}: a threshold needs samples of both kinds"
        )
    good = np.array([label == "keep" for label in labels.values()])
    sign = 1 if side == "least" else -1
    levels, place = np.unique([sign * scores[key] for key in labels], return_inverse=True)
    # By level, how many good and bad samples a threshold there keeps.
    kept_good, kept_bad = (
        np.cumsum(np.bincount(place[mask], minlength=len(levels))[::-1])[::-1] for mask in (good, ~good)
    )
    if rejection is None:
        best = int(np.argmax(2 * kept_good / (kept_good + kept_bad + kept_good[0])))
    else:
        enough = np.flatnonzero(1 - kept_bad / kept_bad[0] >= rejection - ROUNDING)
        if not len(enough):
            reached = 1 - kept_bad[-1] / kept_bad[0]
            raise InputError(
                f"no threshold reaches a rejection of {rejection:g}, the best is {reached:.4f}: "
                "want less, label more, or take a better scorer"
            )
        best = int(enough[0])
    return Calibration(
        side=side,
        threshold=float(sign * levels[best]),
        kept_good=int(kept_good[best]),
        kept_bad=int(kept_bad[best]),
        dropped_good=int(kept_good[0] - kept_good[best]),
        dropped_bad=int(kept_bad[0] - kept_bad[best]),
    )


def _read(path: Path, partly: str | None) -> dict[str, str]:
    """Return the verdict on each sample whose labels agree; print how many are left out."""
    given: dict[str, set[str]] = {}
    for place, row in read_rows(path, ("key", "label")):
        if row["label"] not in LABELS:
            raise InputError(
                f"{path}, {place}: the label {row['label']!r:.80} is not one of {', '.join(LABELS)}"
            )
        given.setdefault(row["key"], set()).add(row["label"])
    agreed = {key: labels.pop() for key, labels in given.items() if len(labels) == 1}
    verdicts = {key: (partly or label) if label == "partly" else label for key, label in agreed.items()}
    clear = {key: verdict for key, verdict in verdicts.items() if verdict != "partly"}
    if len(clear) < len(given):
        partial, differ = len(agreed) - len(clear), len(given) - len(agreed)
        print(f"left out: {partial:,} partly, {differ:,} with different labels")
    return clear


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="a built dataset")
    parser.add_argument("base", help="which of its bases")
    parser.add_argument("scorer", help="the name of the score")
    parser.add_argument("labels", type=Path, help="a table with the columns key and label")
    parser.add_argument("--partly", choices=("keep", "drop"), help="as what `partly` counts [not at all]")
    parser.add_argument("--rejection", type=float, help="drop this share of the bad ones [the largest f1]")
    parser.add_argument("--side", choices=("least", "most"), default="least")
    options = parser.parse_args()
    try:
        rows = judged_rows(options.folder, options.base)
        scores = dict(zip(rows["key"].to_pylist(), scores_of(rows, options.scorer).tolist(), strict=True))
        labels = _read(options.labels, options.partly)
        print(calibrate(scores, labels, rejection=options.rejection, side=options.side))
    except ShiftdataError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
