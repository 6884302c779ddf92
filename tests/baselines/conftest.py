from __future__ import annotations

import pytest

from shiftdata.baselines import Data
from tests.baselines.problems import problem


@pytest.fixture(scope="module")
def data() -> Data:
    return problem()
