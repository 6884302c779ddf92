"""Continuous shifts of CNS-Bench: complete trajectories over some shifts and severities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.format.manifest import Filters
from shiftdata.metadata import Metadata
from shiftdata.protocols.base import Protocol, named
from shiftdata.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Continuous(Protocol):
    """Trajectories that have every asked severity; empty `shifts` or `severities` are all of them.

    The rows of one (split, group, quantile) are a trajectory. `cells` makes a set of each shift at each
    severity, named `test/snow@1.5`; the cells of a set share its origins, so they are one side.
    """

    shifts: str | Sequence[str] = ()
    severities: Sequence[float] = ()
    cells: bool = False

    id: ClassVar[str] = "continuous"
    paper: ClassVar[str] = "CNS-Bench, section 3 and appendix A"
    about: ClassVar[str] = "shifts x severities, complete trajectories only"

    def make(self, task: Task) -> Task:
        rows = task.metadata
        steps = _steps(rows, self.severities)
        shifts = rows.numbers("nuisance", named(self.shifts)) if self.shifts else range(len(rows.nuisances))
        made = task.restrict([[(rows.nuisance_column, "in", sorted(shifts)), ("severity", "in", steps)]])
        complete = _complete(rows, steps)
        for name, one in made.sets.items():
            kept = complete[one.indices]
            if not kept.all():
                reason = f"{np.count_nonzero(~kept):,} rows are of trajectories that lack a severity"
                counts = None if one.counts is None else one.counts[kept]
                made = made.choose(name, one.indices[kept], reason, counts=counts)
        if not self.cells:
            return made
        sets = {}
        for (name, one), shift, step in product(made.sets.items(), sorted(shifts), steps):
            cell: Filters = [[(rows.nuisance_column, "==", shift), ("severity", "==", step)]]
            cut = made.restrict(cell, to=[name]).sets[name]
            sets[f"{name}/{rows.nuisances[shift]}@{step:g}"] = replace(cut, side=one.side or name)
        return replace(made, sets=sets)


def _steps(rows: Metadata, asked: Sequence[float]) -> list[float]:
    severity = rows.columns["severity"]
    known: list[float] = np.unique(severity[~np.isnan(severity)]).tolist()
    if not known:
        raise InputError(f"{rows.name} has no severities: `continuous` is for continuous shifts")
    for step in asked:
        if step not in known:
            listed = ", ".join(f"{one:g}" for one in known)
            raise InputError(f"{rows.name} has no severity {step:g}; it has {listed}")
    return sorted(set(asked)) or known


def _complete(rows: Metadata, steps: Sequence[float]) -> NDArray[np.bool_]:
    """Which rows are of a trajectory that has each of some severities once."""
    columns = rows.columns
    asked = np.flatnonzero(np.isin(columns["severity"], steps))
    parts = (columns["severity"], columns["quantile"], rows.group, columns["split"])
    order = asked[np.lexsort(tuple(part[asked] for part in parts))]
    ordered = [part[order] for part in parts]
    changes = np.zeros(len(order), bool)
    for part in ordered[1:]:
        changes[1:] |= part[1:] != part[:-1]
    trajectory = np.cumsum(changes)
    repeated = np.zeros(len(order), bool)
    repeated[1:] = ~changes[1:] & (ordered[0][1:] == ordered[0][:-1])
    counts = np.bincount(trajectory, minlength=1)
    doubled = np.bincount(trajectory, repeated, minlength=1)
    whole = np.zeros(len(rows), bool)
    whole[order] = ((counts == len(steps)) & (doubled == 0))[trajectory]
    return whole
