from __future__ import annotations

import numpy as np

from shiftdata.evaluation.metrics.statistics import spread

# Accuracies without adaptation over 25 scenarios of birds: SMA's table 4, which gives 77.19 ± 2.04.
SMA_BIRDS = np.array([
    *(83.58, 65.98, 88.48, 64.39, 40.16, 75.60, 82.83, 84.25, 76.65, 79.04, 84.82, 83.36, 71.76),
    *(83.45, 71.80, 71.32, 70.04, 87.91, 85.53, 74.23, 83.72, 82.74, 81.82, 79.35, 76.92),
])  # fmt: skip


def test_the_sample_convention_gives_the_error_that_sma_prints():
    assert round(spread(SMA_BIRDS) / 5, 2) == 2.04
    assert round(spread(SMA_BIRDS, ddof=0) / 5, 2) == 2.00  # the other convention would show
