"""Every row is a test: models that were trained elsewhere are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shiftdata.evaluation.protocols.base import named
from shiftdata.evaluation.protocols.domains import DomainProtocol
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.making import recut
from shiftdata.evaluation.tasks.sets import NewSet, Part


@dataclass(frozen=True, kw_only=True)
class EvaluateOnly(DomainProtocol):
    """One set, `test`, with every row of some domains, by default of all; nothing trains."""

    test: str | Sequence[str] = ()

    id: ClassVar[str] = "evaluate-only"
    promises: ClassVar[Sequence[str]] = ("every-row",)
    paper: ClassVar[str] = "Do ImageNet classifiers generalize to ImageNet?; The many faces of robustness"
    about: ClassVar[str] = "every row is tested, none trains: models come trained"

    def make(self, task: Task) -> Task:
        rows = task.metadata
        tested = sorted(rows.numbers("nuisance", named(self.test))) if self.test else []
        chosen = [(rows.nuisance_column, "in", tested)] if tested else []
        every = Part(np.ones(len(rows), bool), [])
        return recut(task, {"test": NewSet(every, [*chosen], "test")})
