"""Operations of protocols on tasks: cut the sets again, keep some of their rows, or choose rows.

No task is changed: each function gives a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import numbered
from shiftdata.data.format.conditions import both, either, matches
from shiftdata.data.format.records import Filters
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks.rows import empty_groups, row_set
from shiftdata.evaluation.tasks.sets import Groups, Indices, NewSet, RowSet
from shiftdata.evaluation.tasks.task import Task

#: Advice about groups without rows, where a protocol knows nothing better.
ADVICE = "take a larger base or other parameters"


def restrict(task: Task, filters: Filters, *, to: Sequence[str] | None = None) -> Task:
    """Keep, in each set (or those in `to`), the rows that some filters keep."""
    scope = matches(task.metadata.groups, filters)
    for name in task.sets if to is None else to:
        rows = row_set(task, name)
        mask = _matching(task, rows, filters)
        task = _narrowed(task, name, mask, rows.filters and both(rows.filters, filters), rows.reason, scope)
    return task


def narrow(
    task: Task,
    name: str,
    mask: NDArray[np.bool_],
    *,
    filters: Filters,
    reason: str = "",
    scope: Groups | None = None,
) -> Task:
    """Keep the rows of a set that a rule wants.

    The set gets the filters if they keep the same rows, else the reason why none do. `scope` are the groups
    that may remain; by default those that the filters can keep.
    """
    rows = task.sets[name]
    scope = matches(task.metadata.groups, filters) if scope is None else scope
    if rows.filters is not None and np.array_equal(_matching(task, rows, filters), mask):
        return _narrowed(task, name, mask, both(rows.filters, filters), "", scope)
    return _narrowed(task, name, mask, None, rows.reason or reason, scope)


def _matching(task: Task, rows: RowSet, filters: Filters) -> NDArray[np.bool_]:
    """Mark the rows of a set that some filters keep."""
    metadata = task.metadata
    if len(filters) < 2:
        return matches(metadata.columns, filters, rows.indices)
    # Many clauses, as a rule of a few groups has, are compared with the rows of these groups only.
    scope = np.append(matches(metadata.groups, filters), True)  # the last is for rows without a group
    mask = scope[metadata.group[rows.indices]]
    mask[mask] = matches(metadata.columns, filters, rows.indices[mask])
    return mask


def _narrowed(
    task: Task, name: str, mask: NDArray[np.bool_], filters: Filters | None, reason: str, scope: Groups
) -> Task:
    rows = task.sets[name]
    narrowed = replace(
        rows,
        indices=rows.indices[mask],
        counts=None if rows.counts is None else rows.counts[mask],
        filters=filters,
        reason=reason,
        expected=rows.expected & scope,
        scope=rows.scope & scope,
    )
    return replace(task, sets={**task.sets, name: narrowed})


def choose(
    task: Task, name: str, indices: Indices, reason: str, *, counts: Indices | None = None, **more: Any
) -> Task:
    """Change a set to chosen rows, which no filters can keep for a reason; `more` are fields of it."""
    order = np.argsort(indices)
    counts = None if counts is None else counts[order]
    rows = replace(
        task.sets[name], indices=indices[order], counts=counts, filters=None, reason=reason, **more
    )
    return replace(task, sets={**task.sets, name: rows})


def noted(task: Task, *notes: str) -> Task:
    """Add notes to the history of a task."""
    return replace(task, history=replace(task.history, notes=(*task.history.notes, *notes)))


def pool(task: Task) -> RowSet:
    """The rows that are in any set."""
    if any(rows.counts is not None for rows in task.sets.values()):
        raise InputError("rows drawn with replacement cannot be cut again: draw them in the last protocol")
    sets = task.sets.values()
    member = np.zeros(len(task.metadata), bool)
    for rows in sets:
        member[rows.indices] = True
    return RowSet(
        indices=np.flatnonzero(member),
        expected=np.any([rows.expected for rows in sets], axis=0),
        scope=np.any([rows.scope for rows in sets], axis=0),
        roles=("fit",),
        filters=either([rows.filters for rows in sets]),
        reason=next((rows.reason for rows in sets if rows.filters is None), ""),
    )


def recut(task: Task, sets: Mapping[str, NewSet]) -> Task:
    """Make new sets of the rows that are in any set."""
    whole, recut_sets = pool(task), {}
    member = np.zeros(len(task.metadata), bool)
    member[whole.indices] = True
    columns, groups = task.metadata.columns, task.metadata.groups
    for name, new in sets.items():
        conditions = [new.conditions]
        mask = matches(columns, conditions) & new.part.rows
        scope = matches(groups, conditions)
        clause, filters = new.part.clause, whole.filters
        if clause is not None and filters is not None:
            filters = both(filters, [[*clause, *new.conditions]])
        recut_sets[name] = replace(
            whole,
            indices=np.flatnonzero(mask & member),
            expected=whole.expected & scope,
            scope=whole.scope & scope,
            roles=(new.role,),
            filters=None if clause is None else filters,
            reason=new.part.reason or whole.reason,
            side=new.side,
        )
    return replace(task, sets=recut_sets)


def without_promises(task: Task) -> Task:
    """Expect no group in a set but those that it has: a cut by others promises none."""
    sets = {}
    for name, rows in task.sets.items():
        expected = rows.expected.copy()
        expected[empty_groups(task, rows)] = False
        sets[name] = replace(rows, expected=expected)
    return replace(task, sets=sets)


def of_trajectories(task: Task) -> bool:
    """Return True if the task is of complete trajectories, which are drawn whole."""
    return "continuous" in task.history.metrics


def units(task: Task, name: str) -> tuple[Indices, NDArray[np.int64]]:
    """Return what a draw takes whole: the place in a set of one row of each unit, and the unit of each row.

    A unit is a row; in a task of complete trajectories it is a trajectory, represented by its first row.
    """
    rows = task.sets[name]
    if not of_trajectories(task):
        every = np.arange(len(rows.indices))
        return every, every
    severity, trajectory = task.metadata.columns["severity"], task.metadata.trajectory[rows.indices]
    order = np.lexsort((severity[rows.indices], trajectory))
    begins = np.append(True, np.diff(trajectory[order]) != 0)[: len(order)]
    first = np.sort(order[begins])
    number = np.zeros(int(trajectory.max(initial=-1)) + 1, np.int64)
    number[trajectory[first]] = np.arange(len(first))
    return first, number[trajectory]


def check_whole(task: Task, made_by: str) -> None:
    """Refuse a task whose sets have a part of a trajectory, or its rows not equally often."""
    severity, trajectory = task.metadata.columns["severity"], task.metadata.trajectory
    for name, rows in task.sets.items():
        steps, step = numbered(severity[rows.indices])
        wide = max(1, len(steps))
        flat: NDArray[Any] = np.bincount(trajectory[rows.indices] * wide + step, rows.counts)
        times = np.append(flat, np.zeros(-len(flat) % wide)).reshape(-1, wide)
        times = times[times.any(axis=1)]
        torn = int((times != times[:, :1]).any(axis=1).sum())
        if torn:
            raise InputError(
                f"{made_by} would leave {torn:,} of {len(times):,} trajectories of {name} incomplete: drop "
                "continuous, or take what keeps or leaves out whole origins, such as a condition on fold"
            )


def check_empty(task: Task, advice: str = ADVICE) -> None:
    """Refuse a task without a test, a set without rows, or groups that should have rows and have none."""
    if all(rows.role != "test" for rows in task.sets.values()):
        raise InputError(
            f"{task.describe()} has no test set, only {', '.join(task.sets)}: take a larger base or "
            'another column of splits, or on_empty="report" to go on without'
        )
    for name, rows in task.sets.items():
        if not len(rows):
            raise InputError(f"{task.describe()} leaves {name} without a row: {advice}")
        if len(empty := empty_groups(task, rows)):
            shown = ", ".join(map(task.metadata.group_name, empty[:5].tolist()))
            raise InputError(
                f"{task.describe()} leaves {len(empty)} groups of {name} without a row "
                f"({shown}{' ...' if len(empty) > 5 else ''}): {advice}, "
                'or on_empty="report" to have them as n = 0'
            )
