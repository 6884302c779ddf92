"""What a method gets of a task: its sets by role, checked before a read, and their rows as numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.baselines.data import Data
from shiftdata.baselines.estimators import is_estimator
from shiftdata.baselines.inputs import SIDE, Form, Inputs, read_inputs
from shiftdata.baselines.method import Method
from shiftdata.baselines.models import backbone_of
from shiftdata.baselines.training import Training
from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray
from shiftdata.sampling import CellBatches, RowSampler, Sampler
from shiftdata.tasks import Task


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
        """The sets of a task; `name` is the one to fit, if not the first with that role."""
        fit = name or task.set_of("fit")
        check_needs(task, method, fit)
        roles = task.sets.items()
        target = next((one for one, rows in roles if "unlabelled" in rows.roles), None)
        tests = [task.rows(one) for one, rows in roles if rows.role == "test"]
        return cls(
            task,
            method,
            fit,
            target if "target" in method.needs else None,
            next((one for one, rows in roles if rows.role == "select"), None),
            np.unique(np.concatenate([np.zeros(0, np.int64), *tests])),
        )

    def read(
        self,
        backbone: Any,
        side: int | None,
        on_rows: Callable[[int], object],
        cache: bool | None = None,
    ) -> Inputs:
        """Read the examples of all sets, as a backbone reads them; `cache` as `read_inputs` has it."""
        form, usual = self._form(backbone)
        rows = [self.tested, *(self.task.rows(one) for one in (self.fit, self.select) if one)]
        if self.target:
            rows.append(self.task.rows(self.target, "unlabelled"))
        metadata = self.task.metadata
        return read_inputs(metadata, form, *rows, side=side or usual, cache=cache, on_rows=on_rows)

    def data(self, inputs: Inputs, training: Training, seed: int, *, test_steps: bool = False) -> Data:
        """The rows as a method may see them; with `test_steps` each evaluation predicts the test too."""
        task, metadata, counts = self.task, self.task.metadata, self.task.counts(self.fit)
        rows = task.rows(self.fit) if counts is None else np.repeat(task.rows(self.fit), counts)
        check_rows(rows, task.label_ids)
        _, group = np.unique(metadata.group[rows], return_inverse=True)
        _, domain = np.unique(metadata.nuisance[rows], return_inverse=True)
        sampler = self._sampler(training.batch or len(rows), int(domain.max()) + 1, seed)
        assert isinstance(sampler, RowSampler | CellBatches)  # batches were not asked for
        select = np.zeros(0, np.int64) if self.select is None else task.rows(self.select)
        select = select[np.isin(metadata.label[select], task.label_ids)]
        judged = len(select) > 0
        return Data(
            inputs,
            rows,
            task.remapped[metadata.label[rows]],
            len(task.label_ids),
            group,
            domain,
            sampler,
            target=None if self.target is None else task.rows(self.target, "unlabelled"),
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

    def _form(self, backbone: Any) -> tuple[Form, int]:
        """How a backbone reads the examples, and pictures in what size."""
        opened = self.task.metadata.dataset
        modality = "table" if opened is None else opened.manifest.roles.modality
        if is_estimator(backbone):
            return ("frozen" if modality == "image" else "scratch"), SIDE
        about = backbone_of(backbone) if isinstance(backbone, str) else None
        if about is None or modality == "table":
            return "scratch", SIDE
        if modality == "text":
            forms: dict[str, Form] = {"bytes": "bytes", "texts": "texts"}
            return forms.get(about.reads, "scratch"), SIDE
        return ("frozen" if about.reads == "numbers" else "scratch"), about.side


def check_rows(rows: IntArray, outputs: IntArray) -> None:
    """Refuse what cannot be learned from."""
    if not len(rows) or len(outputs) < 2:
        raise InputError(f"{len(rows):,} rows of {len(outputs)} classes: give rows of two classes or more")


def check_needs(task: Task, method: Method, name: str) -> None:
    """Refuse a task that lacks what a method needs, before anything is read."""
    if task.hides_labels(name):
        raise InputError(f"the labels of {name} are hidden: its role is unlabelled. Train on a set to fit")
    kind, rows, metadata = type(method).__name__, task.rows(name), task.metadata
    has = {
        "groups": len(np.unique(metadata.group[rows])) > 1,
        "domains": len(np.unique(metadata.nuisance[rows])) > 1,
        "target": any("unlabelled" in one.roles for one in task.sets.values()),
        "select": any(one.role == "select" for one in task.sets.values()),
        "pixels": metadata.dataset is not None and metadata.dataset.manifest.roles.modality == "image",
        "unknown": "universal" in task.metrics,
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
