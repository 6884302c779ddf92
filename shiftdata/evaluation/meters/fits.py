"""The models of the meters: logistic regressions and pairs of half-spaces, on features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.evaluation.meters.sides import Fold, Mask
from shiftdata.extras import require

#: Components whose variance is below this share of the largest are rounding errors.
_RELATIVE_FLOOR = 1e-10
#: Tried by `choose_penalty`.
PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_NEWTON_WEIGHTS = 256


@dataclass(frozen=True, kw_only=True)
class Linear:
    """A logistic regression on standardised rows; without a model it predicts its only class."""

    classes: IntArray
    scaling: Any = None
    model: Any = None

    def __call__(self, rows: FloatArray) -> IntArray:
        if self.model is None:
            return np.full(len(rows), self.classes[0])
        return np.asarray(self.model.predict(self.scaling.transform(rows)), np.int64)

    def likelihood(self, rows: FloatArray, codes: IntArray) -> float:
        """The log-likelihood of the rows whose class was fitted on."""
        if self.model is None:
            return 0.0
        fitted = np.isin(codes, self.classes)
        chances = self.model.predict_proba(self.scaling.transform(rows[fitted]))
        place = np.searchsorted(self.classes, codes[fitted])
        # A probability that has underflowed to 0 counts as the smallest positive one.
        chosen = np.maximum(chances[np.arange(len(place)), place], np.finfo(np.float64).tiny)
        return float(np.log(chosen).sum())


def fit_linear(rows: FloatArray, codes: IntArray, penalty: float, start: Linear | None = None) -> Linear:
    """Fit mean cross-entropy + penalty / 2 x the squared weights, starting from an earlier fit if given."""
    classes = np.unique(codes)
    if len(classes) == 1:
        return Linear(classes=classes)
    # For two classes scikit-learn fits one column of weights, twice as long as each of two columns.
    c = (2 if len(classes) == 2 else 1) / (len(rows) * penalty) if penalty else np.inf
    sklearn = require("sklearn.linear_model", "a logistic regression")
    scaling = require("sklearn.preprocessing", "a logistic regression").StandardScaler()
    # Newton's method is faster where its matrix, weights x weights, is small.
    is_small = penalty and rows.shape[1] * len(classes) <= _NEWTON_WEIGHTS
    solver = "newton-cholesky" if is_small else "lbfgs"
    model = sklearn.LogisticRegression(C=c, tol=1e-5, max_iter=1000, solver=solver, warm_start=True)
    if start is not None and np.array_equal(start.classes, classes):
        model.coef_, model.intercept_ = start.model.coef_, start.model.intercept_
    return Linear(classes=classes, scaling=scaling, model=model.fit(scaling.fit_transform(rows), codes))


def choose_penalty(rows: FloatArray, codes: IntArray, folds: Sequence[Fold]) -> float:
    """The penalty of largest likelihood on the unseen rows of two folds.

    Penalties are tried from the largest on, until two in a row do not improve on the best.
    """
    best, chosen, worse = -np.inf, PENALTIES[0], 0
    fits: list[Linear | None] = [None, None]
    for penalty in PENALTIES:
        likelihood = 0.0
        for i, fold in enumerate(folds[:2]):
            fits[i] = fit = fit_linear(rows[fold.seen], codes[fold.seen], penalty, fits[i])
            likelihood += fit.likelihood(rows[fold.unseen], codes[fold.unseen])
        if likelihood > best:
            best, chosen, worse = likelihood, penalty, 0
        elif worse == 1:
            break
        else:
            worse += 1
    return chosen


@dataclass(frozen=True, kw_only=True, eq=False)
class HalfSpaces:
    """Two half-spaces; a call gives a mask of the rows that lie inside exactly one of them."""

    centre: FloatArray
    normals: FloatArray
    bias: FloatArray

    def __call__(self, rows: FloatArray) -> Mask:
        inside = (rows - self.centre) @ self.normals + self.bias > 0
        return np.asarray(np.logical_xor.reduce(inside, axis=1))


def fit_half_spaces(rows: FloatArray, target: Mask, *, components: int, penalty: float) -> HalfSpaces:
    """Fit two half-spaces that disagree often on the source and seldom on the target.

    With h1, h2 = +1 or -1 on the sides of a plane each, the difference of their disagreement on source and
    target is that of the means of -h1 h2 / 2. The search replaces the sign by tanh, which is smooth, on rows
    whitened along their largest principal components, with both sides weighted equally.
    """
    minimize = require("scipy.optimize", "covariate shift").minimize
    shares = np.where(target, 1 / target.sum(), 1 / (~target).sum())
    centre, whiten = _whitening(rows, shares / 2, components)
    if not whiten.size:  # all rows are equal
        return HalfSpaces(centre=centre, normals=np.zeros((len(centre), 2)), bias=np.zeros(2))
    white = (rows - centre) @ whiten
    signed = np.where(target, -shares, shares)  # signed @ v: mean of v over the source minus over the target
    padded = np.column_stack([white, np.ones(len(white))])

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        planes = flat.reshape(-1, 2)
        soft = np.tanh(padded @ planes)
        weights = np.concatenate([planes[:-1], np.zeros((1, 2))])  # the bias is not penalised
        value = float(signed @ soft.prod(axis=1)) / 2 + penalty / 2 * float((weights**2).sum())
        # d(a b) = b da + a db: the columns of `soft` are swapped.
        gradient = signed[:, None] / 2 * soft[:, ::-1] * (1 - soft**2)
        return value, (padded.T @ gradient + penalty * weights).ravel()

    minima = [
        minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200, "gtol": 1e-5})
        for start in _starts(white, signed)
    ]
    best = min(minima, key=lambda minimum: minimum.fun).x.reshape(-1, 2)
    return HalfSpaces(centre=centre, normals=whiten @ best[:-1], bias=best[-1])


def _whitening(rows: FloatArray, shares: FloatArray, components: int) -> tuple[FloatArray, FloatArray]:
    """The weighted mean, and the matrix that makes centred rows uncorrelated with variance 1."""
    centre = shares @ rows
    centred = rows - centre
    values, vectors = np.linalg.eigh((centred * shares[:, None]).T @ centred)
    values, vectors = values[::-1][:components], vectors[:, ::-1][:, :components]
    large = values > max(_RELATIVE_FLOOR * float(values[0]), np.finfo(np.float64).tiny)
    return centre, vectors[:, large] / np.sqrt(values[large])


def _starts(white: FloatArray, signed: FloatArray) -> list[FloatArray]:
    """Four pairs of planes to start from, one row per feature and the bias last."""
    between = signed @ white
    spread = (white * signed[:, None]).T @ white
    shrinks, grows = np.linalg.eigh(spread)[1].T[[-1, 0]]
    between /= max(float(np.linalg.norm(between)), 1e-12)

    def planes(first: FloatArray, second: FloatArray, bias: tuple[float, float]) -> FloatArray:
        return np.vstack([np.column_stack([first, second]), bias])

    return [
        planes(between, np.zeros_like(between), (0, -1)),  # a classifier of domains: one plane has all rows
        planes(shrinks, -shrinks, (1, 1)),  # bands along the direction whose variance shrinks most
        planes(grows, grows, (1, -1)),  # or grows most
        planes(shrinks + grows, grows - shrinks, (0, 0)),  # quadrants see a change of correlation
    ]
