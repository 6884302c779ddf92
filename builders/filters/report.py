"""Reports on filters, from the scores and verdicts of every rendered sample: counts, sliders, curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image

from builders.filters.rules import SCORE, scores_of
from builders.filters.scorers import Floats
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.charts import drawn_figure, new_figure
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import Z
from shiftdata.tables import aligned
from shiftdata.untrusted.parquet import read_parquet

#: The stages of CNS-Bench's table 4, and the last one, which it does not count.
STAGES = {"base": "(ii) base", "easy": "(iii) easy", "passes": "(iv) pass", "kept": "kept"}
MOST_NAMES = 10


def judged_rows(folder: Path, base: str) -> pa.Table:
    """The scores and verdicts of every rendered sample of a base of a built dataset, kept or not."""
    path = folder / f"filters/{base}.parquet"
    if not path.is_file():
        known = sorted(found.stem for found in folder.glob("filters/*.parquet"))
        raise not_found("filtered base", base, known, f"It was asked of {folder}.")
    return read_parquet(path)


@dataclass(frozen=True, eq=False)
class Stages(Record):
    """The number of samples left after each stage (row) at each severity (column).

    (iii) counts the samples of (ii) that need no test, (iv) these and the ones that pass theirs. `holes`
    names the trajectories that were not rendered at every severity.
    """

    stages: tuple[str, ...]
    severities: tuple[float, ...]
    counts: NDArray[np.int64]
    holes: tuple[str, ...]

    @classmethod
    def of(cls, judged: pa.Table) -> Stages:
        severity = judged["severity"].to_numpy()
        steps, step = np.unique(severity, return_inverse=True)
        names = [name for name in STAGES if name in judged.column_names]
        left = [np.ones(len(judged), bool), *(judged[name].to_numpy() for name in names)]
        counts = np.stack([np.bincount(step[alive], minlength=len(steps)) for alive in left])
        rendered = judged.group_by("trajectory").aggregate([("severity", "count")])
        short = rendered.filter(pc.less(rendered["severity_count"], len(steps)))["trajectory"]
        stages = ("(i) rendered", *(STAGES[name] for name in names))
        return cls(stages, tuple(steps.tolist()), counts, tuple(sorted(short.to_pylist())))

    def __str__(self) -> str:
        columns = zip(self.severities, self.counts.T.tolist(), strict=True)
        rows = [[f"{step:g}", *(f"{count:,}" for count in counts)] for step, counts in columns]
        listed = _listed("not rendered at every severity", self.holes)
        return "\n".join([aligned(["severity", *self.stages], rows), *listed])


@dataclass(frozen=True, eq=False)
class SliderReport(Record):
    """Spearman's correlation of a score with severity along each trajectory, and those `below` the least.

    It is not defined where the score never changes: such a slider does nothing, and is named too.
    """

    scorer: str
    least: float
    trajectories: tuple[str, ...]
    correlation: Floats

    derived: ClassVar[tuple[str, ...]] = ("below",)

    @property
    def below(self) -> tuple[str, ...]:
        fine = np.nan_to_num(self.correlation, nan=-np.inf) >= self.least
        return tuple(name for name, good in zip(self.trajectories, fine, strict=True) if not good)

    def __str__(self) -> str:
        found = self.correlation[np.isfinite(self.correlation)]
        mean = number(float(found.mean())) if len(found) else "-"
        line = f"{self.scorer}: rank correlation with severity {mean} in {len(found):,} trajectories"
        return "\n".join([line, *_listed(f"below {self.least:g}", self.below)])


def slider_report(judged: pa.Table, scorer: str, least: float = 0.9) -> SliderReport:
    """The report of every trajectory that was rendered at every severity, kept or not."""
    rows, scores = _by_trajectory(judged, scorer)
    below = (scores[:, :, None] > scores[:, None, :]).sum(axis=2)
    ranks = below + (scores[:, :, None] == scores[:, None, :]).sum(axis=2) / 2
    ranks -= ranks.mean(axis=1, keepdims=True)
    steps = np.arange(scores.shape[1]) - (scores.shape[1] - 1) / 2
    lengths = np.linalg.norm(ranks, axis=1) * np.linalg.norm(steps)
    correlation = np.divide(ranks @ steps, lengths, out=np.full(len(ranks), np.nan), where=lengths > 0)
    return SliderReport(scorer, least, tuple(rows["trajectory"].to_pylist()), correlation.round(12))


@dataclass(frozen=True, eq=False)
class DeltaCurves(Record):
    """score(severity) - score(0) of each shift (row) at each severity (column): CNS-Bench, A.1.2.

    Means over `n` trajectories, with 95 % intervals in which those of one origin count as one draw.
    """

    scorer: str
    severities: tuple[float, ...]
    shifts: tuple[str, ...]
    mean: Floats
    low: Floats
    high: Floats
    n: tuple[int, ...]


def delta_curves(judged: pa.Table, scorer: str) -> DeltaCurves:
    """The curves of the trajectories of some judged rows; filter the rows to compare kept and left out."""
    rows, scores = _by_trajectory(judged, scorer)
    delta = scores - scores[:, :1]
    shift, origin = (rows[name].to_numpy(zero_copy_only=False) for name in ("nuisance", "origin"))
    shifts, n = np.unique(shift, return_counts=True)
    found = [_mean_and_half(delta[shift == name], origin[shift == name]) for name in shifts]
    mean, half = (np.stack(part) for part in zip(*found, strict=True))
    severities = tuple(np.unique(judged["severity"].to_numpy()).tolist())
    names, counts = tuple(shifts.tolist()), tuple(n.tolist())
    return DeltaCurves(scorer, severities, names, mean, mean - half, mean + half, counts)


def overview(judged: pa.Table) -> Image.Image:
    """A chart of the stages, and of every score over all that was rendered, side by side."""
    names = [column.removeprefix(SCORE) for column in judged.column_names if column.startswith(SCORE)]
    figure = new_figure(4 * (1 + len(names)), 4)
    first, *others = figure.subplots(1, 1 + len(names), squeeze=False)[0]
    stages = Stages.of(judged)
    width = 0.8 * min(np.diff(stages.severities), default=1) / len(stages.stages)
    for place, (stage, counts) in enumerate(zip(stages.stages, stages.counts, strict=True)):
        first.bar(np.array(stages.severities) + width * place, counts, width, label=stage)
    first.set_title("samples left by severity")
    for axes, name in zip(others, names, strict=True):
        curves = delta_curves(judged, name)
        for shift, mean, low, high in zip(curves.shifts, curves.mean, curves.low, curves.high, strict=True):
            axes.plot(curves.severities, mean, ".-", label=shift)
            axes.fill_between(curves.severities, low, high, alpha=0.2)
        axes.set_title(f"{name}, change from 0")
    for axes in (first, *others):
        axes.legend(fontsize=7, loc="upper right")  # "best" warns where a machine is busy
    return drawn_figure(figure, 80)


def _by_trajectory(judged: pa.Table, scorer: str) -> tuple[pa.Table, Floats]:
    """A row a whole trajectory, in order of their names, and its scores, a column a severity."""
    steps = len(np.unique(judged["severity"].to_numpy()))
    ordered = judged.sort_by([("trajectory", "ascending"), ("severity", "ascending")])
    names = ordered["trajectory"].to_numpy(zero_copy_only=False)
    _, place, sizes = np.unique(names, return_inverse=True, return_counts=True)
    whole = ordered.filter(pa.array((sizes == steps)[place]))
    if not len(whole):
        raise InputError(f"{scorer}: there is no trajectory that was rendered at every severity")
    return whole.take(np.arange(0, len(whole), steps)), scores_of(whole, scorer).reshape(-1, steps)


def _mean_and_half(delta: Floats, origin: NDArray[np.str_]) -> tuple[Floats, Floats]:
    mean = delta.mean(axis=0)
    names, code = np.unique(origin, return_inverse=True)
    sums = np.zeros((len(names), delta.shape[1]))
    np.add.at(sums, code, delta - mean)
    spare = len(names) - 1
    variance = np.square(sums).sum(axis=0) * len(names) / spare if spare else np.full(len(mean), np.nan)
    return mean, Z * np.sqrt(variance) / len(delta)


def _listed(what: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return [f"{what} ({len(names):,}): {', '.join(names[:MOST_NAMES])}{more}"]
