"""Continuous shifts of CNS-Bench: complete trajectories over some shifts and severities."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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

#: CNS-Bench's two families of its 14 shifts (appendix A.1.3), each shift by a word of its name.
FAMILIES: Mapping[str, Sequence[str]] = {
    "style": ("cartoon", "plush", "sketch", "painting", "sculpture", "graffiti", "video", "tattoo"),
    "weather": ("snow", "rain", "fog", "smog", "dust", "sandstorm"),
}


@dataclass(frozen=True, kw_only=True)
class Continuous(Protocol):
    """Trajectories that have every asked severity; empty `shifts` or `severities` are all that there are.

    `shifts` names shifts, or families of CNS-Bench: "style" is eight of its shifts, "weather" six.
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
        shifts, steps = self._shifts(rows), _steps(task, np.atleast_1d(self.severities).tolist())
        filters: Filters = [[(rows.nuisance_column, "in", shifts), ("severity", "in", numbers_in(steps))]]
        made, whole = restrict(task, filters), _whole(rows, np.arange(len(rows)), steps)
        notes = [*made.notes, *self._families(rows)]
        for name, one in made.sets.items():
            complete = _whole(rows, one.indices, steps)
            self._check_drawn(task, name, one, whole & ~complete)
            kept = complete[rows.trajectory[one.indices]]
            if not kept.all():
                left = len(np.unique(rows.trajectory[one.indices[~kept]]))
                reason = f"{np.count_nonzero(~kept):,} rows are of trajectories that lack a severity"
                made = narrow(made, name, kept, filters=filters, reason=reason)
                notes.append(f"{left:,} trajectories of {name} lack a severity and are left out")
        made = replace(made, notes=tuple(notes))
        return self._cut_into_cells(made, shifts, steps) if self.cells else made

    def _cut_into_cells(self, made: Task, shifts: Sequence[int], steps: Sequence[float]) -> Task:
        rows, sets = made.metadata, {}
        for (name, one), shift, step in product(made.sets.items(), shifts, steps):
            cell: Filters = [[(rows.nuisance_column, "==", shift), ("severity", "==", step)]]
            cut = restrict(made, cell, to=[name]).sets[name]
            if cut.scope.any():  # a set of other domains has no such cell
                sets[f"{name}/{rows.nuisances[shift]}@{step:g}"] = replace(cut, side=one.side or name)
        return replace(made, sets=sets)

    def _check_drawn(self, task: Task, name: str, rows: RowSet, torn: NDArray[np.bool_]) -> None:
        """Refuse a set in which an earlier protocol has a part of a trajectory that the dataset has whole."""
        lost = int(torn[np.unique(task.metadata.trajectory[rows.indices])].sum())
        if lost:
            raise InputError(
                f"{task.describe()} drew rows, and {self.id} needs whole trajectories: {lost:,} of {name} "
                "are cut apart. Take a protocol that cuts by origin, or leave one of them out"
            )

    def _shifts(self, rows: Metadata) -> list[int]:
        """The numbers of the shifts, those of a family for its name."""
        present = rows.group_counts.reshape(-1, len(rows.nuisances)).any(axis=0)
        if not self.shifts:
            return np.flatnonzero(present).tolist()
        chosen: set[int] = set()
        for name in named(self.shifts):
            chosen |= set(_family(rows, name) or rows.numbers("nuisance", [name]))
        return sorted(chosen)

    def _families(self, rows: Metadata) -> list[str]:
        """What the named families are in this dataset."""
        return [
            f"{name}: {', '.join(rows.nuisances[number] for number in members)}"
            for name in named(self.shifts)
            if (members := _family(rows, name))
        ]


def _family(rows: Metadata, name: str) -> list[int]:
    """The shifts of a family; none where the dataset has a shift of that name, or the name is no family."""
    if name not in FAMILIES or name in rows.nuisances:
        return []
    words = [set(re.split(r"[^a-z0-9]+", shift.lower())) for shift in rows.nuisances]
    members = [number for number, mine in enumerate(words) if mine & set(FAMILIES[name])]
    if not members:
        raise InputError(
            f"{name} is a family of CNS-Bench ({', '.join(FAMILIES[name])}), and {rows.name} has none of it: "
            f"name shifts of {', '.join(rows.nuisances)}"
        )
    return members


def _steps(task: Task, asked: Sequence[float]) -> list[float]:
    """The asked severities, or all that the sets of a task have."""
    rows = task.metadata
    severity = rows.columns["severity"]
    present = np.unique(np.concatenate([severity[one.indices] for one in task.sets.values()] or [severity]))
    known: list[float] = present[~np.isnan(present)].tolist()
    if not known:
        raise InputError(f"{rows.name} has no severities: `continuous` is for continuous shifts")
    for step in asked:
        if step not in known:
            listed = ", ".join(f"{one:g}" for one in known)
            after = f" after {task.describe()}" if task.history else ""
            raise InputError(f"{rows.name} has no severity {step:g}{after}: take some of {listed}")
    return sorted(set(asked)) or known


def _whole(rows: Metadata, indices: Indices, steps: Sequence[float]) -> NDArray[np.bool_]:
    """Of each trajectory, whether some rows have it at each of some severities once."""
    severity, trajectory = rows.columns["severity"], rows.trajectory
    asked = indices[np.isin(severity[indices], steps)]
    step, size = np.searchsorted(steps, severity[asked]), int(trajectory.max(initial=-1)) + 1
    times = np.bincount(trajectory[asked] * len(steps) + step, minlength=size * len(steps))
    whole: NDArray[np.bool_] = (times.reshape(size, len(steps)) == 1).all(axis=1)
    return whole
