from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import SelectionLeakage, probe_gap, selection_leakage


def step_by_step(validation, test, k, weights):
    """The protocol of section 2.2, step by step."""
    domains, found = range(test.shape[1]), {d: [] for d in range(test.shape[1])}
    for chosen in combinations(domains, k):
        score = [sum(weights[d] * row[d] for d in chosen) for row in test]
        best = int(np.argmax(score))
        for d in chosen:
            found[d].append(test[best, d])
    return [np.mean(found[d]) for d in domains]


tables = arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.integers(0, 99).map(float)
)


@given(tables, st.integers(0, 2**32 - 1))
def test_every_combination_of_test_domains_selects(test, seed):
    generator = np.random.default_rng(seed)
    validation = generator.random(len(test))
    result = selection_leakage(validation, test)
    assert result.k.tolist() == list(range(1, test.shape[1] + 1))
    for k, row in zip(result.k, result.oracle, strict=True):
        assert row == pytest.approx(step_by_step(validation, test, int(k), np.ones(test.shape[1])))
    assert result.iid.tolist() == test[validation.argmax()].tolist()
    assert result.oracle[0] == pytest.approx(test.max(axis=0))
    # Selecting on more domains at once can only lose: the maximum of a mean is at most the mean of maxima.
    assert (np.diff(result.leakage) <= 1e-9).all()
    assert result.leakage[-1] >= -1e-9


def test_domains_may_weigh_by_size():
    test = np.array([[0.9, 0.1], [0.4, 0.5]])
    equal, sized = selection_leakage([0, 1], test), selection_leakage([0, 1], test, domain_n=[10, 90])
    assert equal.oracle[1].tolist() == [0.9, 0.1]
    assert sized.oracle[1].tolist() == [0.4, 0.5]
    assert sized.oracle[1] == pytest.approx(step_by_step([0, 1], test, 2, [10, 90]))


def test_leakage_of_table_4():
    # DomainBed-v2, table 4, NICO++ with test domains autumn, rock, dim.
    result = SelectionLeakage(
        iid=np.array([78.94, 79.26, 71.94]),
        k=np.array([1, 2, 3]),
        oracle=np.array([[79.44, 79.58, 72.58], [78.92, 79.33, 72.58], [79.44, 79.58, 71.42]]),
    )
    assert result.leakage == pytest.approx([0.49, 0.23, 0.10], abs=0.006)
    assert result.relative == pytest.approx([0, -0.53, -0.79], abs=0.006)
    assert np.isnan(selection_leakage([0.5], [[0.7, 0.8]]).relative).all()
    assert json.loads(json.dumps(result.to_dict()))["relative"][0] == 0


def test_bad_leakage_input():
    with pytest.raises(InputError, match="lengths differ: validation 1, test 2"):
        selection_leakage([0.5], [[0.7], [0.8]])
    with pytest.raises(InputError, match="test: give 2 dimensions"):
        selection_leakage([0.5], [0.7])
    for bad in ([1], [1, 0]):
        with pytest.raises(InputError, match="domain_n: give the rows of each of the 2 test domains"):
            selection_leakage([0.5], [[0.7, 0.8]], domain_n=bad)
    assert selection_leakage([0.5], [[0.7, 0.8]], most=1).k.tolist() == [1]
    for bad in (0, 3):
        with pytest.raises(InputError, match=f"most={bad} test domains of 2: give 1 to 2"):
            selection_leakage([0.5], [[0.7, 0.8]], most=bad)


def test_probe_gap_is_that_of_table_2():
    # DomainBed-v2, tables 1 and 2: PACS and OfficeHome; the paper rounds after computing.
    probed = [71.8, 53.8, 45.9, 64.0, 50.3, 77.7, 79.7]
    tuned = [86.1, 80.4, 77.1, 61.1, 51.1, 73.9, 75.7]
    assert probe_gap(probed, tuned) == pytest.approx(
        [-0.167, -0.331, -0.405, 0.047, -0.017, 0.051, 0.054], abs=0.002
    )
    with pytest.raises(InputError, match="fine_tune: an accuracy of 0 or less leaves the gap undefined"):
        probe_gap([0.5], [0.0])
    with pytest.raises(InputError, match="lengths differ"):
        probe_gap([0.5], [0.5, 0.6])
