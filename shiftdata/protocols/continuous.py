"""Continuous shifts of CNS-Bench: complete trajectories over some shifts and severities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.format.conditions import numbers_in
from shiftdata.format.records import Filters
from shiftdata.metadata import Metadata
from shiftdata.protocols.base import Protocol, Stage, named
from shiftdata.tasks import Task
from shiftdata.tasks.making import narrow, recut, restrict
from shiftdata.tasks.sets import NewSet, Part


@dataclass(frozen=True, kw_only=True)
class Continuous(Protocol):
    """Trajectories that have every asked severity; empty `shifts` or `severities` are all of them.

    Its variant "paper" tests every row, and trains none: the models of the paper have been trained elsewhere.
    The rows of one origin under one shift are a trajectory, or those that your table names as one. `cells`
    makes a set of each shift at each severity, named `test/snow@1.5`; the cells of a set share its origins,
    so they are one side.
    """

    shifts: str | Sequence[str] = ()
    severities: float | Sequence[float] = ()
    cells: bool = False

    id: ClassVar[str] = "continuous"
    metrics: ClassVar[Sequence[str]] = ("continuous",)
    paper: ClassVar[str] = "CNS-Bench, section 3 and appendix A"
    about: ClassVar[str] = "shifts x severities, complete trajectories only"
    variants: ClassVar = {"paper": "every row is tested, none trains: models come trained"}

    @property
    def stage(self) -> Stage:
        if self.variant:
            return Stage.CUT
        return Stage.SPLIT if self.cells else Stage.ANY

    def make(self, task: Task) -> Task:
        rows = task.metadata
        if self.variant:
            task = recut(task, {"test": NewSet(Part(np.ones(len(rows), bool), []), [], "test")})
        steps = _steps(rows, np.atleast_1d(self.severities).tolist())
        present = rows.group_counts.reshape(-1, len(rows.nuisances)).any(axis=0)
        every = np.flatnonzero(present).tolist()
        shifts = sorted(rows.numbers("nuisance", named(self.shifts)) if self.shifts else every)
        filters: Filters = [[(rows.nuisance_column, "in", shifts), ("severity", "in", numbers_in(steps))]]
        made, complete = restrict(task, filters), _complete(rows, steps)
        for name, one in made.sets.items():
            kept = complete[one.indices]
            if not kept.all():
                reason = f"{np.count_nonzero(~kept):,} rows are of trajectories that lack a severity"
                made = narrow(made, name, kept, filters=filters, reason=reason)
        if not self.cells:
            return made
        sets = {}
        for (name, one), shift, step in product(made.sets.items(), shifts, steps):
            cell: Filters = [[(rows.nuisance_column, "==", shift), ("severity", "==", step)]]
            cut = restrict(made, cell, to=[name]).sets[name]
            if cut.scope.any():  # a set of other domains has no such cell
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
    severity, trajectory = rows.columns["severity"], rows.trajectory
    asked = np.flatnonzero(np.isin(severity, steps))
    step, size = np.searchsorted(steps, severity[asked]), int(trajectory.max(initial=-1)) + 1
    present = np.bincount(trajectory[asked] * len(steps) + step, minlength=size * len(steps))
    whole = (present.reshape(size, len(steps)) == 1).all(axis=1)
    complete = np.zeros(len(rows), bool)
    complete[asked] = whole[trajectory[asked]]
    return complete
