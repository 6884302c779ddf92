"""Domain generalization: train in some domains, test in others.

Of origins that occur in several domains, training takes train-fold rows of the training domains and the test
takes test-fold rows of the held-out ones. Of all others the test takes every row, as in the papers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.protocols.base import Protocol, Stage, named
from shiftdata.evaluation.protocols.cuts import Shares, cut, listed_cut, shuffled_cut
from shiftdata.evaluation.tasks import Role, Task
from shiftdata.evaluation.tasks.making import noted, recut, without_promises
from shiftdata.evaluation.tasks.rows import CAUTION
from shiftdata.evaluation.tasks.sets import NewSet, Part

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

#: Where each set begins and ends, in folds, of origins that occur in several domains, and of the others.
APART: Shares = {"train": (0, 50), "validation": (50, 70), "test": (70, 100)}
EIGHTY_TWENTY: Shares = {"train": (0, 80), "validation": (80, 100), "test": (0, 100)}
#: The same for DomainBed: of each domain 80 % are in, the rest is out.
IN_OUT_APART: Shares = {"train": (0, 50), "validation": (50, 70), "test": (70, 94), "oracle": (94, 100)}
IN_OUT: Shares = {"train": (0, 80), "validation": (80, 100), "test": (0, 80), "oracle": (80, 100)}
ROLE: Mapping[str, Role] = {"train": "fit", "validation": "select", "test": "test", "oracle": "test"}

#: The ends of the names of the lists that train, validate and test.
LISTS = {
    "kfold": ("train_kfold", "crossval_kfold", "test_kfold"),
    "train-test": ("train", "test", "test"),
    "train-val-test": ("train", "val", "test"),
}

WHOLE = {"paper": "whole domains even where origins occur in several: they leak into the test"}


@dataclass(frozen=True, kw_only=True)
class DomainProtocol(Protocol):
    """The base of protocols that cut domains, and are judged by domain."""

    works: ClassVar[Stage] = Stage.CUT
    metrics: ClassVar[Sequence[str]] = ("domains",)

    def cut(
        self, task: Task, parts: Mapping[str, Part], tested: Sequence[int], trained: Sequence[int]
    ) -> Task:
        """Make each set from its part of its domains; note where these have more rows than are tested."""
        result, metadata = _recut(task, parts, tested, trained), task.metadata
        every, left = (
            sum(int(np.isin(metadata.nuisance[rows.indices], tested).sum()) for rows in of.sets.values())
            for of in (task, result)
        )
        if left == every:
            return result
        domains = " and ".join(metadata.nuisances[number] for number in tested)
        variants = " or ".join(f"{self.id}@{name}" for name in ("paper", "code") if name in self.variants)
        return noted(
            result,
            f"{CAUTION}{left:,} of {every:,} rows of {domains} are left to test: originals of the others are "
            f"shared with the training domains; not comparable with published figures: take {variants}",
        )


@dataclass(frozen=True, kw_only=True)
class WholeDomains(DomainProtocol):
    """The base of protocols that test whole domains, and train on 80 % of others and validate on the rest."""

    promises: ClassVar[Sequence[str]] = ("ratio", "whole-test")
    variants: ClassVar = WHOLE
    leaking: ClassVar[Sequence[str]] = ("paper",)

    def hold_out(self, task: Task, test: Sequence[str], among: Sequence[str], seed: int) -> Task:
        """Train and validate in the domains among some that do not test; test in the others."""
        tested, trained = _domains(task, test, among)
        return self.cut(task, train_parts(task, seed, whole=self.variant == "paper"), tested, trained)


@dataclass(frozen=True, kw_only=True)
class HoldOut(WholeDomains):
    """DomainBed-v2's protocol: any test domains, all of each; 80/20 of the others to train and validate."""

    test: str | Sequence[str]
    seed: int = 0
    id: ClassVar[str] = "domainbed-v2"
    self_supervised: ClassVar[bool] = True
    short: ClassVar[str] = "dbv2"
    paper: ClassVar[str] = "Rethinking the evaluation protocol of domain generalization, section 3.1"
    about: ClassVar[str] = "whole test domains, 80/20 of the training domains"
    variants: ClassVar = {
        **WHOLE,
        "code": "the released code's cut, whatever leaks: each domain's list, shuffled by the seed",
    }
    leaking: ClassVar = ("paper", "code")
    from_files: ClassVar = ("code",)

    def make(self, task: Task) -> Task:
        tested = named(self.test)
        if self.variant == "code":
            trains, every = listed_cut(task.metadata, self.seed)
            rows = {"train": trains, "validation": every & ~trains, "test": every}
            return rows_from_files(task, rows, tested, {"train": "", "test": ""})
        return self.hold_out(task, tested, task.metadata.nuisances, self.seed)


