"""The strata of origins, within which folds are ranked."""

from __future__ import annotations

import numpy as np
import pytest

from shiftdata.data import arrays
from shiftdata.data.metadata.folds import strata

#: Label, nuisance and origin of each row: no row has origin 0; 7 has several labels and nuisances.
ROWS = np.array(
    [(2, 0, 1), (2, 0, 2), (2, 0, 3), (2, 0, 4), (0, 1, 5), (0, -1, 6), (2, 0, 7), (1, 2, 7), (1, 2, 8)]
).T


@pytest.mark.parametrize("stretch", [1, 4, 100])
@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("order", [1, -1])
def test_strata_of_one_nuisance_of_several_and_of_few_origins(
    stretch: int, kind: type, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "STRETCH", stretch)
    label, nuisance, origin = ROWS.astype(kind)[:, ::order]
    # Four origins of group (2, 0) are enough for a stratum; those of (0, 1) and (1, 2) are pooled.
    assert strata(label, nuisance, origin, pool="nuisance").tolist() == [0, 4, 4, 4, 4, 2, 0, 1, 3]
    assert strata(label, nuisance, origin, pool="label").tolist() == [0, 2, 2, 2, 2, 0, 0, 1, 1]
