"""How protocols make a task from a task: cut its sets again, keep some rows of them, or choose rows.

No task is changed: each function gives a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.format.conditions import both, either, matches
from shiftdata.data.format.records import Filters
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks.sets import Groups, Indices, NewSet, RowSet

if TYPE_CHECKING:
    from shiftdata.evaluation.tasks.task import Task

#: What to do about groups without rows, where a protocol knows nothing better.
ADVICE = "take a larger base or other parameters"


def restrict(task: Task, filters: Filters, *, to: Sequence[str] | None = None) -> Task:
    """Keep, in each set (or those in `to`), the rows that some filters keep."""
    scope = matches(task.metadata.groups, filters)
    for name in task.sets if to is None else to:
        rows = task.row_set(name)
        kept = _matching(task, rows, filters)
        task = _narrowed(task, name, kept, rows.filters and both(rows.filters, filters), rows.reason, scope)
    return task


def narrow(
    task: Task,
    name: str,
    kept: NDArray[np.bool_],
    *,
    filters: Filters,
    reason: str = "",
    scope: Groups | None = None,
) -> Task:
    """Keep some rows of a set: those that a rule wants.

    Where the filters keep the same rows they stand for the rule, else the reason says why none do.
    `scope` are the groups that may remain; by default those that the filters can keep.
    """
    rows = task.row_set(name)
    scope = matches(task.metadata.groups, filters) if scope is None else scope
    if rows.filters is not None and np.array_equal(_matching(task, rows, filters), kept):
        return _narrowed(task, name, kept, both(rows.filters, filters), "", scope)
    return _narrowed(task, name, kept, None, rows.reason or reason, scope)


def _matching(task: Task, rows: RowSet, filters: Filters) -> NDArray[np.bool_]:
    """Which rows of a set some filters keep."""
    metadata = task.metadata
    if len(filters) < 2:
        return matches(metadata.columns, filters, rows.indices)
    # Many clauses, as a rule of a few groups has, look at the rows of these groups only.
    scope = np.append(matches(metadata.groups, filters), True)  # the last is for rows without a group
    kept = scope[metadata.group[rows.indices]]
    kept[kept] = matches(metadata.columns, filters, rows.indices[kept])
    return kept


def _narrowed(
    task: Task, name: str, kept: NDArray[np.bool_], filters: Filters | None, reason: str, scope: Groups
) -> Task:
    rows = task.row_set(name)
    narrowed = replace(
        rows,
        indices=rows.indices[kept],
        counts=None if rows.counts is None else rows.counts[kept],
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
        task.row_set(name), indices=indices[order], counts=counts, filters=None, reason=reason, **more
    )
    return replace(task, sets={**task.sets, name: rows})


def pool(task: Task) -> RowSet:
    """The rows that are in any set."""
    if any(rows.counts is not None for rows in task.sets.values()):
        raise InputError("rows drawn with replacement cannot be cut again: draw them in the last protocol")
    sets = task.sets.values()
    member = np.zeros(len(task.metadata), dtype=bool)
    expected, scope = (np.zeros(len(task.metadata.group_counts), dtype=bool) for _ in range(2))
    for rows in sets:
        member[rows.indices] = True
        expected |= rows.expected
        scope |= rows.scope
    filters = either([rows.filters for rows in sets])
    reason = next((rows.reason for rows in sets if rows.filters is None), "")
    return RowSet(
        indices=np.flatnonzero(member),
        expected=expected,
        scope=scope,
        roles=("fit",),
        filters=filters,
        reason=reason,
    )


def recut(task: Task, sets: Mapping[str, NewSet]) -> Task:
    """Make new sets of the rows that are in any set."""
    whole = pool(task)
    member = np.zeros(len(task.metadata), bool)
    member[whole.indices] = True
    columns, groups = task.metadata.columns, task.metadata.groups
    made = {}
    for name, new in sets.items():
        conditions = [new.conditions]
        mask = matches(columns, conditions) & new.part.rows
        scope = matches(groups, conditions)
        clause, filters = new.part.clause, whole.filters
        if clause is not None and filters is not None:
            filters = both(filters, [[*clause, *new.conditions]])
        made[name] = replace(
            whole,
            indices=np.flatnonzero(mask & member),
            expected=whole.expected & scope,
            scope=whole.scope & scope,
            roles=(new.role,),
            filters=None if clause is None else filters,
            reason=new.part.reason or whole.reason,
            side=new.side,
        )
    return replace(task, sets=made)


def units(task: Task, name: str) -> tuple[Indices, NDArray[np.int64]]:
    """What a draw takes whole: the place in a set of one row of each unit, and the unit of each row.

    A unit is a row; in a task of complete trajectories it is a trajectory, for which its first row stands.
    """
    rows = task.row_set(name)
    if task.unit == "row":
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
    """Refuse a task whose sets have a part of a trajectory, or its rows in different numbers."""
    severity, trajectory = task.metadata.columns["severity"], task.metadata.trajectory
    for name, rows in task.sets.items():
        steps, step = np.unique(severity[rows.indices], return_inverse=True)
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


def check_empty(task: Task, advice: Callable[[], str] = lambda: ADVICE) -> None:
    """Refuse a task without a test, a set without rows, or groups that should have rows and have none.

    `advice` says what to do about such groups.
    """
    if all(one.role != "test" for one in task.sets.values()):
        raise InputError(
            f"{task.describe()} has no set to test, only {', '.join(task.sets)}: take a larger base or "
            'another column of splits, or on_empty="report" to go on without'
        )
    for name, one in task.sets.items():
        if not len(one):
            raise InputError(f"{task.describe()} leaves {name} without a row: {advice()}")
        if empty := task.empty_groups(one):
            shown = ", ".join(empty[:5]) + (" ..." if len(empty) > 5 else "")
            raise InputError(
                f"{task.describe()} leaves {len(empty)} groups of {name} without a row ({shown}): "
                f'{advice()}, or on_empty="report" to have them as n = 0'
            )
