"""The bounds against a problem of four points, whose every quantity is known by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.evaluation.meters import Bounds, ConceptShift, CovariateShift, bounds
from shiftdata.evaluation.metrics import Interval

POINTS = 4
#: All functions of the points to two labels.
CLASS = np.array(list(itertools.product((0, 1), repeat=POINTS)))
DIFFER = (CLASS[:, None] != CLASS).reshape(-1, POINTS)
P, Q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])
F, G = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])


def exact(value):
    return Interval(value, value, value, "exact")


def report(p, q, f, g, h):
    """The report of the true values: densities p and q, labels f and g, a hypothesis h."""
    discrepancy = float(np.abs(DIFFER @ (p - q)).max())
    concept = {"on_source": exact(p[f != g].sum()), "on_target": exact(q[f != g].sum())}
    settings = {"n_source": 1, "n_target": 1, "floor": 0.0, "labels": (0, 1), "left_out": 0, "fit": "true"}
    return Bounds(
        source_error=exact(p[h != f].sum()),
        target_error=exact(q[h != g].sum()),
        covariate=CovariateShift(interval=exact(discrepancy), n_source=1, n_target=1, hypotheses="all"),
        concept=ConceptShift(**concept, **settings),
        hypothesis="h",
    )


densities = st.lists(st.integers(1, 20), min_size=POINTS, max_size=POINTS).map(
    lambda counts: np.array(counts) / sum(counts)
)
functions = st.sampled_from(list(CLASS))


@given(densities, densities, functions, functions)
def test_every_hypothesis_is_within_both_bounds(p, q, f, g):
    for h in CLASS:
        true = report(p, q, f, g, h)
        assert true.lower - 1e-12 <= true.target_error.estimate <= true.upper + 1e-12


def test_both_bounds_are_reached():
    p, q = np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0])
    f, g = np.array([0, 0, 0, 0]), np.array([0, 1, 0, 0])
    assert report(p, q, f, g, f).upper == report(p, q, f, g, f).target_error.estimate == 1
    assert report(p, q, f, g, g).lower == report(p, q, f, g, g).target_error.estimate == 0


def drawn(seed, n):
    """Points of both domains; their one-hot features let planes separate them in every way."""
    generator = np.random.default_rng(seed)
    return generator.choice(POINTS, n, p=P), generator.choice(POINTS, n, p=Q)


@pytest.mark.slow
def test_measured_terms_are_those_of_enumeration():
    x, z = drawn(0, 500)
    measured, true = bounds(np.eye(POINTS)[x], F[x], np.eye(POINTS)[z], G[z]), report(P, Q, F, G, F)
    assert measured.source_error.estimate == 0
    for interval, exactly in (
        (measured.target_error, true.target_error),
        (measured.covariate.interval, true.covariate.interval),
        (measured.concept.minimum, true.concept.minimum),
        (measured.concept.maximum, true.concept.maximum),
    ):
        assert interval.low <= exactly.estimate <= interval.high
        assert interval.estimate == pytest.approx(exactly.estimate, abs=0.07)
    assert measured.upper == pytest.approx(true.upper, abs=0.15)


def test_a_given_model_and_labels_of_one_side():
    x, z = drawn(1, 400)
    y = np.where(x == 3, 7, F[x])  # a label that the target lacks
    sides = np.eye(POINTS)[x], y, np.eye(POINTS)[z], G[z]
    always = np.zeros(400, int)
    origins = np.arange(400) // 2, 200 + np.arange(400) // 2
    measured = bounds(*sides, predictions=(always, always), origins=origins)
    assert measured.concept.left_out == (x == 3).sum()
    assert measured.source_error.estimate == pytest.approx((x == 2).sum() / (x != 3).sum())
    assert measured.target_error.estimate == pytest.approx((z > 0).mean())
    assert "by origin" in measured.covariate.interval.method
    assert "the given model" in str(measured)
    with pytest.raises(InputError, match="labels and predictions of the source: 400 and 399 values"):
        bounds(*sides, predictions=(always[1:], always))


def test_the_report_has_the_terms_and_the_assumptions():
    text = str(report(P, Q, F, G, F))
    assert "covariate shift (a lower bound)  0.4000  0.4000  0.4000" in text
    assert "theorem 4.2: target error of h at most 0.6000" in text  # 0 + .4 + min(.3, .2)
    assert "theorem 4.3: target error of h at least -0.1000" in text  # max(.3, .2) - .4 - 0
    assert "Neither is a guarantee." in text
