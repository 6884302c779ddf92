"""Accuracy on the line: shifted against clean accuracy of many models (Miller et al., ICML 2021).

Height above the line is effective robustness (Taori et al., NeurIPS 2020). How often pairs of models agree
estimates shifted accuracy without shifted labels (Baek et al., NeurIPS 2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from shiftdata.data.arrays import FloatArray, as_floats, as_ids, as_numbers, check_lengths, one_of
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.bootstrap import DEFAULT, Interval, Resampling
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import wilson
from shiftdata.stable import rng
from shiftdata.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL import Image

Function: TypeAlias = Callable[[Any], FloatArray]
_NORMAL = NormalDist()
#: What an axis shows of an accuracy, and the way back.
AXES: Mapping[str, tuple[Function, Function]] = {
    "probit": (np.vectorize(_NORMAL.inv_cdf, otypes=[float]), np.vectorize(_NORMAL.cdf, otypes=[float])),
    "logit": (lambda p: np.log(p / (1 - p)), lambda x: 1 / (1 + np.exp(-x))),
    "linear": (np.asarray, np.asarray),
}
SIDES = ("clean", "shifted")
#: Models that a line needs: through two it fits whatever they are.
FEWEST = 3
#: R^2 of the pairs' agreement from which Baek et al. trust the estimate (section 4).
TRUSTED = 0.95
CLIPPED = "Accuracies of 0 or 1 have no place on the axes: they are half a row away from there."


@dataclass(frozen=True)
class Point(Record):
    """A model: its accuracy on clean and on shifted rows, and the numbers of these.

    Where several rows are of one origin, `effective` has as many independent rows as are as uncertain.
    """

    name: str
    clean: float
    shifted: float
    n_clean: float
    n_shifted: float
    family: str = ""
    effective: tuple[float, float] | None = None

    @property
    def sizes(self) -> tuple[float, float]:
        return self.effective or (self.n_clean, self.n_shifted)

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """Wilson's interval of the clean and of the shifted accuracy."""
        pairs = zip((self.clean, self.shifted), self.sizes, strict=True)
        return [wilson(share * n, n) for share, n in pairs]

    @classmethod
    def of(cls, name: str, clean: Any, shifted: Any, family: str = "") -> Point:
        """From whether each row is right, as 0 and 1; or from pairs (right rows, rows).

        >>> Point.of("vgg16", (9, 10), [1, 0, 1, 1])
        Point(name='vgg16', clean=0.9, shifted=0.75, n_clean=10, n_shifted=4, family='', effective=None)
        """
        sides = [_share(f"{side} of {name}", of) for side, of in (("clean", clean), ("shifted", shifted))]
        (right, n), (right_shifted, n_shifted) = sides
        return cls(name, right / n, right_shifted / n_shifted, n, n_shifted, family)


def _share(name: str, given: Any) -> tuple[float, float]:
    if not isinstance(given, tuple):
        hits = as_ids(name, given, 2)
        given = int(hits.sum()), len(hits)
    if len(given) != 2 or not 0 <= given[0] <= given[1] or given[1] < 1:
        raise InputError(f"{name}: give 0 or 1 for each row, or (right rows, rows), got {given}")
    right, n = given
    return right, n


@dataclass(frozen=True, eq=False)
class Line(Record):
    """The line through models, and how far each is above it.

    `expected` is the shifted accuracy of a model of the same clean accuracy on the line, `robustness` the
    difference, effective robustness. Its interval has both the model's own rows and the choice of models:
    replicates draw the models of the fit, and accuracies from Jeffreys' posterior of each model. Models that
    are judged on the same rows share their luck, so the interval is rather too wide. `band` has the ends of
    the interval of the line at the clean accuracies `grid`. `fitted` are the models of the fit.
    """

    axes: str
    points: tuple[Point, ...]
    fitted: tuple[bool, ...]
    slope: Interval
    intercept: Interval
    r2: float
    expected: FloatArray
    robustness: tuple[Interval, ...]
    grid: FloatArray
    band: FloatArray
    clipped: int = 0

    omitted: ClassVar[tuple[str, ...]] = ("grid", "band")

    def __call__(self, clean: Any) -> FloatArray:
        """Return the shifted accuracy on the line for clean accuracies between 0 and 1."""
        forward, back = AXES[self.axes]
        return back(self.slope.estimate * forward(clean) + self.intercept.estimate)

    def table(self, title: str = "Accuracy on the line", sides: Sequence[str] = SIDES) -> Table:
        """A line for each model, the highest above the line first."""
        rows = zip(self.points, self.fitted, self.expected.tolist(), self.robustness, strict=True)
        body = []
        for point, fitted, expected, above in sorted(rows, key=lambda row: -row[3].estimate):
            numbers = point.clean, point.shifted, *point.intervals[1], expected
            clean, shifted, low, high, line = (number(100 * value, 1) for value in numbers)
            rho = [f"{100 * value:+.1f}" for value in (above.estimate, above.low, above.high)]
            name = point.name if fitted else f"{point.name} (not in the fit)"
            body.append([name, clean, shifted, f"{low} to {high}", line, rho[0], f"{rho[1]} to {rho[2]}"])
        header = ["model", *sides, "95 % interval", "on the line", "above it", "95 % interval of that"]
        return Table.plain(title, header, body, self.notes, figure=partial(self.figure, sides))

    @property
    def notes(self) -> tuple[str, ...]:
        slope = f"{number(self.slope.estimate, 2)} ({_ends(self.slope)})"
        fit = f"{self.axes} axes, {sum(self.fitted):,} models: slope {slope}, R² {number(self.r2, 3)}"
        few = ["Few models: the interval of the line is rough."] if sum(self.fitted) < 10 else []
        return (f"Least squares in {fit}.", *few, *([CLIPPED] if self.clipped else []))

    def __str__(self) -> str:
        return self.table().text()

    def figure(self, sides: Sequence[str] = SIDES, width: float = 7) -> Figure:
        from shiftdata.evaluation.line_chart import line_figure

        return line_figure(self, sides, width)

    def picture(self, *sides: str) -> Image.Image:
        """Draw the models, their intervals, the line with its band, and where both accuracies are equal."""
        from shiftdata.evaluation.charts import drawn_figure

        return drawn_figure(self.figure(sides or SIDES))


