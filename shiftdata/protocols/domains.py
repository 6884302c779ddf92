"""Domain generalization: train in some domains, test in others.

Where origins occur in several domains, training takes train-fold rows of the training domains and the test
takes test-fold rows of the held-out ones. Where they do not, whole domains as in the papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from shiftdata.errors import InputError, not_found
from shiftdata.format.manifest import Filters
from shiftdata.metadata.folds import cut
from shiftdata.protocols.base import Protocol, named
from shiftdata.tasks import Task

#: The groups of domains that are left out together (DomainBed-v2, section 3.1).
GROUPS = {
    "nico++": (("autumn", "rock"), ("dim", "grass"), ("outdoor", "water")),
    "domainnet": (("clipart", "infograph"), ("painting", "quickdraw"), ("real", "sketch")),
}

#: The common domains of NICO++, those of every class; the others are of some classes alone.
COMMON = ("autumn", "dark", "dim", "grass", "indoor", "outdoor", "rock", "sand", "water", "winter")

#: The test domains of the three splits of NICO++ (section 5.2 and appendix C.3); the other common ones train.
CLASSIC = (
    ("sand", "winter", "outdoor", "dark"),
    ("autumn", "winter", "dark", "dim"),
    ("rock", "indoor", "outdoor", "dim"),
)

WHOLE = {"paper": "whole domains even where origins occur in several: they leak into the test"}


class _HoldOut(Protocol):
    """Train (80 %) and validation (20 %) of the training domains, test in the held-out ones."""

    seed: int
    variant: str
    variants: ClassVar = WHOLE
    leaking: ClassVar = ("paper",)

    def __post_init__(self) -> None:
        self.check_variant(self.variant)

    def held_out(self, task: Task) -> Sequence[str]:
        """The names of the test domains."""
        raise NotImplementedError

    def taking_part(self, task: Task) -> Sequence[str]:
        """The names of the domains that train or are tested: all."""
        return task.metadata.nuisances

    def make(self, task: Task) -> Task:
        """Cut the sets train, validation and test."""
        tested, trained = _domains(task, self.held_out(task), self.taking_part(task))
        column = task.metadata.nuisance_column
        whole = self.variant == "paper" or not task.metadata.origins_shared
        folds = cut(
            {"train": 80, "validation": 20} if whole else {"train": 50, "validation": 20, "test": 30},
            self.seed,
        )
        parts: dict[str, Filters] = {
            name: [[*folds[name], (column, "in", trained)]] for name in ("train", "validation")
        }
        return task.recut({**parts, "test": [[*folds.get("test", []), (column, "in", tested)]]})


@dataclass(frozen=True, kw_only=True)
class HoldOut(_HoldOut):
    """DomainBed-v2's protocol: any test domains, all of each; 80/20 of the others to train and validate."""

    test: str | Sequence[str]
    seed: int = 0
    variant: str = ""
    id: ClassVar[str] = "domainbed-v2"
    paper: ClassVar[str] = "Rethinking the evaluation protocol of domain generalization, section 3.1"
    about: ClassVar[str] = "whole test domains, 80/20 of the training domains"

    def held_out(self, task: Task) -> Sequence[str]:
        """As they are given."""
        return named(self.test)


@dataclass(frozen=True, kw_only=True)
class LeaveOneDomainOut(_HoldOut):
    """One domain is tested, all others train."""

    test: str
    seed: int = 0
    variant: str = ""
    id: ClassVar[str] = "leave-one-domain-out"
    paper: ClassVar[str] = "In search of lost domain generalization (DomainBed); DomainBed-v2, section 3.1"
    about: ClassVar[str] = "one domain is tested, all others train"

    def held_out(self, task: Task) -> Sequence[str]:
        """The one."""
        return named(self.test)


@dataclass(frozen=True, kw_only=True)
class LeaveOneGroupOut(_HoldOut):
    """One group of domains is tested, the other groups train.

    `groups` is "nico++", "domainnet", or groups of names; `group` is the number of the tested one, from 1.
    """

    group: int
    groups: str | Sequence[Sequence[str]] = "nico++"
    seed: int = 0
    variant: str = ""
    id: ClassVar[str] = "leave-one-group-out"
    paper: ClassVar[str] = "Rethinking the evaluation protocol of domain generalization, section 3.1"
    about: ClassVar[str] = "one of three groups of domains is tested, the others train"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.groups, str) and self.groups not in GROUPS:
            raise not_found("groups of domains", self.groups, GROUPS, "Or give tuples of names.")
        if not 1 <= self.group <= len(self._groups):
            raise InputError(f"group is a number from 1 to {len(self._groups)}, got {self.group}")

    @property
    def _groups(self) -> Sequence[Sequence[str]]:
        return GROUPS[self.groups] if isinstance(self.groups, str) else self.groups

    def held_out(self, task: Task) -> Sequence[str]:
        """The domains of the group."""
        return self._groups[self.group - 1]

    def taking_part(self, task: Task) -> Sequence[str]:
        """The domains of every group; one of no group is left out."""
        grouped = {name for group in self._groups for name in group}
        return [name for name in task.metadata.nuisances if name in grouped]


