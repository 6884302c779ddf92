from __future__ import annotations

import sys

import numpy as np
import pytest

from shiftdata.errors import MissingExtraError
from shiftdata.evaluation.meters import covariate_shift
from shiftdata.evaluation.meters.fits import choose_penalty, fit_linear
from shiftdata.evaluation.meters.sides import Sides


def minimum_of(rows, codes, n_classes, penalty):
    """Minimise the documented objective: one column of weights per class."""
    from scipy.optimize import minimize

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


def test_the_penalty_is_small_where_planes_part_the_labels_and_large_where_nothing_does():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(300, 10))
    folds = list(Sides(target=np.arange(300) >= 150, origins=None).folds(0))
    assert choose_penalty(rows, (rows[:, 0] > 0).astype(int), folds) <= 1e-3
    assert choose_penalty(rows, generator.integers(2, size=300), folds) == 1


def test_only_classes_that_were_seen_are_predicted():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    fitted = fit_linear(rows, np.where(rows[:, 0] > 0, 3, 1), penalty=0.01)
    assert set(fitted(rows)) == {1, 3}
    assert set(fit_linear(rows, np.full(50, 2), penalty=0.01)(rows)) == {2}
    assert len(fit_linear(rows, (rows[:, 0] > 0).astype(int), penalty=0)(rows)) == 50


def test_scikit_learn_is_an_extra(monkeypatch):
    for name in ("sklearn.linear_model", "sklearn.preprocessing", "scipy.optimize"):
        monkeypatch.setitem(sys.modules, name, None)
    rows = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(MissingExtraError, match=r"pip install 'shiftdata\[meters\]'"):
        covariate_shift(rows, rows)
