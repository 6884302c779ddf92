from __future__ import annotations

import numpy as np
import pytest

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import CONVENTIONS, mean_sem, sem, std

# Accuracies without adaptation over 25 scenarios of birds: SMA's table 4, which gives 77.19 ± 2.04.
SMA_BIRDS = [
    *(83.58, 65.98, 88.48, 64.39, 40.16, 75.60, 82.83, 84.25, 76.65, 79.04, 84.82, 83.36, 71.76),
    *(83.45, 71.80, 71.32, 70.04, 87.91, 85.53, 74.23, 83.72, 82.74, 81.82, 79.35, 76.92),
]


def test_sem_is_what_sma_prints():
    result = mean_sem(SMA_BIRDS)
    assert (round(result.mean, 2), round(result.sem, 2), result.n) == (77.19, 2.04, 25)
    assert round(sem(SMA_BIRDS, "domainbed"), 2) == 2.00  # the other convention would show
    assert str(result) == "77.1892 ± 2.0369 (n=25)"


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_conventions_are_degrees_of_freedom(convention):
    assert std(SMA_BIRDS, convention) == pytest.approx(np.std(SMA_BIRDS, ddof=CONVENTIONS[convention]))


def test_one_value_has_no_sample_std():
    assert np.isnan(std([0.5]))
    assert np.isnan(sem([0.5]))
    assert std([0.5], "domainbed") == 0
    assert mean_sem([0.5]).to_dict() == {"mean": 0.5, "sem": None, "n": 1}


def test_an_unknown_convention_is_refused():
    with pytest.raises(InputError, match="unknown convention 'ddof'; known: domainbed, nico"):
        std([1, 2], "ddof")
