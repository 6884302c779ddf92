"""Continuous shifts of CNS-Bench: complete trajectories over some shifts and severities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.format.conditions import numbers_in
from shiftdata.data.format.records import Filters
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.base import Protocol, Stage, named
from shiftdata.evaluation.tasks import RowSet, Task
from shiftdata.evaluation.tasks.making import narrow, recut, restrict
from shiftdata.evaluation.tasks.sets import Indices, NewSet, Part


@dataclass(frozen=True, kw_only=True)
class Continuous(Protocol):
    """Trajectories that have every asked severity; empty `shifts` or `severities` are all that there are.

    Its variant "paper" tests every row, and trains none: the models of the paper have been trained elsewhere.
    The rows of one origin under one shift are a trajectory, or those that your table names as one. `cells`
    makes a set of each shift at each severity, named `test/snow@1.5`; the cells of a set share its origins,
    so they are one side. A protocol that draws later draws whole trajectories.
    """

    shifts: str | Sequence[str] = ()
    severities: float | Sequence[float] = ()
    cells: bool = False

    id: ClassVar[str] = "continuous"
    works: ClassVar[Stage] = Stage.KEEP
    promises: ClassVar[Sequence[str]] = ("trajectories",)
    metrics: ClassVar[Sequence[str]] = ("continuous",)
    paper: ClassVar[str] = "CNS-Bench, section 3 and appendix A"
    about: ClassVar[str] = "shifts x severities, complete trajectories only"
    variants: ClassVar = {"paper": "every complete trajectory is tested, none trains: models come trained"}

    @property
    def stage(self) -> Stage:
        if self.variant:
            return Stage.CUT
        return Stage.SPLIT if self.cells else self.works

    @property
    def leaves(self) -> Stage:
        return Stage.SPLIT if self.cells else self.stage

    @property
    def promised(self) -> Sequence[str]:
        more = [*(["every-row"] if self.variant else []), *(["one-cell"] if self.cells else [])]
        return (*super().promised, *more)

    def parts(self) -> tuple[Protocol, ...]:
        """Trajectories are chosen before shares and draws, and made into cells after them."""
        return (replace(self, cells=False), replace(self, variant="")) if self.cells else (self,)

    def make(self, task: Task) -> Task:
        rows = task.metadata
        if self.variant:
            task = recut(task, {"test": NewSet(Part(np.ones(len(rows), bool), []), [], "test")})
        present = np.flatnonzero(rows.group_counts.reshape(-1, len(rows.nuisances)).any(axis=0)).tolist()
        shifts = sorted(set(rows.numbers("nuisance", named(self.shifts)))) if self.shifts else present
        steps = _steps(task, np.atleast_1d(self.severities).tolist())
        filters: Filters = [[(rows.nuisance_column, "in", shifts), ("severity", "in", numbers_in(steps))]]
        result, whole = restrict(task, filters), _whole(rows, np.arange(len(rows)), steps)
        notes = [*result.history.notes]
        for name, rowset in result.sets.items():
            complete = _whole(rows, rowset.indices, steps)
            self._check_drawn(task, name, rowset, whole & ~complete)
            mask = complete[rows.trajectory[rowset.indices]]
            if not mask.all():
                left_out = len(np.unique(rows.trajectory[rowset.indices[~mask]]))
                reason = f"{np.count_nonzero(~mask):,} rows are of trajectories that lack a severity"
                result = narrow(result, name, mask, filters=filters, reason=reason)
                notes.append(f"{left_out:,} trajectories of {name} lack a severity and are left out")
        result = replace(result, history=replace(result.history, notes=tuple(notes)))
        return self._cut_into_cells(result, shifts, steps) if self.cells else result

    def _cut_into_cells(self, task: Task, shifts: Sequence[int], steps: Sequence[float]) -> Task:
        rows, sets = task.metadata, {}
        for (name, rowset), shift, step in product(task.sets.items(), shifts, steps):
            cell: Filters = [[(rows.nuisance_column, "==", shift), ("severity", "==", step)]]
            cut = restrict(task, cell, to=[name]).sets[name]
            if cut.scope.any():  # a set of other domains has no such cell
                sets[f"{name}/{rows.nuisances[shift]}@{step:g}"] = replace(cut, side=rowset.side or name)
        return replace(task, sets=sets)

    def _check_drawn(self, task: Task, name: str, rows: RowSet, torn: NDArray[np.bool_]) -> None:
        """Refuse a set in which an earlier protocol has a part of a trajectory that the dataset has whole."""
        lost = int(torn[np.unique(task.metadata.trajectory[rows.indices])].sum())
        if lost:
            raise InputError(
                f"{task.describe()} drew rows, and {self.id} needs whole trajectories: {lost:,} of {name} "
                "are cut apart. Take a protocol that cuts by origin, or leave one of them out"
            )


def _steps(task: Task, asked: Sequence[float]) -> list[float]:
    """Return the asked severities, or all that the sets of a task have."""
    rows = task.metadata
    severity = rows.columns["severity"]
    present = np.unique(
        np.concatenate([severity[rowset.indices] for rowset in task.sets.values()] or [severity])
    )
    steps: list[float] = present[~np.isnan(present)].tolist()
    if not steps:
        raise InputError(f"{rows.name} has no severities: `continuous` is for continuous shifts")
    for step in asked:
        if step not in steps:
            listed = ", ".join(f"{step:g}" for step in steps)
            after = f" after {task.describe()}" if task.history.steps else ""
            raise InputError(f"{rows.name} has no severity {step:g}{after}: take some of {listed}")
    return sorted(set(asked)) or steps


def _whole(rows: Metadata, indices: Indices, steps: Sequence[float]) -> NDArray[np.bool_]:
    """Mark the trajectories of which some rows have each of some severities once."""
    severity, trajectory = rows.columns["severity"], rows.trajectory
    asked = indices[np.isin(severity[indices], steps)]
    step, size = np.searchsorted(steps, severity[asked]), int(trajectory.max(initial=-1)) + 1
    times = np.bincount(trajectory[asked] * len(steps) + step, minlength=size * len(steps))
    whole: NDArray[np.bool_] = (times.reshape(size, len(steps)) == 1).all(axis=1)
    return whole
