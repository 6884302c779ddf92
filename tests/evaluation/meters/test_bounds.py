"""The bounds against a problem of four points, whose every quantity is known by enumeration."""

from __future__ import annotations

import itertools
import json

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


def exact(value):
    return Interval(value, value, value, 0.95, 0, 0, 0, "exact")


def report(p, q, f, g, h):
    """The report of the true values: densities p and q, labels f and g, a hypothesis h."""
    discrepancy = float(np.abs(DIFFER @ (p - q)).max())
    return Bounds(
        source_error=exact(p[h != f].sum()),
        target_error=exact(q[h != g].sum()),
        covariate=CovariateShift(interval=exact(discrepancy), n_source=1, n_target=1, hypotheses="all"),
        concept=ConceptShift(
            on_source=exact(p[f != g].sum()), on_target=exact(q[f != g].sum()), n_source=1, n_target=1
        ),
        hypothesis="h",
    )


densities = st.lists(st.integers(1, 20), min_size=POINTS, max_size=POINTS).map(
    lambda counts: np.array(counts) / sum(counts)
)
functions = st.sampled_from(list(CLASS))


@given(densities, densities, functions, functions)
def test_every_hypothesis_is_within_both_bounds(p, q, f, g):
    for h in CLASS:
        found = report(p, q, f, g, h)
        assert found.lower - 1e-12 <= found.target_error.estimate <= found.upper + 1e-12


def test_both_bounds_are_reached():
    p, q = np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0])
    f, g = np.array([0, 0, 0, 0]), np.array([0, 1, 0, 0])
    assert report(p, q, f, g, f).upper == report(p, q, f, g, f).target_error.estimate == 1
    assert report(p, q, f, g, g).lower == report(p, q, f, g, g).target_error.estimate == 0


P, Q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])
F, G = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])


def drawn(seed, n=1000):
    """Rows that are one of the four points, which planes part in every way."""
    generator = np.random.default_rng(seed)
    source, target = generator.choice(POINTS, n, p=P), generator.choice(POINTS, n, p=Q)
    return source, np.eye(POINTS)[source], F[source], target, np.eye(POINTS)[target], G[target]


def test_what_is_measured_is_what_enumeration_gives():
    _, x, y, _, z, w = drawn(2)
    found, true = bounds(x, y, z, w), report(P, Q, F, G, F)
    assert found.source_error.estimate == 0
    for measured, known in (
        (found.target_error, true.target_error),
        (found.covariate.interval, true.covariate.interval),
        (found.concept.minimum, true.concept.minimum),
        (found.concept.maximum, true.concept.maximum),
    ):
        assert measured.low <= known.estimate <= measured.high
        assert measured.estimate == pytest.approx(known.estimate, abs=0.07)
    assert (found.upper, found.lower) == pytest.approx((true.upper, true.lower), abs=0.15)
    stored = json.loads(json.dumps(found.to_dict()))
    assert stored["maximum_less_covariate"] == pytest.approx(0.3 - 0.4, abs=0.1)
    assert len(stored["assumptions"]) == 4


def test_a_model_of_ones_own_and_labels_of_one_side():
    source, x, y, target, z, w = drawn(1, 400)
    y, w = np.where(source == 3, 7, y), w  # a label that the target lacks
    always = np.zeros(400, int), np.zeros(400, int)
    found = bounds(x, y, z, w, predictions=always)
    assert found.concept.left_out == (source == 3).sum()
    assert found.source_error.estimate == pytest.approx((source == 2).sum() / (source != 3).sum())
    assert found.target_error.estimate == pytest.approx((target > 0).mean())
    assert "the given model" in str(found)
    with pytest.raises(InputError, match="labels and predictions of the source: 400 and 399 values"):
        bounds(x, y, z, w, predictions=(always[0][1:], always[1]))


def test_the_report_says_what_is_no_guarantee():
    text = str(report(P, Q, F, G, F))
    assert "covariate shift     0.4000  0.4000  0.4000  lower bound" in text
    assert "theorem 4.2: target error at most  0.6000" in text  # 0 + .4 + min(.3, .2)
    assert "theorem 4.3: target error at least -0.1000 (says nothing)" in text  # max(.3, .2) - .4 - 0
    assert "within both" in text
    assert "Neither is a guarantee." in text
