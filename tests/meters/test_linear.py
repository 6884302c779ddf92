from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from shiftdata.meters.descent import minimise
from shiftdata.meters.linear import fit_linear


@pytest.mark.parametrize(("n_classes", "penalty"), [(2, 0.1), (4, 0.01), (4, 1.0)])
def test_the_logistic_regression_is_that_of_scikit_learn(n_classes, penalty):
    generator = np.random.default_rng(n_classes)
    codes = generator.integers(n_classes, size=200)
    rows = generator.normal(size=(n_classes, 5))[codes] + 10 * generator.normal(size=(200, 5)) + 3
    fitted = fit_linear(rows, codes, n_classes, penalty=penalty)
    scaled = StandardScaler().fit_transform(rows)
    # Two columns of scores share the weights of scikit-learn's one, so each bears half of it.
    c = 1 / (200 * penalty) * (2 if n_classes == 2 else 1)
    oracle = LogisticRegression(C=c, tol=1e-8, max_iter=1000).fit(scaled, codes)
    coefficients, bias = oracle.coef_.T, oracle.intercept_
    ours = fitted.weights, fitted.bias - fitted.bias.mean()
    if n_classes == 2:
        ours = ours[0][:, [1]] - ours[0][:, [0]], ours[1][[1]] - ours[1][[0]]
    assert ours[0] == pytest.approx(coefficients, abs=2e-3)
    assert ours[1] == pytest.approx(bias - (bias.mean() if n_classes > 2 else 0), abs=2e-3)
    assert (fitted(rows) == oracle.predict(scaled)).mean() > 0.99


def test_weights_of_rows_are_as_repeated_rows():
    generator = np.random.default_rng(0)
    rows, codes = generator.normal(size=(60, 3)), generator.integers(3, size=60)
    times = generator.integers(1, 4, size=60)
    repeated = fit_linear(rows.repeat(times, axis=0), codes.repeat(times), 3, penalty=0.1)
    # Standardising sees the rows, not their weights: predictions may differ in rows between two classes.
    weighted = fit_linear(rows, codes, 3, penalty=0.1, row_weights=times.astype(float))
    assert (weighted(rows) == repeated(rows)).mean() > 0.9


def test_a_class_that_was_not_seen_is_never_predicted():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    fitted = fit_linear(rows, (rows[:, 0] > 0).astype(np.int64), 4, penalty=0.01)
    assert set(fitted(rows)) == {0, 1}


@pytest.mark.parametrize("start", [[-1.2, 1.0], [2.0, -1.5, 0.5, 3.0]])
def test_descent_finds_the_minimum_that_scipy_finds(start):
    found = minimise(lambda x: (float(rosen(x)), rosen_der(x)), np.array(start), tolerance=1e-8)
    assert found == pytest.approx(
        minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", tol=1e-12).x, abs=1e-4
    )


def test_descent_stays_at_a_minimum():
    assert minimise(lambda x: (0.0, np.zeros(2)), np.array([3.0, 4.0])).tolist() == [3, 4]
