"""The sets of a task: which rows, how often, in which role, by which filters; and how they came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import counted
from shiftdata.data.format.records import Clause, Filters

Indices: TypeAlias = NDArray[np.int64]
Groups: TypeAlias = NDArray[np.bool_]
#: What a set is for: to train with labels, to train without them, to choose models, or to test.
Role: TypeAlias = Literal["fit", "unlabelled", "select", "test"]
ROLES: tuple[Role, ...] = ("fit", "unlabelled", "select", "test")
CANONICAL_ROLES: Mapping[str, Role] = {"train": "fit", "validation": "select", "test": "test"}
#: What to do about a group that a protocol promises and that has no row: refuse, or report n = 0.
OnEmpty: TypeAlias = Literal["error", "report"]


class TaskWarning(UserWarning):
    """A task that is not what its protocol promises."""


class OneClassWarning(UserWarning):
    """Nearly all rows of a set with several classes are predicted to be of one."""


class MuWarning(TaskWarning):
    """A share of few rows is far from the mu that was asked for."""


class LeakWarning(TaskWarning):
    """A task made by a leaking variant of a paper: an origin is on two of its sides."""


def different(numbers: NDArray[np.integer]) -> Indices:
    """Return the small numbers that occur, sorted; -1 too. Counting is faster than sorting millions."""
    counts = counted(numbers, int(numbers.max(initial=-1)) + 1)
    return np.flatnonzero(np.append(len(numbers) - counts.sum(), counts)) - 1


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
        """Count the examples: rows, each as often as it was drawn."""
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


@dataclass(frozen=True, kw_only=True)
class History:
    """The origin of a task.

    `steps` are the protocols in order, `metrics` the names of their official metrics, `notes` what they asked
    for and met. `stage` says how far the making is: a task whose sets were cut, or whose rows were chosen,
    cannot be cut again. `cut_by` is the protocol that cut the sets, `promises` are those that hold, each with
    the protocol that made it.
    """

    steps: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    leaky: bool = False
    stage: int = 0
    cut_by: str = ""
    promises: Mapping[str, str] = field(default_factory=dict)
