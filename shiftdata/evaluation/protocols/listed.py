"""Splits by the list files that the authors of a dataset, or of a paper on it, give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.protocols.base import named
from shiftdata.evaluation.protocols.domains import DomainProtocol, rows_from_files
from shiftdata.evaluation.tasks import Task

#: The ends of the names of the lists that train, validate and test.
LISTS = {
    "kfold": ("train_kfold", "crossval_kfold", "test_kfold"),
    "train-test": ("train", "test", "test"),
    "train-val-test": ("train", "val", "test"),
}
SETS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class Listed(DomainProtocol):
    """The sets of the authors' lists: those of the training domains train and validate, the others test.

    `lists` names what trains, validates and tests: "kfold" of PACS, "train-test" of DomainNet,
    "train-val-test" of NICO++, or the ends of the names of three lists.
    """

    test: str | Sequence[str]
    lists: str | Sequence[str] = "kfold"
    id: ClassVar[str] = "listed"
    said: ClassVar[Sequence[str]] = ("lists",)
    paper: ClassVar[str] = "the list files that come with a dataset"
    about: ClassVar[str] = "the sets of the authors' lists, some domains tested"
    leaking: ClassVar = ("",)
    from_files: ClassVar = ("",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.lists, str) and self.lists not in LISTS:
            raise not_found("lists", self.lists, LISTS, "Or give the names of three.")
        if len(self._lists) != 3:
            raise InputError(f"lists are three, to train, validate and test, got {self.lists!r}")

    @property
    def _lists(self) -> Sequence[str]:
        return LISTS[self.lists] if isinstance(self.lists, str) else self.lists

    def make(self, task: Task) -> Task:
        rows, names = task.metadata, dict(zip(SETS, self._lists, strict=True))
        parts = {name: rows.listing.places_in(list_, rows.name) >= 0 for name, list_ in names.items()}
        return rows_from_files(task, parts, named(self.test), names)
