"""The contents of a task as a record, a text table and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks.rows import CAUTION, TaskRows, empty_groups, leaking_origins
from shiftdata.evaluation.tasks.sets import Role, RowSet
from shiftdata.notebook import box, line, shown, table
from shiftdata.tables import aligned

if TYPE_CHECKING:
    from PIL import Image

HEADER = ("set", "role", "examples", "rows", "origins", "groups", "smallest", "largest", "empty")


@dataclass(frozen=True, kw_only=True)
class SetReport:
    """One set: its roles, examples (rows as often as they were drawn), origins, examples by group.

    `untouched` counts those of each label that are in no group; `empty` names the groups that its protocol
    promises and that have no row.
    """

    roles: tuple[Role, ...]
    examples: int
    rows: int
    origins: int
    counts: tuple[tuple[int, ...], ...]
    untouched: tuple[int, ...]
    empty: tuple[str, ...]

    @property
    def sizes(self) -> list[int]:
        return [count for row in self.counts for count in row if count]

    def line(self, name: str) -> list[str]:
        sizes = self.sizes or [0]
        numbers = [self.examples, self.rows, self.origins, len(self.sizes), min(sizes), max(sizes)]
        return [name, ", ".join(self.roles), *(f"{number:,}" for number in (*numbers, len(self.empty)))]


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """The contents of a task; `str` makes a table of it.

    `notes` are what the protocols asked for and met; those that begin with "caution" come first.
    """

    task: str
    dataset: str
    sets: Mapping[str, SetReport]
    leaks: int
    notes: tuple[str, ...]
    labels: tuple[str, ...]
    nuisances: tuple[str, ...]

    def __str__(self) -> str:
        body = [report.line(name) for name, report in self.sets.items()]
        numeric = [False, False, *[True] * (len(HEADER) - 2)]
        cautions = [note for note in self.notes if note.startswith(CAUTION)]
        lines = [self.task, f"of {self.dataset}", *cautions, "", aligned(HEADER, body, numeric)]
        for name, report in self.sets.items():
            if report.empty:
                more = f" and {len(report.empty) - 8} more" if len(report.empty) > 8 else ""
                lines.append(f"empty in {name}: {', '.join(report.empty[:8])}{more}")
        lines += [note for note in self.notes if note not in cautions]
        return "\n".join([*lines, self._leaks])

    @property
    def _leaks(self) -> str:
        return (
            f"leak: {self.leaks:,} origins are in two sets that should share none"
            if self.leaks
            else "no leak: training and test data share no origin"
        )

    __repr__ = __str__

    @shown
    def _repr_html_(self) -> str:
        from shiftdata.evaluation.charts import panel_html, panel_of

        rows = [report.line(name) for name, report in self.sets.items()]
        fit = next(
            (name for name, report in self.sets.items() if "fit" in report.roles), next(iter(self.sets))
        )
        counts = np.array(self.sets[fit].counts)
        panel = panel_of(f"{fit}: examples by group", self.labels, self.nuisances, counts)
        squares = "" if panel is None else panel_html(panel)
        notes = map(line, [self._leaks, *self.notes])
        return box(f"{self.task}, {self.dataset}", table("Sets", HEADER, rows), squares, *notes)

    def picture(self) -> Image.Image:
        """Draw a heat map of each set, side by side on one scale: the darker the more examples.

        Labels and nuisances without examples are left out.
        """
        from shiftdata.evaluation.charts import draw_panels, panel_of

        counts = {name: np.array(report.counts) for name, report in self.sets.items()}
        most = max((int(count.max(initial=0)) for count in counts.values()), default=0)
        panels = []
        for name, report in self.sets.items():
            title = f"{name}: {report.examples:,}, darkest {most:,}"
            panels.append(panel_of(title, self.labels, self.nuisances, counts[name], most))
        if not any(panels):
            raise InputError(f"{self.task} has no set of few enough groups to draw: see the report instead")
        return draw_panels([panel for panel in panels if panel is not None])


def report_of(task: TaskRows) -> Report:
    """Count what is in a task."""
    return Report(
        task=task.describe(),
        dataset=task.metadata.name,
        sets={name: _set_report(task, rows) for name, rows in task.sets.items()},
        leaks=len(leaking_origins(task)),
        notes=task.history.notes,
        labels=task.metadata.labels,
        nuisances=task.metadata.nuisances,
    )


def _set_report(task: TaskRows, rows: RowSet) -> SetReport:
    metadata = task.metadata
    group, label = metadata.group[rows.indices], metadata.label[rows.indices]
    shape = (len(metadata.labels), len(metadata.nuisances))

    def counted(codes: IntArray, mask: NDArray[np.bool_], length: int) -> IntArray:
        weights = None if rows.counts is None else rows.counts[mask]
        return np.bincount(codes[mask], weights, minlength=length).astype(np.int64)

    counts = counted(group, group >= 0, len(rows.expected))
    origins = np.zeros(metadata.n_origins, bool)
    origins[metadata.origin[rows.indices]] = True
    return SetReport(
        roles=rows.roles,
        examples=len(rows),
        rows=len(rows.indices),
        origins=int(origins.sum()),
        counts=tuple(map(tuple, counts.reshape(shape).tolist())),
        untouched=tuple(counted(label, (group < 0) & (label >= 0), shape[0]).tolist()),
        empty=tuple(map(metadata.group_name, empty_groups(task, rows).tolist())),
    )