def _ends(interval: Interval) -> str:
    return f"{number(interval.low, 2)} to {number(interval.high, 2)}"


def accuracy_line(
    points: Sequence[Point],
    *,
    axes: str = "probit",
    families: Sequence[str] = (),
    resampling: Resampling = DEFAULT,
) -> Line:
    """Fit the line through models by least squares in the axes, and measure each model's height above it.

    Taori et al. fit the line through standard models alone and measure others against it: name these
    `families`.

    >>> right = (90, 80), (80, 66), (70, 53)
    >>> line = accuracy_line([Point.of(f"{c}", (c, 100), (s, 100)) for c, s in right])
    >>> round(line.slope.estimate, 2), round(line.r2, 3), [round(of.estimate, 3) for of in line.robustness]
    (1.01, 0.999, [-0.001, 0.004, -0.002])
    """
    one_of("axes", axes, tuple(AXES))
    fitted = np.array([not families or point.family in families for point in points], bool)
    shares = np.array([(point.clean, point.shifted) for point in points]).reshape(-1, 2)
    sizes = np.array([(point.n_clean, point.n_shifted) for point in points]).reshape(-1, 2)
    if fitted.sum() < FEWEST or np.ptp(shares[fitted, 0]) == 0:
        raise InputError(
            f"a line needs at least {FEWEST} models of different clean accuracy, got {int(fitted.sum())} "
            f"with {len(np.unique(shares[fitted, 0]))}: give more models"
        )
    clipped = _clipped(shares, sizes)
    x, y = AXES[axes][0](clipped).T
    slope, intercept = _least_squares(x[fitted], y[fitted])
    grid = np.linspace(clipped[:, 0].min(), clipped[:, 0].max(), 41)
    count = int(fitted.sum())
    draws = rng(resampling.seed, "metrics", "line").integers(0, count, (resampling.replicates, count))
    slopes, intercepts = _least_squares(x[fitted][draws], y[fitted][draws])
    heights, band = _drawn_heights(points, sizes, slopes, intercepts, AXES[axes], grid, resampling)
    expected = AXES[axes][1](slope * x + intercept)
    method = f"models and rows drawn, {resampling.replicates:,} replicates"

    def interval(value: Any, drawn: FloatArray) -> Interval:
        low, high = _quantiles(drawn, resampling.level).tolist()
        return Interval(float(value), low, high, method, resampling.level)

    r2 = float(np.corrcoef(x[fitted], y[fitted])[0, 1] ** 2) if np.ptp(y[fitted]) else math.nan
    return Line(
        axes, tuple(points), tuple(fitted.tolist()), interval(slope, slopes), interval(intercept, intercepts),
        r2, expected, tuple(map(interval, shares[:, 1] - expected, heights.T)), grid,
        _quantiles(band, resampling.level), int((clipped != shares).sum()),
    )  # fmt: skip


def _clipped(shares: FloatArray, sizes: FloatArray) -> FloatArray:
    return np.clip(shares, 0.5 / sizes, 1 - 0.5 / sizes)


def _least_squares(x: FloatArray, y: FloatArray) -> tuple[Any, Any]:
    """Slope and intercept along the last axis; nan where x does not vary."""
    centred = x - x.mean(-1, keepdims=True)
    squares = (centred**2).sum(-1)
    unknown = np.full(np.shape(squares), np.nan)
    slope = np.divide((centred * y).sum(-1), squares, out=unknown, where=squares > 1e-12)
    return slope, y.mean(-1) - slope * x.mean(-1)


