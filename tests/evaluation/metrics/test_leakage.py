from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import selection_leakage
from shiftdata.evaluation.metrics.benchmarks import SelectionLeakage


def step_by_step(test, k):
    """The protocol of section 2.2, step by step."""
    domains, accuracies = range(test.shape[1]), {d: [] for d in range(test.shape[1])}
    for chosen in combinations(domains, k):
        score = [sum(row[d] for d in chosen) for row in test]
        best = int(np.argmax(score))
        for d in chosen:
            accuracies[d].append(test[best, d])
    return [np.mean(accuracies[d]) for d in domains]


tables = arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.integers(0, 99).map(float)
)


@given(tables, st.integers(0, 2**32 - 1))
def test_every_combination_of_test_domains_selects(test, seed):
    generator = np.random.default_rng(seed)
    validation = generator.random(len(test))
    result = selection_leakage(validation, test)
    assert len(result.oracle) == test.shape[1]
    for k, row in enumerate(result.oracle, start=1):
        assert row == pytest.approx(step_by_step(test, k))
    assert result.iid.tolist() == test[validation.argmax()].tolist()
    assert result.oracle[0] == pytest.approx(test.max(axis=0))
    # Selecting on more domains at once can only lose: the maximum of a mean is at most the mean of maxima.
    assert (np.diff(result.leakage) <= 1e-9).all()
    assert result.leakage[-1] >= -1e-9


def test_leakage_of_table_4():
    # DomainBed-v2, table 4, NICO++ with test domains autumn, rock, dim.
    result = SelectionLeakage(
        iid=np.array([78.94, 79.26, 71.94]),
        oracle=np.array([[79.44, 79.58, 72.58], [78.92, 79.33, 72.58], [79.44, 79.58, 71.42]]),
    )
    assert result.leakage == pytest.approx([0.49, 0.23, 0.10], abs=0.006)


def test_bad_leakage_input():
    with pytest.raises(InputError, match="lengths differ: validation 1, test 2"):
        selection_leakage([0.5], [[0.7], [0.8]])
    with pytest.raises(InputError, match="test: give 2 dimensions"):
        selection_leakage([0.5], [0.7])
