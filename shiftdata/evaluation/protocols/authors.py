"""The splits that a dataset's authors publish, row by row and under their names, whatever leaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.base import Protocol, Stage
from shiftdata.evaluation.protocols.halves import BY_LIST
from shiftdata.evaluation.tasks import Role, Task
from shiftdata.evaluation.tasks.making import noted, recut, without_promises
from shiftdata.evaluation.tasks.sets import NewSet, Part


@dataclass(frozen=True, kw_only=True)
class AuthorsSplit(Protocol):
    """The base of protocols without parameters, whose sets are domains of their names, else authors' lists.

    A build gives each set files of its own, so that plain `datasets` reads all of them as one config, the
    default of the dataset.
    """

    #: The role of each set, those that select and test by default before others.
    roles: ClassVar[Mapping[str, Role]]
    #: The sets that a dataset need not have.
    optional: ClassVar[Sequence[str]] = ()

    works: ClassVar[Stage] = Stage.CUT
    leaking: ClassVar[Sequence[str]] = ("",)
    from_files: ClassVar[Sequence[str]] = ("",)
    own_files: ClassVar[bool] = True

    def make(self, task: Task) -> Task:
        metadata, sets = task.metadata, {}
        names, placed = np.array(metadata.nuisances), np.zeros(len(metadata), bool)
        are_domains = {"train", "test"} <= set(metadata.nuisances)
        for name, role in self.roles.items():
            if are_domains:
                rows = np.isin(metadata.nuisance, np.flatnonzero(names == name))
            else:
                rows = metadata.listed(name, optional=name in self.optional)
            if not rows.any() and name not in self.optional:
                raise InputError(f"no row of {metadata.name} is in {name}: {self.id} needs all its files")
            if rows.any():
                nuisances = np.unique(metadata.nuisance[rows])
                # A set of whole domains is a filter: camelyon17's test is all patches of one hospital.
                whole = np.array_equal(np.isin(metadata.nuisance, nuisances), rows)
                part = Part(rows, [], "") if whole else Part(rows, None, BY_LIST)
                sets[name] = NewSet(part, [(metadata.nuisance_column, "in", nuisances.tolist())], role)
            placed |= rows
        result = without_promises(recut(task, sets))
        left = int(np.count_nonzero(~placed))
        return noted(result, f"{left:,} rows are in none of the authors' sets") if left else result


@dataclass(frozen=True, kw_only=True)
class Wilds(AuthorsSplit):
    """The official splits of a dataset of WILDS: its package's train, val, test, and id_val and id_test.

    `val` and `test` are out of distribution: by them WILDS selects and judges. `id_val` and `id_test` are of
    the domains of `train`, and there only where the dataset has them.
    """

    roles: ClassVar[Mapping[str, Role]] = {
        "train": "fit",
        "val": "select",
        "test": "test",
        "id_val": "select",
        "id_test": "test",
    }
    optional: ClassVar[Sequence[str]] = ("id_val", "id_test")
    id: ClassVar[str] = "wilds"
    paper: ClassVar[str] = (
        "WILDS: a benchmark of in-the-wild distribution shifts; released code, version 2.0.0"
    )
    about: ClassVar[str] = "the official splits of WILDS"
    metrics: ClassVar[Sequence[str]] = ("wilds",)


@dataclass(frozen=True, kw_only=True)
class Official(AuthorsSplit):
    """The authors' train, validation and test: the domains of these names, as in VisDA, else their lists.

    Rows of other domains, or in none of the lists, are left out. A method that adapts gives the set that it
    adapts to a second role, `task.also("test", "unlabelled")`.
    """

    roles: ClassVar[Mapping[str, Role]] = {"train": "fit", "validation": "select", "test": "test"}
    optional: ClassVar[Sequence[str]] = ("validation",)
    id: ClassVar[str] = "official"
    paper: ClassVar[str] = "the paper of each dataset, such as VisDA: the visual domain adaptation challenge"
    about: ClassVar[str] = "the authors' own training, validation and test sets"
    metrics: ClassVar[Sequence[str]] = ("adaptation",)