@dataclass(frozen=True, kw_only=True)
class ClassicDG(_HoldOut):
    """One of the three splits of NICO++'s ten common domains into six that train and four that are tested.

    Domains that only some classes have (the unique ones) take no part.
    """

    split: int = 1
    seed: int = 0
    variant: str = ""
    id: ClassVar[str] = "classic-dg"
    paper: ClassVar[str] = "NICO++, section 5.2 and appendix C.3"
    about: ClassVar[str] = "six common domains train, four are tested; three splits"
    variants: ClassVar = {
        **WHOLE,
        "public": "of the test domains only those that there are: the public files have 6 of 10",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.split <= len(CLASSIC):
            raise InputError(f"split is 1, 2 or 3, got {self.split}")

    def held_out(self, task: Task) -> Sequence[str]:
        """The four of the split."""
        names = CLASSIC[self.split - 1]
        if not self.taking_part(task):
            raise InputError(
                f"classic-dg is of NICO++'s common domains ({', '.join(COMMON)}), and {task.metadata.name} "
                f"has {', '.join(task.metadata.nuisances)}: take leave-one-domain-out, domainbed or "
                "domainbed-v2 with domains of its own"
            )
        if self.variant != "public":
            return names
        return [name for name in names if name in task.metadata.nuisances] or names

    def taking_part(self, task: Task) -> Sequence[str]:
        """The common ones that there are: the unique domains of some classes are left out."""
        return [name for name in task.metadata.nuisances if name.lower() in COMMON]


@dataclass(frozen=True, kw_only=True)
class DomainBed(Protocol):
    """DomainBed: every domain is cut 80/20; the 80 % of the held-out domain test, those of the others train.

    `validation` has the 20 % of the training domains, `oracle` those of the test domain.
    """

    test: str
    seed: int = 0
    variant: str = ""
    id: ClassVar[str] = "domainbed"
    paper: ClassVar[str] = "In search of lost domain generalization (DomainBed), section 3; released code"
    about: ClassVar[str] = "in and out splits (80/20) of every domain, one domain tested"
    variants: ClassVar = WHOLE
    leaking: ClassVar = ("paper",)

    def __post_init__(self) -> None:
        self.check_variant(self.variant)

    def make(self, task: Task) -> Task:
        """Cut the sets train, validation, test and oracle."""
        tested, trained = _domains(task, named(self.test), task.metadata.nuisances)
        column = task.metadata.nuisance_column
        if self.variant == "paper" or not task.metadata.origins_shared:
            halves = cut({"in": 80, "out": 20}, self.seed)
            folds = {
                name: halves["in" if name in ("train", "test") else "out"]
                for name in ("train", "validation", "test", "oracle")
            }
        else:
            folds = cut({"train": 50, "validation": 20, "test": 24, "oracle": 6}, self.seed)
        of = {"train": trained, "validation": trained, "test": tested, "oracle": tested}
        return task.recut({name: [[*folds[name], (column, "in", of[name])]] for name in folds})


@dataclass(frozen=True, kw_only=True)
class Oracle(Protocol):
    """NICO++'s upper bound: a 7:1:2 cut of the test domains, mixed."""

    test: str | Sequence[str]
    seed: int = 0
    id: ClassVar[str] = "oracle"
    paper: ClassVar[str] = "NICO++, appendix C.1"
    about: ClassVar[str] = "train, validation, test 7:1:2 of the test domains together"

    def make(self, task: Task) -> Task:
        """Cut the sets train, validation and test."""
        tested = task.metadata.numbers("nuisance", named(self.test))
        folds = cut({"train": 70, "validation": 10, "test": 20}, self.seed)
        column = task.metadata.nuisance_column
        return task.recut(
            {name: [[*clause, (column, "in", sorted(tested))]] for name, clause in folds.items()}
        )


@dataclass(frozen=True, kw_only=True)
class OracleStar(Oracle):
    """NICO++'s second upper bound: a 7:1:2 cut of one test domain; a model for each."""

    test: str
    id: ClassVar[str] = "oracle*"
    about: ClassVar[str] = "train, validation, test 7:1:2 of one test domain"

    def __post_init__(self) -> None:
        if not isinstance(self.test, str):
            raise InputError(f"oracle* is of one domain, got {self.test!r}; oracle takes several")


def _domains(task: Task, test: Sequence[str], among: Sequence[str]) -> tuple[list[int], list[int]]:
    """The numbers of the test domains and of all others among some."""
    tested = sorted(set(task.metadata.numbers("nuisance", test)))
    trained = [number for number in task.metadata.numbers("nuisance", among) if number not in tested]
    if not tested or not trained:
        raise InputError(
            f"{len(tested)} of the {len(task.metadata.nuisances)} domains of {task.metadata.name} "
            "are tested: there must be one to test and one to train"
        )
    return tested, trained
