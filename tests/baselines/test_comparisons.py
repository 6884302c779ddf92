"""Losses equal plain loops of their formulas, and other packages where these are installed."""

from __future__ import annotations

import pytest

from scripts.compare_losses import adaptation, domains, streams

COMPARISONS = (*domains.COMPARISONS, *adaptation.COMPARISONS, *streams.COMPARISONS)


@pytest.mark.filterwarnings("ignore")  # of peers
@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda comparison: comparison.name)
def test_a_loss_and_its_gradients_equal_those_of_its_oracle(comparison):
    if missing := comparison.missing():
        pytest.skip(f"{', '.join(missing)} not installed")
    assert comparison.difference(seed=1) <= comparison.tolerance
