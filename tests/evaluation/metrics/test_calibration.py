"""Calibration and selective prediction, against scikit-learn and direct loops over rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import brier_score_loss, log_loss

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.bootstrap import Resampling
from shiftdata.evaluation.metrics.calibration import measure_calibration, risk_coverage

QUICK = Resampling(replicates=50)


def made(n=700, classes=5, seed=0):
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(n, classes))
    return logits, np.where(generator.random(n) < 0.6, logits.argmax(1), generator.integers(0, classes, n))


def test_the_figures_are_those_of_loops_and_of_scikit_learn():
    logits, y = made()
    result, p = measure_calibration(logits, y, resampling=QUICK), softmax(logits, 1)
    sure, right = p.max(1), p.argmax(1) == y
    edges, ece = np.linspace(0, 1, 16), 0.0
    for low, high in pairwise(edges):  # Guo et al. (2017), equation 3
        mine = (sure > low) & (sure <= high)
        ece += mine.mean() * abs(sure[mine].mean() - right[mine].mean()) if mine.any() else 0
    assert result.ece.estimate == pytest.approx(ece, abs=1e-12)
    parts = np.array_split(np.argsort(sure), 14)  # 700 rows in 14 bins of 50
    heavy = np.mean([abs(sure[part].mean() - right[part].mean()) for part in parts])
    equal = measure_calibration(logits, y, bins=14, resampling=QUICK)
    assert equal.ece_mass.estimate == pytest.approx(heavy, abs=1e-12)
    assert result.nll.estimate == pytest.approx(log_loss(y, p), abs=1e-12)
    brier = sum(brier_score_loss(y == label, p[:, label]) for label in range(5))
    assert result.brier.estimate == pytest.approx(brier, abs=1e-12)
    assert result.reliability[:, 0].sum() == len(y)
    n, confidence, accuracy = np.nan_to_num(result.reliability).T
    assert (n * np.abs(confidence - accuracy)).sum() / len(y) == pytest.approx(ece)


def test_probabilities_are_taken_as_they_are_and_logits_may_be_huge():
    logits, y = made()
    plain, given = (
        measure_calibration(logits, y, resampling=QUICK),
        measure_calibration(softmax(logits, 1), y, resampling=QUICK),
    )
    assert plain.ece.estimate == pytest.approx(given.ece.estimate)
    assert plain.nll.estimate == pytest.approx(given.nll.estimate)
    huge = measure_calibration([[1e4, 0.0], [0.0, 1e4]], [0, 0], resampling=QUICK)
    assert huge.nll.estimate == pytest.approx(5000)
    assert np.isfinite(measure_calibration([[1.0, 0.0], [0.0, 1.0]], [0, 0], resampling=QUICK).nll.estimate)


def test_intervals_are_over_origins_and_ties_of_confidence_share_a_bin():
    logits, y = made()
    origins = np.repeat(np.arange(70), 10)
    by_row = measure_calibration(np.repeat(logits[:70], 10, 0), np.repeat(y[:70], 10))
    by_origin = measure_calibration(np.repeat(logits[:70], 10, 0), np.repeat(y[:70], 10), origins=origins)
    assert by_row.brier.estimate == by_origin.brier.estimate
    spans = [of.brier.high - of.brier.low for of in (by_row, by_origin)]
    assert spans[1] > 2 * spans[0]
    order = np.random.default_rng(1).permutation(len(y))
    rounded = softmax(logits, 1).round(1)
    rounded /= rounded.sum(1, keepdims=True)
    first, moved = (
        measure_calibration(rounded, y, resampling=QUICK),
        measure_calibration(rounded[order], y[order], resampling=QUICK),
    )
    assert first.ece_mass.estimate == pytest.approx(moved.ece_mass.estimate)
    assert first.aurc == pytest.approx(moved.aurc)


def test_risk_and_coverage_are_those_of_a_loop_over_prefixes():
    generator = np.random.default_rng(2)
    sure, right = generator.random(300), generator.integers(0, 2, 300)
    curve = risk_coverage(sure, right)
    order = np.argsort(-sure)
    risks = [1 - right[order[:k]].mean() for k in range(1, 301)]
    assert np.allclose(curve.risk, risks)
    assert curve.aurc == pytest.approx(np.mean(risks))
    assert curve.risk_at(1) == pytest.approx(1 - right.mean())
    assert curve.risk_at(0.5) == pytest.approx(risks[149])
    assert curve.coverage_at(0.45) == max(k for k in range(301) if k == 0 or risks[k - 1] <= 0.45) / 300
    assert risk_coverage([0.9, 0.8], [0, 0]).coverage_at(0.5) == 0
    # Equal confidences: the mean over orders, for two of which one is right: 1/2 and 1/2.
    assert risk_coverage([0.5, 0.5], [1, 0]).risk.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([[0.5, np.nan]], [0]),
        ([[0.5, 0.5]], [2]),
        ([[0.5, 0.5]], [0, 1]),
        ([], []),
        ([0.5], [0]),
        ([[1, 2]], [-1]),
    ],
)
def test_what_is_no_scores_or_labels_is_refused(scores, labels):
    with pytest.raises(InputError):
        measure_calibration(scores, labels)


def test_bins_and_coverages_are_checked():
    with pytest.raises(InputError, match="bins"):
        measure_calibration([[0.5, 0.5]], [0], bins=0)
    with pytest.raises(InputError, match="coverage"):
        risk_coverage([0.5], [1]).risk_at(0)
