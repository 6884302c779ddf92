"""Each set of a task once a domain, as DomainBed keeps its splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from shiftdata.data.format.records import Filters
from shiftdata.evaluation.protocols.base import Protocol, Stage
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.making import restrict
from shiftdata.evaluation.tasks.sets import different


@dataclass(frozen=True, kw_only=True)
class PerDomain(Protocol):
    """Every set becomes one of each of its domains, `train/photo`, with the same roles.

    To be joined with a protocol that cuts domains: `domainbed & per-domain`.
    """

    id: ClassVar[str] = "per-domain"
    promises: ClassVar[Sequence[str]] = ("one-cell",)
    works: ClassVar[Stage] = Stage.SPLIT
    paper: ClassVar[str] = "In search of lost domain generalization (DomainBed); released code"
    about: ClassVar[str] = "every set once a domain"

    def make(self, task: Task) -> Task:
        rows = task.metadata
        sets = {}
        for name, one in task.sets.items():
            for domain in different(rows.nuisance[one.indices]).tolist():
                of_domain: Filters = [[(rows.nuisance_column, "==", domain)]]
                cut = restrict(task, of_domain, to=[name]).sets[name]
                sets[f"{name}/{rows.nuisances[domain]}"] = replace(cut, side=one.side or name)
        return replace(task, sets=sets)
