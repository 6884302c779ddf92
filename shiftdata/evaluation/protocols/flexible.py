"""Flexible domain generalization of NICO++ (section 5.3): each class has its own domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.base import first_of_each
from shiftdata.evaluation.protocols.domains import ROLE, DomainProtocol, train_parts
from shiftdata.evaluation.tasks import RowSet, Task
from shiftdata.evaluation.tasks.making import pool
from shiftdata.evaluation.tasks.sets import Indices
from shiftdata.stable import hash64

EVERY = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class FlexibleDG(DomainProtocol):
    """Each class trains in some dominant and some minor domains and is tested in others.

    A class keeps every row of a dominant domain, and at most `per_domain` rows of a minor or a test domain.
    Dominant domains are drawn from the common ones, those of every class. A fifth of the training rows
    becomes the validation set, of which the paper says nothing.
    """

    dominant: int = 2
    minor: int = 12
    test: int | None = None
    exclusive: int = 4
    per_domain: int = 50
    seed: int = 0

    id: ClassVar[str] = "flexible-dg"
    promises: ClassVar[Sequence[str]] = ("per-cell",)
    short: ClassVar[str] = "flexible"
    paper: ClassVar[str] = "NICO++, section 5.3"
    about: ClassVar[str] = "training and test domains drawn for each class; 2 dominant, 12 minor, 6 test"
    variants: ClassVar = {
        "compositional": "dominant domains come from 4 that only train, minor and test (4) from all others",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = (self.dominant, self.minor + 1, self.tested, self.per_domain, self.exclusive)
        if min(numbers) < 1:
            raise InputError("dominant, test, exclusive and per_domain are at least 1, minor at least 0")

    @property
    def tested(self) -> int:
        """The number of test domains of a class."""
        return self.test if self.test is not None else (4 if self.variant else 6)

    def draw(self, task: Task) -> dict[int, tuple[list[int], list[int], list[int]]]:
        """Return the dominant, minor and test domains of each label."""
        rows = task.metadata
        has = rows.group_counts.reshape(len(rows.labels), len(rows.nuisances)) > 0
        labels = np.flatnonzero(has.any(axis=1)).tolist()
        common = np.flatnonzero(has[labels].all(axis=0)).tolist()
        exclusive = self._ordered(task, common, "exclusive")[: self.exclusive]
        drawn = {}
        for label in labels:
            name = rows.labels[label]
            source = exclusive if self.variant else common
            dominant = self._ordered(task, source, "dominant", name)[: self.dominant]
            taken = exclusive if self.variant else dominant
            left = [domain for domain in np.flatnonzero(has[label]).tolist() if domain not in taken]
            rest = self._ordered(task, left, "rest", name)[: self.minor + self.tested]
            if len(dominant) < self.dominant or len(rest) < self.minor + self.tested:
                raise InputError(
                    f"{name} has {int(has[label].sum())} domains, {len(common)} are common; flexible-dg "
                    f"takes {self.dominant} dominant, {self.minor} minor and {self.tested} test ones: lower"
                    " dominant, minor or test"
                )
            drawn[label] = (dominant, rest[: self.minor], rest[self.minor :])
        return drawn

    def make(self, task: Task) -> Task:
        rows, whole, parts = task.metadata, pool(task), train_parts(task, self.seed)
        limits = {name: np.zeros(len(rows.group_counts), np.int64) for name in ("train", "test")}
        for label, (dominant, minor, tested) in self.draw(task).items():
            base = label * len(rows.nuisances)
            limits["train"][[base + domain for domain in dominant]] = EVERY
            limits["train"][[base + domain for domain in minor]] = self.per_domain
            limits["test"][[base + domain for domain in tested]] = self.per_domain
        validates = parts["validation"].rows
        allowed = {"train": parts["train"].rows | validates, "test": parts["test"].rows}
        chosen = {name: self._first(task, whole.indices, limits[name], allowed[name]) for name in limits}
        validated = validates[chosen["train"]]
        chosen |= {"train": chosen["train"][~validated], "validation": chosen["train"][validated]}
        reason = f"it takes {self.per_domain} rows of a class in a domain, by stable hash of their keys"
        sets = {}
        for name in ("train", "validation", "test"):
            scope = limits["test" if name == "test" else "train"] > 0
            # A fifth of few rows may be none: no group is promised to the validation set.
            expected = whole.expected & scope & (name != "validation")
            sets[name] = RowSet(
                indices=chosen[name], expected=expected, scope=scope, roles=(ROLE[name],), reason=reason
            )
        return replace(task, sets=sets)

    def _first(self, task: Task, indices: Indices, limit: Indices, allowed: NDArray[np.bool_]) -> Indices:
        """Return the first rows of each group, as many as its limit, in the order of their hashes."""
        rows = task.metadata
        indices = indices[(limit[rows.group] > 0)[indices] & allowed[indices] & (rows.nuisance[indices] >= 0)]
        group = rows.group[indices].astype(np.int64)
        mask = limit[group] == EVERY
        limited = np.flatnonzero(~mask)
        order = rows.hashes(indices[limited], self.id, self.seed)
        mask[limited] = first_of_each(group[limited], order, limit)
        chosen: Indices = indices[mask]
        return chosen

    def _ordered(self, task: Task, domains: Sequence[int], *salt: str) -> list[int]:
        names = task.metadata.nuisances
        return sorted(domains, key=lambda domain: hash64(self.id, self.seed, *salt, names[domain]))
