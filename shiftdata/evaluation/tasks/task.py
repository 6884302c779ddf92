"""Tasks: named sets of rows that a protocol makes from a dataset's metadata. No pixel is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from shiftdata.data.format.schema import SPLITS
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks.evaluation import evaluate as evaluate_predictions
from shiftdata.evaluation.tasks.frozen import drawn_rows, freeze, read_frozen
from shiftdata.evaluation.tasks.reading import dataset as read_dataset
from shiftdata.evaluation.tasks.reading import loader as make_loader
from shiftdata.evaluation.tasks.reading import sampler as make_sampler
from shiftdata.evaluation.tasks.report import Report, report_of
from shiftdata.evaluation.tasks.rows import TaskRows, check_leaks, description_of, row_set
from shiftdata.evaluation.tasks.sets import CANONICAL_ROLES, History, Indices, Role, RowSet
from shiftdata.notebook import line, shown

#: The sides of sets that only their roles tell: those of one side may share origins.
SIDES = {"fit": "train", "unlabelled": "train", "select": "validation", "test": "test"}
#: Rows that are counted for a notebook, in half a second.
MOST_ROWS = 10_000_000


class Task(TaskRows):
    """Named sets of rows of one base: read them, evaluate predictions for them, report what is in them.

    A protocol makes a new task from a task; see `shiftdata.evaluation.tasks.making`.
    """

    sampler = make_sampler
    dataset = read_dataset
    loader = make_loader
    evaluate = evaluate_predictions

    def also(self, name: str, role: Literal["unlabelled"]) -> Task:
        """Give a set a second role: a method that adapts at test time sees `test` as "unlabelled".

        The task, and every record of it, says so from then on.
        """
        rows = row_set(self, name)
        if role in rows.roles:
            return self
        if role != "unlabelled":
            raise InputError(
                f"{name} has the role {rows.role}, and the second role of a set can only be 'unlabelled', "
                f"got {role!r}"
            )
        return replace(
            self,
            sets={**self.sets, name: replace(rows, roles=(*rows.roles, role))},
            history=replace(self.history, steps=(*self.history.steps, f"{name} also {role}")),
        )

    @shown
    def _repr_html_(self) -> str:
        rows = sum(len(rows.indices) for rows in self.sets.values())
        return self.report()._repr_html_() or "" if rows <= MOST_ROWS else line(repr(self))

    def report(self) -> Report:
        """Count rows, origins and groups of each set, empty groups and leaks; also drawn as a picture."""
        return report_of(self)

    def freeze(self, path: str | Path) -> str:
        """Write key, split (the set's name) and count as Parquet; return the content hash."""
        return freeze(self.metadata, self.sets, Path(path), description_of(self))


def canonical_task(metadata: Metadata) -> Task:
    """Return the sets train, validation and test of the `split` column."""
    split, groups = metadata.columns["split"], metadata.group_counts > 0
    sets = {}
    for number, name in enumerate(SPLITS):
        rows = np.flatnonzero(split == number)
        if len(rows):
            sets[name] = RowSet(
                indices=rows,
                expected=groups,
                scope=np.ones(len(groups), bool),
                roles=(CANONICAL_ROLES[name],),
                filters=[[("split", "==", name)]],
            )
    task = Task(metadata, sets)
    check_leaks(task)
    return task


def frozen_task(metadata: Metadata, path: Path) -> Task:
    """Return the task that `freeze` wrote, over the metadata from which it was made."""
    about, rows = read_frozen(metadata, path)
    sets = {
        name: _chosen_rows(
            metadata,
            indices,
            counts,
            roles=about.roles.get(name, (CANONICAL_ROLES.get(name, "test"),)),
            empty=about.empty.get(name, ()),
            reason="it was frozen as keys",
            side=about.sides.get(name, ""),
        )
        for name, (indices, counts) in rows.items()
    }
    steps = about.history or (f"frozen({path.name})",)
    task = Task(metadata, sets, History(steps=steps, metrics=about.metrics, notes=about.notes))
    check_leaks(task, warn=True)
    return task


def task_in_tars(metadata: Metadata, metrics: Sequence[str]) -> Task:
    """Return the task that tars contain: its rows, each with the number of its samples as count."""
    assert metadata.dataset is not None
    assert metadata.task is not None
    roles = metadata.task.roles
    sets = {
        name: _chosen_rows(
            metadata,
            rows,
            counts,
            roles=roles[name],
            reason="it is in tars of its own",
            side=SIDES[roles[name][0]],
        )
        for name, (rows, counts) in drawn_rows(metadata.dataset, metadata.base).items()
    }
    return Task(metadata, sets, History(steps=(metadata.task.protocol,), metrics=tuple(metrics)))


def _chosen_rows(
    metadata: Metadata,
    indices: Indices,
    counts: Indices | None,
    *,
    roles: Sequence[Any],
    empty: Sequence[int] = (),
    **fields: Any,
) -> RowSet:
    """Return a set that should have the groups that it has, and those in `empty`."""
    groups = np.zeros(len(metadata.group_counts), bool)
    group = metadata.group[indices]
    groups[group[group >= 0]] = True
    groups[list(empty)] = True
    role: tuple[Role, ...] = tuple(roles)
    return RowSet(indices=indices, expected=groups, scope=groups, roles=role, counts=counts, **fields)