@dataclass(frozen=True, kw_only=True)
class LeaveOneDomainOut(WholeDomains):
    """One domain is tested, all others train."""

    test: str
    seed: int = 0
    id: ClassVar[str] = "leave-one-domain-out"
    short: ClassVar[str] = "lodo"
    paper: ClassVar[str] = "In search of lost domain generalization (DomainBed); DomainBed-v2, section 3.1"
    about: ClassVar[str] = "one domain is tested, all others train"

    def make(self, task: Task) -> Task:
        return self.hold_out(task, [self.test], task.metadata.nuisances, self.seed)


@dataclass(frozen=True, kw_only=True)
class LeaveOneGroupOut(WholeDomains):
    """One group of domains is tested, the other groups train.

    `groups` is "nico++", "domainnet", or groups of names; `group` is the number of the tested one, from 1.
    """

    group: int
    groups: str | Sequence[Sequence[str]] = "nico++"
    seed: int = 0
    id: ClassVar[str] = "leave-one-group-out"
    self_supervised: ClassVar[bool] = True
    short: ClassVar[str] = "logo"
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

    def make(self, task: Task) -> Task:
        grouped = {name for group in self._groups for name in group}
        among = [name for name in task.metadata.nuisances if name in grouped]
        return self.hold_out(task, self._groups[self.group - 1], among, self.seed)


