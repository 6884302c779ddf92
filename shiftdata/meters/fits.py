"""What the meters fit: logistic regressions and pairs of half-spaces, on features; features of table rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.meters.sides import Mask
from shiftdata.metrics.arrays import FloatArray, IntArray

#: Components whose variance is below this share of the largest are rounding.
_RELATIVE_FLOOR = 1e-10

#: Values by column: numbers, booleans, texts.
Row: TypeAlias = Mapping[str, bool | int | float | str]
#: From rows to one class a row.
Classifier: TypeAlias = Callable[[FloatArray], IntArray]


def fit_linear(
    rows: FloatArray, codes: IntArray, *, penalty: float, row_weights: FloatArray | None = None
) -> Classifier:
    """Logistic regression on standardised rows: mean cross-entropy + penalty / 2 x the squared weights."""
    classes = np.unique(codes)
    if len(classes) == 1:
        return lambda some: np.full(len(some), classes[0])
    total = len(rows) if row_weights is None else row_weights.sum()
    # Of two classes scikit-learn fits one column of weights, twice as long as each of two columns.
    c = (2 if len(classes) == 2 else 1) / (total * penalty) if penalty else np.inf
    sklearn = require("sklearn.linear_model", "a logistic regression")
    scaling = require("sklearn.preprocessing", "a logistic regression").StandardScaler()
    logistic = sklearn.LogisticRegression(C=c, tol=1e-5, max_iter=1000)
    logistic.fit(scaling.fit_transform(rows), codes, sample_weight=row_weights)
    return lambda some: logistic.predict(scaling.transform(some))


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


def features_of_rows(source: Sequence[Row], target: Sequence[Row]) -> tuple[FloatArray, FloatArray]:
    """Features of two lists of rows, such as `table.to_pylist()` gives: the same columns for both.

    A number stays as it is; a text becomes one column a value, over the values of both lists.

    >>> features_of_rows([{"age": 3, "sex": "f"}], [{"age": 4, "sex": "m"}])
    (array([[3., 1., 0.]]), array([[4., 0., 1.]]))
    """
    rows = [*source, *target]
    if not source or not target or not rows[0]:
        raise InputError("give at least one row with at least one column on either side")
    for name in dict.fromkeys(name for row in rows for name in row):
        types = sorted({type(row[name]).__name__ if name in row else "no value" for row in rows})
        if types != ["str"] and not set(types) <= {"bool", "int", "float"}:
            raise InputError(f"column {name!r} has {', '.join(types)}: give only numbers, or only texts")
    vectorizer = require("sklearn.feature_extraction", "features of rows").DictVectorizer(sparse=False)
    features = vectorizer.fit_transform(rows)
    return features[: len(source)], features[len(source) :]
