"""The splits that a dataset's authors publish, row by row and under their names, whatever leaks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.base import Protocol, Stage
from shiftdata.evaluation.protocols.halves import BY_LIST
from shiftdata.evaluation.tasks import Role, Task
from shiftdata.evaluation.tasks.making import noted, recut
from shiftdata.evaluation.tasks.sets import NewSet, Part


@dataclass(frozen=True, kw_only=True)
class AuthorsSplit(Protocol):
    """The base of protocols without parameters, whose sets are the authors' own.

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

    @abstractmethod
    def rows(self, metadata: Metadata, name: str) -> NDArray[np.bool_]:
        """Mark the rows of a set."""

    def make(self, task: Task) -> Task:
        metadata, column = task.metadata, task.metadata.nuisance_column
        sets, placed = {}, np.zeros(len(metadata), bool)
        for name, role in self.roles.items():
            rows = self.rows(metadata, name)
            if not rows.any():
                if name in self.optional:
                    continue
                raise InputError(f"no row of {metadata.name} is in {name}: {self.id} needs all its files")
            placed |= rows
            nuisances = np.unique(metadata.nuisance[rows])
            # A set of whole domains is a filter: camelyon17's test is all patches of one hospital.
            whole = np.array_equal(np.isin(metadata.nuisance, nuisances), rows)
            part = Part(rows, [], "") if whole else Part(rows, None, BY_LIST)
            sets[name] = NewSet(part, [(column, "in", nuisances.tolist())], role)
        result = recut(task, sets)
        for name, rowset in result.sets.items():
            present = np.zeros(len(rowset.expected), bool)
            present[metadata.group[rowset.indices]] = True  # the authors promise no group
            result = replace(
                result, sets={**result.sets, name: replace(rowset, expected=rowset.expected & present)}
            )
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

    def rows(self, metadata: Metadata, name: str) -> NDArray[np.bool_]:
        return listed(metadata, name, self.optional)


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

    def rows(self, metadata: Metadata, name: str) -> NDArray[np.bool_]:
        if {"train", "test"} <= set(metadata.nuisances):
            number = metadata.nuisances.index(name) if name in metadata.nuisances else len(metadata.nuisances)
            mask: NDArray[np.bool_] = metadata.nuisance == number
            return mask
        return listed(metadata, name, self.optional)


def listed(metadata: Metadata, name: str, optional: Sequence[str]) -> NDArray[np.bool_]:
    """Mark the rows of an authors' list; none if it is optional and not there."""
    if name in optional and name not in metadata.listing.places:
        return np.zeros(len(metadata), bool)
    mask: NDArray[np.bool_] = metadata.listing.places_in(name, metadata.name) >= 0
    return mask
