"""The sets of a task: which rows, how often, for what, and by which filters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.format.records import Clause, Filters

Indices: TypeAlias = NDArray[np.int64]
Groups: TypeAlias = NDArray[np.bool_]
#: What a set is for: to train with labels, to train without them, to choose models, or to test.
Role: TypeAlias = Literal["fit", "unlabelled", "select", "test"]
ROLES: tuple[Role, ...] = ("fit", "unlabelled", "select", "test")
#: What to do about a group that a protocol promises and that has no row: refuse, or say n = 0 in the report.
OnEmpty: TypeAlias = Literal["error", "report"]


class LeakWarning(UserWarning):
    """A task made by a leaking variant of a paper: an origin is on two of its sides."""


def different(numbers: NDArray[np.integer]) -> Indices:
    """The small numbers that occur, sorted; -1 too. Millions are counted faster than sorted."""
    return np.flatnonzero(np.bincount(numbers + 1)) - 1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RowSet:
    """Some rows of the metadata.

    The first of `roles` is the set's own. `counts` says how often each row was drawn, where rows were drawn
    with replacement. `filters` keep exactly these rows, where any do; else `reason` says why none do. `side`
    names what the set belongs to: sets of one side may share origins. `scope` are the groups that the set may
    contain by its rule, `expected` those of them that should have a row.
    """

    indices: Indices
    expected: Groups
    scope: Groups
    roles: tuple[Role, ...]
    counts: Indices | None = field(default=None)
    filters: Filters | None = None
    reason: str = ""
    side: str = ""

    def __len__(self) -> int:
        """How many examples: rows, each as often as it was drawn."""
        return len(self.indices) if self.counts is None else int(self.counts.sum())

    def __repr__(self) -> str:
        groups = int(self.expected.sum())
        return f"<RowSet {' and '.join(self.roles)}: {len(self):,} examples in {groups:,} groups>"

    @property
    def role(self) -> Role:
        return self.roles[0]


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a dataset: conditions that keep exactly these, or the reason why none do."""

    rows: NDArray[np.bool_]
    clause: Clause | None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class NewSet:
    """A set that a protocol cuts: a part of the dataset, some labels and nuisances of it, and its role."""

    part: Part
    conditions: Clause
    role: Role
    side: str = ""
