"""What a method gets of a task: its sets by role, checked before a read, and their rows as numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from shiftdata.baselines.method import Method, Setup
from shiftdata.baselines.sources import form_of, source_of
from shiftdata.baselines.training import Training
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.sources import Source
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import CellBatches, RowSampler, Sampler
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.rows import counts_of, hides_labels
from shiftdata.evaluation.tasks.sets import Role


@dataclass(frozen=True, eq=False)
class Data:
    """The rows of a training. Labels of `target` are not here, nor groups: no method can see them.

    rows, target and select are rows of the base; y, group and domain have a number from 0 for each of `rows`.
    """

    source: Source
    rows: IntArray
    y: IntArray
    classes: int
    group: IntArray
    domain: IntArray
    sampler: RowSampler | CellBatches
    target: IntArray | None = None
    target_sampler: RowSampler | None = None
    select: IntArray | None = None
    select_y: IntArray | None = None
    select_group: IntArray | None = None
    #: Rows that are predicted at each evaluation too, and that no method gets to know of.
    tested: IntArray | None = None

    def known(self, features: int) -> Setup:
        """Return what a method may know before the first step."""
        groups, domains = (int(column.max(initial=-1)) + 1 for column in (self.group, self.domain))
        of_group = np.zeros((2, groups), np.int64)
        of_group[:, self.group] = self.y, self.domain
        columns = ((self.y, self.classes), (self.group, groups), (self.domain, domains))
        counts = [torch.from_numpy(np.bincount(column, minlength=size)) for column, size in columns]
        return Setup(
            classes=self.classes,
            groups=groups,
            domains=domains,
            rows=len(self.rows),
            target_rows=0 if self.target is None else len(self.target),
            features=features,
            class_counts=counts[0],
            group_counts=counts[1],
            domain_counts=counts[2],
            group_class=torch.from_numpy(of_group[0]),
            group_domain=torch.from_numpy(of_group[1]),
        )


@dataclass(frozen=True, eq=False)
class TaskSets:
    """The sets of a task by what a method does with them; those that it does not need are None."""

    task: Task
    method: Method
    fit: str
    target: str | None
    select: str | None
    #: The rows of every set that tests.
    tested: IntArray

    @classmethod
    def of(cls, task: Task, method: Method, name: str | None) -> TaskSets:
        """Find the sets of a task; `name` is the training set, if not the first with the role "fit"."""
        fit = name or task.set_of("fit")
        check_needs(task, method, fit)
        target = next((name for name, rows in task.sets.items() if "unlabelled" in rows.roles), None)
        select = next((name for name, rows in task.sets.items() if rows.role == "select"), None)
        tests = [task.rows(name) for name, rows in task.sets.items() if rows.role == "test"]
        tested = np.unique(np.concatenate([np.zeros(0, np.int64), *tests]))
        return cls(task, method, fit, target if "target" in method.needs else None, select, tested)

    def source(
        self,
        backbone: Any,
        side: int | None = None,
        on_rows: Callable[[int], object] = int,
        cache: bool | None = None,
    ) -> Source:
        """Return what a backbone reads of all sets; features that are not cached yet are made now."""
        rows = [self.tested, *(self.task.rows(name) for name in (self.fit, self.select) if name)]
        if self.target:
            rows.append(self.task.rows(self.target, "unlabelled"))
        form, usual = form_of(self.task.metadata, backbone)
        return source_of(self.task.metadata, form, *rows, side=side or usual, cache=cache, on_rows=on_rows)

    def data(self, source: Source, training: Training, seed: int, *, test_steps: bool = False) -> Data:
        """Return the rows as a method sees them; with `test_steps` evaluations predict the test set too."""
        task, metadata = self.task, self.task.metadata
        rows = self._drawn(self.fit)
        check_rows(rows, task.label_ids)
        _, group = np.unique(metadata.group[rows], return_inverse=True)
        _, domain = np.unique(metadata.nuisance[rows], return_inverse=True)
        sampler = self._sampler(training.batch or len(rows), int(domain.max()) + 1, seed)
        assert isinstance(sampler, RowSampler | CellBatches)  # batches were not asked for
        select = np.zeros(0, np.int64) if self.select is None else task.rows(self.select)
        select = select[np.isin(metadata.label[select], task.label_ids)]
        judged = len(select) > 0
        return Data(
            source,
            rows,
            task.remapped[metadata.label[rows]],
            len(task.label_ids),
            group,
            domain,
            sampler,
            target=None if self.target is None else self._drawn(self.target, "unlabelled"),
            target_sampler=self._target_sampler(seed + 1),
            select=select if judged else None,
            select_y=task.remapped[metadata.label[select]] if judged else None,
            select_group=metadata.group[select] if judged else None,
            tested=self.tested if test_steps else None,
        )

    def _sampler(self, batch: int, domains: int, seed: int) -> Sampler:
        rule = self.method.sampler
        if rule != "per-domain":
            return self.task.sampler(rule, self.fit, seed=seed)
        if batch < domains:
            raise InputError(f"a batch of {batch} has no room for {domains} domains: give {domains} or more")
        equal = batch - batch % domains  # equally many of each domain
        return self.task.sampler(rule, self.fit, seed=seed, batch_size=equal)

    def _drawn(self, name: str, role: Role | None = None) -> IntArray:
        """Return the rows of a set, each as often as it was drawn."""
        rows, counts = self.task.rows(name, role), counts_of(self.task, name, role)
        return rows if counts is None else np.repeat(rows, counts)

    def _target_sampler(self, seed: int) -> RowSampler | None:
        if self.target is None or not len(self.task.rows(self.target, "unlabelled")):
            return None
        sampler = self.task.sampler("shuffle", self.target, role="unlabelled", seed=seed)
        assert isinstance(sampler, RowSampler)
        return sampler


def check_rows(rows: IntArray, outputs: IntArray) -> None:
    """Refuse what cannot be learned from."""
    if not len(rows) or len(outputs) < 2:
        raise InputError(f"{len(rows):,} rows of {len(outputs)} classes: give rows of two classes or more")


def check_needs(task: Task, method: Method, name: str) -> None:
    """Refuse a task that lacks what a method needs, before anything is read."""
    if hides_labels(task, name):
        raise InputError(f"the labels of {name} are hidden: its role is unlabelled. Train on a set to fit")
    kind, rows, metadata = type(method).__name__, task.rows(name), task.metadata
    has = {
        "groups": len(np.unique(metadata.group[rows])) > 1,
        "domains": len(np.unique(metadata.nuisance[rows])) > 1,
        "target": any("unlabelled" in one.roles for one in task.sets.values()),
        "select": any(one.role == "select" for one in task.sets.values()),
        "pixels": metadata.dataset is not None and metadata.dataset.manifest.roles.modality == "image",
        "unknown": "universal" in task.history.metrics,
    }
    why = {
        "groups": f"rows of several groups, and {name} has one",
        "domains": f"rows of several domains, and {name} has one",
        "target": "a set with the role 'unlabelled': a task of uda or label-shift has one, "
        "and task.also('test', 'unlabelled') gives a set that role besides",
        "select": "a set with the role 'select'",
        "pixels": "pictures",
        "unknown": "a task whose target has classes of its own, such as unida",
    }
    for need in sorted(method.needs & has.keys()):
        if not has[need]:
            sets = ", ".join(f"{one} ({rows.role})" for one, rows in task.sets.items())
            raise InputError(f"{kind} needs {why[need]}; {task.describe()} has {sets}")
