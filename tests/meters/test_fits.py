from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.optimize import minimize

from shiftdata.errors import MissingExtraError
from shiftdata.meters import covariate_shift, domain_classifier
from shiftdata.meters.fits import fit_linear


def minimum_of(rows, codes, n_classes, penalty):
    """The documented objective, minimised as it is written: one column of weights a class."""
    scaled, wanted = (rows - rows.mean(axis=0)) / rows.std(axis=0), np.eye(n_classes)[codes]

    def loss(flat):
        table = flat.reshape(-1, n_classes)
        scores = scaled @ table[:-1] + table[-1]
        logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return -(logs * wanted).sum(axis=1).mean() + penalty / 2 * (table[:-1] ** 2).sum()

    table = minimize(loss, np.zeros((rows.shape[1] + 1) * n_classes)).x.reshape(-1, n_classes)
    return (scaled @ table[:-1] + table[-1]).argmax(axis=1)


@pytest.mark.parametrize(("n_classes", "penalty"), [(2, 0.1), (4, 0.01), (4, 1.0)])
def test_the_logistic_regression_minimises_what_its_documentation_says(n_classes, penalty):
    generator = np.random.default_rng(n_classes)
    codes = generator.integers(n_classes, size=200)
    rows = generator.normal(size=(n_classes, 5))[codes] + 10 * generator.normal(size=(200, 5)) + 3
    fitted = fit_linear(rows, codes, penalty=penalty)
    assert (fitted(rows) == minimum_of(rows, codes, n_classes, penalty)).mean() > 0.99


def test_weights_of_rows_are_as_repeated_rows():
    generator = np.random.default_rng(0)
    rows, codes = generator.normal(size=(60, 3)), generator.integers(3, size=60)
    times = generator.integers(1, 4, size=60)
    repeated = fit_linear(rows.repeat(times, axis=0), codes.repeat(times), penalty=0.1)
    # Standardising sees the rows, not their weights: predictions may differ in rows between two classes.
    weighted = fit_linear(rows, codes, penalty=0.1, row_weights=times.astype(float))
    assert (weighted(rows) == repeated(rows)).mean() > 0.9


def test_only_classes_that_were_seen_are_predicted():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    fitted = fit_linear(rows, np.where(rows[:, 0] > 0, 3, 1), penalty=0.01)
    assert set(fitted(rows)) == {1, 3}
    assert set(fit_linear(rows, np.full(50, 2), penalty=0.01)(rows)) == {2}
    assert len(fit_linear(rows, (rows[:, 0] > 0).astype(int), penalty=0)(rows)) == 50


@pytest.mark.parametrize("measure", [covariate_shift, domain_classifier])
def test_scikit_learn_is_an_extra(monkeypatch, measure):
    for name in ("sklearn.linear_model", "sklearn.preprocessing", "scipy.optimize"):
        monkeypatch.setitem(sys.modules, name, None)
    rows = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(MissingExtraError, match=r"pip install 'shiftdata\[meters\]'"):
        measure(rows, rows)