def _drawn_heights(
    points: Sequence[Point], sizes: FloatArray, slopes: FloatArray, intercepts: FloatArray,
    functions: tuple[Function, Function], grid: FloatArray, resampling: Resampling,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Replicates of each model's height above the line, and of the line over the grid."""
    effective = np.array([point.sizes for point in points])
    right = np.array([(point.clean, point.shifted) for point in points]) * effective
    generator = rng(resampling.seed, "metrics", "line", "rows")
    drawn = generator.beta(right + 0.5, effective - right + 0.5, (len(slopes), *right.shape))
    forward, back = functions
    x = forward(_clipped(drawn, sizes)[..., 0])
    heights = drawn[..., 1] - back(slopes[:, None] * x + intercepts[:, None])
    return heights, back(slopes[:, None] * forward(grid) + intercepts[:, None])


def _quantiles(drawn: FloatArray, level: float) -> FloatArray:
    """The ends of the interval; a replicate that drew a single model has no line, and is left out."""
    tail = (1 - level) / 2
    return np.asarray(np.nanquantile(drawn, [tail, 1 - tail], axis=0))


@dataclass(frozen=True, eq=False)
class Agreement(Record):
    """Shifted accuracy estimated from how often pairs of models agree, without labels of shifted rows.

    `aline_s` takes the line of the pairs' agreement for that of accuracy, `aline_d` also corrects
    each model by its pairs. Both are trusted by their authors where `r2` of the pairs is above .95.
    """

    names: tuple[str, ...]
    axes: str
    slope: float
    intercept: float
    r2: float
    clean: FloatArray
    aline_s: FloatArray
    aline_d: FloatArray
    true: FloatArray | None = None

    @property
    def errors(self) -> tuple[float, float]:
        """The mean absolute error of both estimates; nan without the truth."""
        if self.true is None:
            return math.nan, math.nan
        s, d = (float(np.abs(of - self.true).mean()) for of in (self.aline_s, self.aline_d))
        return s, d

    def table(self, title: str = "Shifted accuracy from agreement, without labels") -> Table:
        """Every model's estimates, next to the truth where it is known."""
        columns = [self.clean, self.aline_s, self.aline_d, *([] if self.true is None else [self.true])]
        rows = zip(self.names, np.stack(columns, axis=1).tolist(), strict=True)
        body = [[name, *(number(100 * value, 1) for value in values)] for name, values in rows]
        pairs = len(self.names) * (len(self.names) - 1) // 2
        trust = "" if self.r2 > TRUSTED else f", below {TRUSTED}: the estimates are not to be trusted"
        notes = [f"Agreement of {pairs:,} pairs in {self.axes} axes: R² {number(self.r2, 3)}{trust}."]
        if self.true is not None:
            s, d = (number(100 * error, 2) for error in self.errors)
            notes.append(f"Mean absolute error, points: ALine-S {s}, ALine-D {d}.")
        header = ["model", "clean", "ALine-S", "ALine-D", "shifted"][: len(columns) + 1]
        return Table.plain(title, header, body, notes)


def agreement_line(
    clean: Any,
    shifted: Any,
    clean_accuracy: Any,
    *,
    names: Sequence[str] = (),
    axes: str = "probit",
    true: Any = None,
) -> Agreement:
    """Estimate shifted accuracies from predicted labels (models x rows) of clean and of shifted rows.

    With z of the axes and the fit z(agreement shifted) = a z(agreement clean) + b over pairs: ALine-S is
    z(accuracy shifted) = a z(accuracy clean) + b; ALine-D solves by least squares, for all pairs, mean of
    z(accuracy shifted) = z(agreement shifted) + a (mean of z(accuracy clean) - z(agreement clean)).
    """
    one_of("axes", axes, tuple(AXES))
    sides = [as_numbers(name, of, ndim=2) for name, of in (("clean", clean), ("shifted", shifted))]
    accuracy = as_floats("clean_accuracy", clean_accuracy)
    truth = None if true is None else as_floats("true", true)
    check_lengths(clean=sides[0], shifted=sides[1], clean_accuracy=accuracy)
    models = len(accuracy)
    if models < FEWEST:
        raise InputError(f"agreement needs at least {FEWEST} models, got {models}")
    forward, back = AXES[axes]
    rows = [of.shape[1] for of in sides]
    x, y = (forward(_clipped(_agreements(of), np.array(n))) for of, n in zip(sides, rows, strict=True))
    if np.ptp(x) == 0:
        raise InputError("every pair of models agrees on as many clean rows: give models that differ")
    slope, intercept = map(float, _least_squares(x, y))
    z = forward(_clipped(accuracy, np.array(rows[0])))
    first, second = np.triu_indices(models, 1)
    halves = np.zeros((len(x), models))
    halves[np.arange(len(x)), first] = halves[np.arange(len(x)), second] = 0.5
    solved = np.linalg.lstsq(halves, y + slope * (halves @ z - x), rcond=None)[0]
    names = tuple(names) or tuple(f"model {place}" for place in range(1, models + 1))
    r2 = float(np.corrcoef(x, y)[0, 1] ** 2) if np.ptp(y) else math.nan
    of_lines = back(slope * z + intercept), back(solved)
    return Agreement(names, axes, slope, intercept, r2, accuracy, *of_lines, truth)


def _agreements(predicted: Any) -> FloatArray:
    """The share of rows on which each pair of models agrees, in the order of `np.triu_indices`."""
    pairs = [(predicted[place + 1 :] == row).mean(axis=1) for place, row in enumerate(predicted[:-1])]
    return np.concatenate(pairs)
