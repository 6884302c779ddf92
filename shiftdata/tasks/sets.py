"""The sets of a task: which rows, how often, by which filters, and which groups should have some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.format.manifest import Filters

Indices: TypeAlias = NDArray[np.int64]
#: What to do about a group that a protocol promises and that has no row: refuse, or say n = 0 in the report.
OnEmpty: TypeAlias = Literal["error", "report"]


class LeakWarning(UserWarning):
    """A task made by a leaking variant of a paper: an origin is on two of its sides."""


@dataclass(frozen=True, eq=False)
class RowSet:
    """Some rows of the metadata.

    `counts` says how often each row was drawn, where rows were drawn with replacement. `filters` keep
    exactly these rows, where any do; else `reason` says why none do. `side` names what the set belongs to:
    sets of one side may share origins. `expected` are the groups that should have a row.
    """

    indices: Indices
    expected: NDArray[np.bool_]
    counts: Indices | None = None
    filters: Filters | None = None
    reason: str = ""
    side: str = ""

    def __len__(self) -> int:
        """How many examples: rows, each as often as it was drawn."""
        return len(self.indices) if self.counts is None else int(self.counts.sum())
