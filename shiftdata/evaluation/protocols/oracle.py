"""NICO++'s upper bounds: models trained on the distribution of the test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.base import Stage, named
from shiftdata.evaluation.protocols.cuts import Shares, cut, cut_within
from shiftdata.evaluation.protocols.domains import ROLE, DomainProtocol
from shiftdata.evaluation.tasks import RowSet, Task
from shiftdata.evaluation.tasks.making import recut
from shiftdata.evaluation.tasks.sets import NewSet

#: Where each set begins and ends, in per cent: 7:1:2.
UPPER_BOUND: Shares = {"train": (0, 70), "validation": (70, 80), "test": (80, 100)}
#: The protocols whose tests have an upper bound.
BOUNDED = (
    "classic-dg", "domainbed", "domainbed-v2", "flexible-dg", "leave-one-domain-out", "leave-one-group-out"
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Oracle(DomainProtocol):
    """NICO++'s upper bound: a model trained on the distribution of the test, by a 7:1:2 cut of it.

    Alone it cuts all rows of the domains `test`, mixed. After a protocol that holds domains out, such as
    `flexible-dg & oracle`, it cuts the rows of that protocol's test, or those of them in `test`.
    """

    test: str | Sequence[str] = ()
    seed: int = 0
    id: ClassVar[str] = "oracle"
    works: ClassVar[Stage] = Stage.BOUND
    promises: ClassVar[Sequence[str]] = ("ratio",)
    paper: ClassVar[str] = "NICO++, appendix C.1"
    about: ClassVar[str] = "7:1:2 of the test domains together, or of the test of another protocol"

    def _check_order(self, task: Task) -> None:
        if task.history.stage != Stage.CUT or task.history.cut_by not in BOUNDED:
            super()._check_order(task)

    def make(self, task: Task) -> Task:
        tested = sorted(task.metadata.numbers("nuisance", named(self.test)))
        if task.history.cut_by:
            return self._of_test(task, tested)
        if not tested:
            raise InputError(
                f"{self.id} needs test=, the domains to cut, or one of {', '.join(BOUNDED)} before it, "
                "whose test it cuts"
            )
        condition = (task.metadata.nuisance_column, "in", tested)
        parts = cut(task.metadata, UPPER_BOUND, seed=self.seed)
        return recut(task, {name: NewSet(part, [condition], ROLE[name]) for name, part in parts.items()})

    def _of_test(self, task: Task, tested: Sequence[int]) -> Task:
        """Cut the rows that the task tests."""
        rows, tests = task.metadata, [rowset for rowset in task.sets.values() if rowset.role == "test"]
        indices = np.unique(np.concatenate([rowset.indices for rowset in tests]))
        scope = np.any([rowset.scope for rowset in tests], axis=0)
        expected = np.any([rowset.expected for rowset in tests], axis=0)
        if tested:
            indices = indices[np.isin(rows.nuisance[indices], tested)]
            scope = scope & np.isin(rows.groups[rows.nuisance_column], tested)
            if not len(indices):
                shown = ", ".join(rows.nuisances[number] for number in tested)
                raise InputError(
                    f"{task.describe()} tests no row of {shown}: leave test= out, or name others"
                )
        parts = cut_within(rows, indices, UPPER_BOUND, seed=self.seed, salt=self.id, may_lack="validation")
        reason, sets = f"it is a part of the test of {task.describe()}, by stable hash of origins", {}
        for name, part in parts.items():
            # A tenth of few rows may be none: no group is promised to the validation set.
            promised, roles = expected & scope & (name != "validation"), (ROLE[name],)
            sets[name] = RowSet(indices=part, expected=promised, scope=scope, roles=roles, reason=reason)
        return replace(task, sets=sets, history=replace(task.history, promises={}, leaky=False))


@dataclass(frozen=True, kw_only=True)
class OracleStar(Oracle):
    """NICO++'s second upper bound: a 7:1:2 cut of one test domain; a model for each."""

    test: str = ""
    id: ClassVar[str] = "oracle*"
    short: ClassVar[str] = "oracle_star"
    about: ClassVar[str] = "7:1:2 of one test domain, also of that of another protocol"

    def __post_init__(self) -> None:
        super().__post_init__()
        test: object = self.test
        if not isinstance(test, str) or not test:
            raise InputError(f"oracle* needs test=, the name of one domain, got {self.test!r}")
