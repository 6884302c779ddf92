"""Cases that are many and alike: a third of them in every run, all by `make test-slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from shiftdata.stable import hash64


def a_third(cases: Iterable[Any]) -> list[Any]:
    """The cases, two thirds of them marked slow: always the same, whatever is added."""
    return [
        pytest.param(*of, marks=[pytest.mark.slow] if hash64("thirds", *map(str, of)) % 3 else [])
        for of in (case if isinstance(case, tuple) else (case,) for case in cases)
    ]
