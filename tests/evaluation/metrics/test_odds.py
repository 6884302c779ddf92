"""Equal opportunity and equalized odds: scikit-learn's counts, closed forms, coverage of intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import multilabel_confusion_matrix

import shiftdata as sd
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import class_rates
from tests.evaluation.protocols.made import metadata

FAIR = sd.task(metadata(6, 5, 20), "group-fairness", k=3, mu=0.3)


def drawn(classes, nuisances, rows, seed, share=0.6):
    """Labels, predictions and nuisances; every class is in every nuisance."""
    generator = np.random.default_rng(seed)
    cells = np.concatenate(
        [np.arange(classes * nuisances), generator.integers(classes * nuisances, size=rows)]
    )
    true, nuisance = np.divmod(cells, nuisances)
    guess = generator.integers(classes, size=len(true))
    return true, np.where(generator.random(len(true)) < share, true, guess), nuisance


@given(st.integers(2, 5), st.integers(2, 4), st.integers(0, 200), st.integers(0, 1000))
def test_gaps_are_those_of_confusion_matrices_by_nuisance(classes, nuisances, rows, seed):
    true, predicted, nuisance = drawn(classes, nuisances, rows, seed)
    rates = class_rates(true, predicted, nuisance, n_classes=classes, n_nuisances=nuisances)
    counts = np.stack(
        [
            multilabel_confusion_matrix(true[nuisance == a], predicted[nuisance == a], labels=range(classes))
            for a in range(nuisances)
        ]
    )
    tn, fp, fn, tp = (counts[:, :, i, j] for i in (0, 1) for j in (0, 1))
    tpr, fpr = tp / (tp + fn), fp / (fp + tn)
    opportunity = np.ptp(tpr, axis=0)
    odds = np.maximum(opportunity, np.ptp(fpr, axis=0))
    assert rates.equal_opportunity == pytest.approx(opportunity.max())
    assert rates.equal_opportunity_mean == pytest.approx(opportunity.mean())
    assert rates.equalized_odds == pytest.approx(odds.max())
    assert rates.equalized_odds_mean == pytest.approx(odds.mean())
    assert np.allclose(rates.tpr, tpr.T)
    assert np.allclose(rates.fpr, fpr.T)


def test_a_rate_without_rows_is_undefined_and_so_is_every_figure():
    rates = class_rates([0, 1, 0], [0, 1, 0], [0, 0, 1], n_classes=2, n_nuisances=2)
    assert rates.positives.tolist() == [[1, 1], [1, 0]]
    assert all(math.isnan(value) for value in (rates.equal_opportunity, rates.equalized_odds_mean))
    assert rates.to_dict()["equal_opportunity"] is None
    with pytest.raises(InputError, match="predictions"):
        class_rates([0, 1], [0, 2], [0, 0], n_classes=2, n_nuisances=1)


def test_a_single_nuisance_has_nothing_to_be_compared_with():
    assert math.isnan(class_rates([0, 1], [0, 1], [0, 0], n_classes=2, n_nuisances=1).equal_opportunity)


def judged(seed, share=0.7):
    generator, true = np.random.default_rng(seed), FAIR.metadata.label[FAIR.rows("test")].astype(np.int64)
    return true, np.where(
        generator.random(len(true)) < share, true, generator.choice(FAIR.label_ids, len(true))
    )


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_a_task_has_the_figures_of_its_labels_and_styles(seed):
    true, predicted = judged(seed)
    nuisance = FAIR.metadata.nuisance[FAIR.rows("test")].astype(np.int64)
    codes = [np.unique(each, return_inverse=True)[1] for each in (true, nuisance)]
    guesses = np.searchsorted(FAIR.label_ids, predicted)
    rates = class_rates(codes[0], guesses, codes[1], n_classes=3, n_nuisances=3)
    result = FAIR.evaluate(predicted)
    for name in rates.derived:
        assert result[name] == pytest.approx(getattr(rates, name))
        low, high = result[name].interval
        assert 0 <= low <= result[name] <= high <= 1


def test_the_error_is_that_of_a_difference_of_two_shares():
    _, predicted = judged(0)
    gap = FAIR.evaluate(predicted).equal_opportunity
    label, high, low = gap.of.replace(", true positives: ", "|").replace(" less ", "|").split("|")
    groups = FAIR.evaluate(predicted).by("group")
    place = [groups.names.index(f"{label} / {style}") for style in (high, low)]
    assert gap == pytest.approx(groups.accuracy[place[0]] - groups.accuracy[place[1]])
    assert gap.n == groups.n[place].sum()


def test_right_predictions_are_fair_and_a_style_that_is_always_wrong_is_not():
    true, _ = judged(0)
    assert {FAIR.evaluate(true)[name] for name in ("equal_opportunity", "equalized_odds")} == {0}
    style = np.array(FAIR.table("test", named=True)["a"].to_pylist())
    other = FAIR.label_ids[(np.searchsorted(FAIR.label_ids, true) + 1) % 3]
    result = FAIR.evaluate(np.where(style == "kind2", other, true))
    assert result.equal_opportunity == result.equal_opportunity_mean == 1
    assert result.equalized_odds.n == 12


def test_the_interval_covers_the_true_gap_of_a_fair_predictor():
    """All rates are equal, so that the gap that is seen is noise alone: 0 must be within."""
    covered = [FAIR.evaluate(judged(seed)[1]).equalized_odds.interval[0] == 0 for seed in range(40)]
    assert np.mean(covered) >= 0.95