@dataclass(frozen=True, kw_only=True)
class ClassicDG(WholeDomains):
    """One of the three splits of NICO++'s ten common domains into six that train and four that are tested.

    Domains that only some classes have (the unique ones) take no part.
    """

    split: int = 1
    seed: int = 0
    id: ClassVar[str] = "classic-dg"
    short: ClassVar[str] = "classic"
    said: ClassVar[Sequence[str]] = ("split",)
    paper: ClassVar[str] = "NICO++, section 5.2 and appendix C.3"
    about: ClassVar[str] = "six common domains train, four are tested; three splits"
    variants: ClassVar = {
        **WHOLE,
        "public": "only those test domains that the dataset has: the public files have 6 of 10",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.split <= len(CLASSIC):
            raise InputError(f"split is 1, 2 or 3, got {self.split}")

    def make(self, task: Task) -> Task:
        domains = task.metadata.nuisances
        common = [name for name in domains if name.lower() in COMMON]
        tested: Sequence[str] = CLASSIC[self.split - 1]
        if self.variant == "public":
            tested = [name for name in tested if name in domains]
        if not common or not tested:
            raise InputError(
                f"classic-dg is for NICO++'s common domains ({', '.join(COMMON)}), and {task.metadata.name} "
                f"has {', '.join(domains)}: take leave-one-domain-out, domainbed or domainbed-v2"
            )
        return self.hold_out(task, tested, common, self.seed)


@dataclass(frozen=True, kw_only=True)
class DomainBed(DomainProtocol):
    """DomainBed: every domain is cut 80/20 into in and out; the test domain's in tests, the others' train.

    `validation` has the out rows of the training domains, `oracle` those of the test domain.
    """

    test: str
    seed: int = 0
    id: ClassVar[str] = "domainbed"
    promises: ClassVar[Sequence[str]] = ("ratio",)
    paper: ClassVar[str] = "In search of lost domain generalization (DomainBed), section 3; released code"
    about: ClassVar[str] = "in and out splits (80/20) of every domain, one domain tested"
    variants: ClassVar = {
        **WHOLE,
        "code": "the released code's cut, whatever leaks: files in the order of class and name, shuffled by "
        "trial seed and domain",
    }
    leaking: ClassVar = ("paper", "code")
    from_files: ClassVar = ("code",)

    def make(self, task: Task) -> Task:
        if self.variant == "code":
            cut_in = shuffled_cut(task.metadata, self.seed)
            rows = {"train": cut_in, "validation": ~cut_in, "test": cut_in, "oracle": ~cut_in}
            return rows_from_files(task, rows, [self.test])
        tested, trained = _domains(task, named(self.test), task.metadata.nuisances)
        recurring = IN_OUT if self.variant == "paper" else IN_OUT_APART
        return self.cut(task, cut(task.metadata, recurring, IN_OUT, seed=self.seed), tested, trained)


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
        tested = sorted(rows.numbers("nuisance", named(self.test)))
        every = Part(np.ones(len(rows), bool), [])
        conditions = [(rows.nuisance_column, "in", tested)] if tested else []
        return recut(task, {"test": NewSet(every, [*conditions], "test")})


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
    own_files: ClassVar[bool] = True

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
        names = dict(zip(("train", "validation", "test"), self._lists, strict=True))
        parts = {name: task.metadata.listed(list_) for name, list_ in names.items()}
        return rows_from_files(task, parts, named(self.test), names)


def train_parts(task: Task, seed: int, *, whole: bool = False) -> Mapping[str, Part]:
    """Cut the parts that train, validate and test; `whole` tests every row, though origins then leak."""
    return cut(task.metadata, EIGHTY_TWENTY if whole else APART, EIGHTY_TWENTY, seed=seed)


def rows_from_files(
    task: Task,
    rows: Mapping[str, NDArray[np.bool_]],
    test: Sequence[str],
    lists: Mapping[str, str] | None = None,
) -> Task:
    """Make each set from its rows, which the authors' files determine; note how many files there were.

    Of `lists`, the one of each set must name some picture of each of its domains.
    """
    metadata = task.metadata
    tested, trained = _domains(task, test, metadata.nuisances)
    counts = np.bincount(metadata.nuisance, minlength=len(metadata.nuisances)).tolist()
    for name, list_ in (lists or {}).items():
        listed = set(np.unique(metadata.nuisance[rows[name]]).tolist())
        for domain in tested if ROLE[name] == "test" else trained:
            if counts[domain] and domain not in listed:
                raise InputError(
                    f"no picture of {metadata.nuisances[domain]} is in the list {list_!r}: put its file with "
                    "the others"
                )
    reason = "the order of the authors' files determines its rows"
    cut = _recut(task, {name: Part(mask, None, reason) for name, mask in rows.items()}, tested, trained)
    shown = ", ".join(f"{name} {count:,}" for name, count in zip(metadata.nuisances, counts, strict=True))
    return noted(without_promises(cut), f"cut from these numbers of files: {shown}")


def _recut(task: Task, parts: Mapping[str, Part], tested: Sequence[int], trained: Sequence[int]) -> Task:
    """Make each set from its part of its domains."""
    column, sets = task.metadata.nuisance_column, {}
    for name, part in parts.items():
        domains = tested if ROLE[name] == "test" else trained
        sets[name] = NewSet(part, [(column, "in", domains)], ROLE[name])
    return recut(task, sets)


def _domains(task: Task, test: Sequence[str], among: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the numbers of the test domains and of all others among some."""
    tested = sorted(set(task.metadata.numbers("nuisance", test)))
    trained = [number for number in task.metadata.numbers("nuisance", among) if number not in tested]
    if not tested or not trained:
        raise InputError(
            f"{len(tested)} of the {len(task.metadata.nuisances)} domains of {task.metadata.name} "
            "are tested: there must be one to test and one to train"
        )
    return tested, trained
