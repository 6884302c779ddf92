from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import frechet_distance, stylization_fidelity


def by_scipy(a, b):
    from scipy import linalg

    first, second = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    root = linalg.sqrtm(first @ second).real
    return np.square(a.mean(axis=0) - b.mean(axis=0)).sum() + np.trace(first + second - 2 * root)


def features(n, d, seed, rank=None):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, rank or d)) @ generator.normal(size=(rank or d, d)) + generator.normal(
        size=d
    )


@pytest.mark.parametrize(
    ("n_a", "n_b", "d"), [(200, 300, 12), (500, 20, 40), (15, 25, 40), (40, 41, 40), (2, 2, 3), (300, 400, 2)]
)
def test_it_is_the_distance_by_the_root_of_the_matrix(n_a, n_b, d):
    a, b = features(n_a, d, 1), features(n_b, d, 2)
    result = frechet_distance(a, b)
    assert result == pytest.approx(by_scipy(a, b), rel=1e-5)
    assert result == pytest.approx(frechet_distance(b, a), rel=1e-9)


@pytest.mark.parametrize(("n", "rank"), [(300, 5), (10, 30), (300, 30), (31, 30)])
def test_deficient_covariances_do_no_harm(n, rank):
    a = features(n, 30, 3, rank=rank)
    scale = np.trace(np.cov(a, rowvar=False))
    assert frechet_distance(np.ones((5, 4)), np.zeros((9, 4))) == 4
    assert frechet_distance(a, a[::-1]) == pytest.approx(0, abs=1e-9 * scale)
    assert frechet_distance(a, a + 2.0) == pytest.approx(4 * 30, abs=1e-9 * scale)
    wider = frechet_distance(a, a.mean(axis=0) + 3 * (a - a.mean(axis=0)))
    assert wider == pytest.approx((3 - 1) ** 2 * scale, rel=1e-9)


@given(st.floats(-5, 5), st.floats(0.1, 5), st.integers(0, 1000))
def test_in_one_dimension_it_is_known(shift, scale, seed):
    a = np.random.default_rng(seed).normal(size=(30, 1))
    a = (a - a.mean()) / a.std(ddof=1)
    assert frechet_distance(a, scale * a + shift) == pytest.approx(shift**2 + (scale - 1) ** 2, abs=1e-9)


def test_bad_features():
    with pytest.raises(InputError, match="features: 3 and 4 columns; use one network for both"):
        frechet_distance(np.ones((5, 3)), np.ones((5, 4)))
    with pytest.raises(InputError, match="features: 1 and 5 rows; a covariance needs at least 2"):
        frechet_distance(np.ones((1, 3)), np.ones((5, 3)))
    with pytest.raises(InputError, match="a: 1 of 4 are nan"):
        frechet_distance([[0, np.nan], [0, 1]], np.ones((5, 2)))


def test_fidelity_is_a_mean_of_ratios():
    stylized, original = [0.5, 0.9, 0.8], [1.0, 0.9, 0.4]
    result = stylization_fidelity(stylized, original)
    ratios = np.array(stylized) / original
    assert result.mean == pytest.approx(ratios.mean()) == pytest.approx(3.5 / 3)
    assert str(result) == "1.1667 ± 0.4410 (n=3)"


def test_bad_fidelity():
    with pytest.raises(InputError, match="original ones are above 0"):
        stylization_fidelity([0.5], [0.0])
    with pytest.raises(InputError, match="lengths differ: stylized 2, original 1"):
        stylization_fidelity([0.5, 0.5], [0.9])
