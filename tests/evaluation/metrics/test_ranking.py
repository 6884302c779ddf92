"""Ranks and their agreement, with scipy as oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import rank_agreement, ranks, spearman

VALUES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=12)


@given(VALUES)
def test_ranks_and_correlations_are_those_of_scipy(pairs):
    from scipy import stats

    a, b = np.array(pairs, float).T
    np.testing.assert_allclose(ranks(a), stats.rankdata(-a))
    np.testing.assert_allclose(ranks(a, lower_is_better=True), stats.rankdata(a))
    if len(set(a)) > 1 and len(set(b)) > 1:
        agreement = rank_agreement(a, b)
        assert agreement.spearman == pytest.approx(stats.spearmanr(a, b).statistic)
        assert agreement.kendall == pytest.approx(stats.kendalltau(a, b).statistic)
        assert spearman(a, b) == agreement.spearman
    else:
        assert np.isnan(spearman(a, b))


def test_a_method_that_stands_better_gains_places():
    assert rank_agreement([3, 2, 1], [2, 3, 1]).change.tolist() == [-1, 1, 0]
    assert rank_agreement([3, 2, 1], [2, 3, 1], lower_is_better=True).change.tolist() == [1, -1, 0]


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InputError, match="at least 2 methods"):
        rank_agreement([1], [1])
    with pytest.raises(InputError):
        spearman([1, 2], [1, 2, 3])
