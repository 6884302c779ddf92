"""What the meters fit: logistic regressions and pairs of half-spaces, on features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.evaluation.meters.sides import Fold, Mask
from shiftdata.extras import require

#: Components whose variance is below this share of the largest are rounding.
_RELATIVE_FLOOR = 1e-10

#: What `choose_penalty` tries.
PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_NEWTON_WEIGHTS = 256


@dataclass(frozen=True, kw_only=True)
class Linear:
    """A logistic regression on standardised rows; without a model it knows one class alone."""

    classes: IntArray
    scaling: Any = None
    model: Any = None

    def __call__(self, rows: FloatArray) -> IntArray:
        if self.model is None:
            return np.full(len(rows), self.classes[0])
        return np.asarray(self.model.predict(self.scaling.transform(rows)), np.int64)

    def likelihood(self, rows: FloatArray, codes: IntArray) -> float:
        """The log-likelihood of rows whose class was fitted on."""
        if self.model is None:
            return 0.0
        known = np.isin(codes, self.classes)
        chances = self.model.predict_proba(self.scaling.transform(rows[known]))
        place = np.searchsorted(self.classes, codes[known])
        # A probability that has become 0 counts as the smallest there is.
        return float(
            np.log(np.maximum(chances[np.arange(len(place)), place], np.finfo(np.float64).tiny)).sum()
        )


def fit_linear(rows: FloatArray, codes: IntArray, penalty: float, start: Linear | None = None) -> Linear:
    """Logistic regression on standardised rows: mean cross-entropy + penalty / 2 x the squared weights.

    The search starts from the weights of an earlier fit, if it is given and has the same classes.
    """
    classes = np.unique(codes)
    if len(classes) == 1:
        return Linear(classes=classes)
    # Of two classes scikit-learn fits one column of weights, twice as long as each of two columns.
    c = (2 if len(classes) == 2 else 1) / (len(rows) * penalty) if penalty else np.inf
    sklearn = require("sklearn.linear_model", "a logistic regression")
    scaling = require("sklearn.preprocessing", "a logistic regression").StandardScaler()
    # Newton's method is faster where its matrix, weights x weights, is small.
    few = penalty and rows.shape[1] * len(classes) <= _NEWTON_WEIGHTS
    solver = "newton-cholesky" if few else "lbfgs"
    model = sklearn.LogisticRegression(C=c, tol=1e-5, max_iter=1000, solver=solver, warm_start=True)
    if start is not None and np.array_equal(start.classes, classes):
        model.coef_, model.intercept_ = start.model.coef_, start.model.intercept_
    return Linear(classes=classes, scaling=scaling, model=model.fit(scaling.fit_transform(rows), codes))


def choose_penalty(rows: FloatArray, codes: IntArray, folds: Sequence[Fold]) -> float:
    """The penalty of largest likelihood on the rows that two folds have not seen.

    Penalties are tried from the largest on, until two in a row are no better than the best.
    """
    best, chosen, worse = -np.inf, PENALTIES[0], 0
    starts: Sequence[Linear | None] = (None, None)
    for penalty in PENALTIES:
        starts = fits = [
            fit_linear(rows[fold.seen], codes[fold.seen], penalty, start)
            for fold, start in zip(folds[:2], starts, strict=True)
        ]
        likelihood = sum(
            fit.likelihood(rows[fold.unseen], codes[fold.unseen])
            for fold, fit in zip(folds[:2], fits, strict=True)
        )
        if likelihood > best:
            best, chosen, worse = likelihood, penalty, 0
        elif worse == 1:
            break
        else:
            worse += 1
    return chosen


def fit_half_spaces(
    rows: FloatArray, target: Mask, *, components: int, penalty: float
) -> Callable[[FloatArray], Mask]:
    """Fit two half-spaces; the result says of each row whether it is inside one and outside the other.

    They disagree on the source as often, and on the target as seldom, as they can. With h1, h2 = +1 or -1 on
    the sides of a plane each, the difference of their disagreement on source and target is that of the means
    of -h1 h2 / 2. The search takes tanh for the sign, which makes it smooth, on rows that are whitened along
    their largest principal components, both sides weighing the same.
    """
    minimize = require("scipy.optimize", "covariate shift").minimize
    shares = np.where(target, 1 / target.sum(), 1 / (~target).sum())
    centre, whiten = _whitening(rows, shares / 2, components)
    if not whiten.size:  # all rows are the same
        return lambda some: np.zeros(len(some), np.bool_)
    white = (rows - centre) @ whiten
    signed = np.where(target, -shares, shares)  # sum over source minus sum over target, of means
    padded = np.column_stack([white, np.ones(len(white))])

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        planes = flat.reshape(-1, 2)
        soft = np.tanh(padded @ planes)
        weights = np.concatenate([planes[:-1], np.zeros((1, 2))])  # the bias is free
        value = float(signed @ soft.prod(axis=1)) / 2 + penalty / 2 * float((weights**2).sum())
        pull = signed[:, None] / 2 * soft[:, ::-1] * (1 - soft**2)
        return value, (padded.T @ pull + penalty * weights).ravel()

    minima = [
        minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200, "gtol": 1e-5})
        for start in _starts(white, signed)
    ]
    best = min(minima, key=lambda one: one.fun).x.reshape(-1, 2)
    normals, bias = whiten @ best[:-1], best[-1]
    return lambda some: np.logical_xor.reduce((some - centre) @ normals + bias > 0, axis=1)


def _whitening(rows: FloatArray, shares: FloatArray, components: int) -> tuple[FloatArray, FloatArray]:
    """The weighted mean, and the matrix that takes centred rows to uncorrelated ones of variance 1."""
    centre = shares @ rows
    centred = rows - centre
    values, vectors = np.linalg.eigh((centred * shares[:, None]).T @ centred)
    values, vectors = values[::-1][:components], vectors[:, ::-1][:, :components]
    kept = values > max(_RELATIVE_FLOOR * float(values[0]), np.finfo(np.float64).tiny)
    return centre, vectors[:, kept] / np.sqrt(values[kept])


def _starts(white: FloatArray, signed: FloatArray) -> list[FloatArray]:
    """Planes to start from, one row a feature and the bias last.

    Half: the plane between the two means, and one that has everything on one side, as a classifier of
    domains. Bands: inside and outside along the directions whose variance grows and shrinks most. Quadrants:
    the two directions together, which sees a change of correlation.
    """
    d = white.shape[1]
    between = signed @ white
    spread = (white * signed[:, None]).T @ white
    shrinks, grows = np.linalg.eigh(spread)[1].T[[-1, 0]]
    half = np.zeros((d + 1, 2))
    half[:-1, 0], half[-1, 1] = between / max(float(np.linalg.norm(between)), 1e-12), -1

    def planes(first: FloatArray, second: FloatArray, bias: tuple[float, float]) -> FloatArray:
        return np.vstack([np.column_stack([first, second]), bias])

    return [
        half,
        planes(shrinks, -shrinks, (1, 1)),
        planes(grows, grows, (1, -1)),
        planes(shrinks + grows, grows - shrinks, (0, 0)),
    ]
