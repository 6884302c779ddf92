"""Domain generalization: train in some domains, test in others.

Of origins that occur in several domains, training takes train-fold rows of the training domains and the test
takes test-fold rows of the held-out ones. Of all others the test takes every row, as in the papers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.protocols.base import Protocol, Stage, named
from shiftdata.evaluation.protocols.cuts import Shares, cut, cut_within
from shiftdata.evaluation.protocols.shuffled import listed_cut, shuffled_cut
from shiftdata.evaluation.tasks import Role, RowSet, Task
from shiftdata.evaluation.tasks.making import recut
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
ROLE: Mapping[str, Role] = {
    "train": "fit",
    "validation": "select",
    "test": "test",
    "oracle": "test",
    "unlabelled": "unlabelled",
}

WHOLE = {"paper": "whole domains even where origins occur in several: they leak into the test"}


#: How a model may begin by DomainBed-v2's first rule; supervised weights may have seen the test domains.
PRETRAINING = ("none", "self-supervised")


@dataclass(frozen=True, kw_only=True)
class DomainProtocol(Protocol):
    """What all of them share: they cut domains, and are judged by domain."""

    works: ClassVar[Stage] = Stage.CUT
    metrics: ClassVar[Sequence[str]] = ("domains",)


@dataclass(frozen=True, kw_only=True)
class HoldOut(DomainProtocol):
    """DomainBed-v2's protocol: any test domains, all of each; 80/20 of the others to train and validate.

    `pretraining` says how the model begins: "none" or "self-supervised" by the paper's first rule; its
    variant "supervised" is for comparison with older results. It is recorded, and changes no row.
    """

    test: str | Sequence[str]
    pretraining: str = ""
    seed: int = 0
    id: ClassVar[str] = "domainbed-v2"
    promises: ClassVar[Sequence[str]] = ("ratio", "whole-test")
    short: ClassVar[str] = "dbv2"
    paper: ClassVar[str] = "Rethinking the evaluation protocol of domain generalization, section 3.1"
    about: ClassVar[str] = "whole test domains, 80/20 of the training domains"
    variants: ClassVar = {
        **WHOLE,
        "supervised": "models may begin with supervised weights, against the first rule",
        "code": "the released code's cut, whatever leaks: each domain's list, shuffled by the seed",
    }
    leaking: ClassVar = ("paper", "code")
    from_files: ClassVar = ("code",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant == "supervised" and self.pretraining in ("", "supervised"):
            return
        if self.pretraining and self.pretraining not in PRETRAINING:
            hint = "Supervised weights break the paper's first rule: domainbed-v2@supervised names that."
            raise not_found("pretraining", self.pretraining, PRETRAINING, hint)

    def make(self, task: Task) -> Task:
        tested = named(self.test)
        if self.variant == "code":
            trains, every = listed_cut(task.metadata, self.seed)
            rows = {"train": trains, "validation": every & ~trains, "test": every}
            return rows_from_files(task, rows, tested, {"train": "", "test": ""})
        return _held_out(task, self, tested, task.metadata.nuisances)


@dataclass(frozen=True, kw_only=True)
class LeaveOneDomainOut(DomainProtocol):
    """One domain is tested, all others train."""

    test: str
    seed: int = 0
    id: ClassVar[str] = "leave-one-domain-out"
    promises: ClassVar[Sequence[str]] = ("ratio", "whole-test")
    short: ClassVar[str] = "lodo"
    variants: ClassVar = WHOLE
    leaking: ClassVar = ("paper",)
    paper: ClassVar[str] = "In search of lost domain generalization (DomainBed); DomainBed-v2, section 3.1"
    about: ClassVar[str] = "one domain is tested, all others train"

    def make(self, task: Task) -> Task:
        return _held_out(task, self, [self.test], task.metadata.nuisances)


@dataclass(frozen=True, kw_only=True)
class LeaveOneGroupOut(DomainProtocol):
    """One group of domains is tested, the other groups train.

    `groups` is "nico++", "domainnet", or groups of names; `group` is the number of the tested one, from 1.
    """

    group: int
    groups: str | Sequence[Sequence[str]] = "nico++"
    seed: int = 0
    id: ClassVar[str] = "leave-one-group-out"
    promises: ClassVar[Sequence[str]] = ("ratio", "whole-test")
    short: ClassVar[str] = "logo"
    paper: ClassVar[str] = "Rethinking the evaluation protocol of domain generalization, section 3.1"
    about: ClassVar[str] = "one of three groups of domains is tested, the others train"
    variants: ClassVar = WHOLE
    leaking: ClassVar = ("paper",)

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
        return _held_out(task, self, self._groups[self.group - 1], among)


@dataclass(frozen=True, kw_only=True)
class ClassicDG(DomainProtocol):
    """One of the three splits of NICO++'s ten common domains into six that train and four that are tested.

    Domains that only some classes have (the unique ones) take no part.
    """

    split: int = 1
    seed: int = 0
    id: ClassVar[str] = "classic-dg"
    promises: ClassVar[Sequence[str]] = ("ratio", "whole-test")
    short: ClassVar[str] = "classic"
    said: ClassVar[Sequence[str]] = ("split",)
    paper: ClassVar[str] = "NICO++, section 5.2 and appendix C.3"
    about: ClassVar[str] = "six common domains train, four are tested; three splits"
    variants: ClassVar = {
        **WHOLE,
        "public": "only those test domains that the dataset has: the public files have 6 of 10",
    }
    leaking: ClassVar = ("paper",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.split <= len(CLASSIC):
            raise InputError(f"split is 1, 2 or 3, got {self.split}")

    def make(self, task: Task) -> Task:
        known = task.metadata.nuisances
        common = [name for name in known if name.lower() in COMMON]
        if not common:
            raise InputError(
                f"classic-dg is for NICO++'s common domains ({', '.join(COMMON)}), and {task.metadata.name} "
                f"has {', '.join(known)}: take leave-one-domain-out, domainbed or domainbed-v2"
            )
        tested: Sequence[str] = CLASSIC[self.split - 1]
        if self.variant == "public":
            tested = [name for name in tested if name in known] or tested
        return _held_out(task, self, tested, common)


@dataclass(frozen=True, kw_only=True)
class DomainBed(DomainProtocol):
    """DomainBed: every domain is cut 80/20 into in and out; the test domain's in tests, the others' train.

    `validation` has the out rows of the training domains, `oracle` those of the test domain. `unlabelled` per
    cent of the test domain's in rows are set apart for adaptation (the code's `uda_holdout_fraction`).
    """

    test: str
    unlabelled: int = 0
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant == "code" and self.unlabelled:
            raise InputError(
                "domainbed@code sets nothing apart: leave unlabelled out, or take another variant"
            )
        if not 0 <= self.unlabelled < 100:
            raise InputError(f"unlabelled is per cent of the test domain, 0 to 99, got {self.unlabelled}")

    def make(self, task: Task) -> Task:
        """Cut the sets train, validation, test and oracle, and unlabelled if asked for."""
        if self.variant == "code":
            return self._by_code(task)
        tested, trained = _domains(task, named(self.test), task.metadata.nuisances)

        def shares(train: int, validation: int, first: int, end: int) -> Shares:
            whole = {"train": (0, train), "validation": (train, validation), "oracle": (end, 100)}
            start = first + round((end - first) * self.unlabelled / 100)
            return {**whole, "test": (start, end), "unlabelled": (first, start)}

        apart, inside = shares(50, 70, 70, 94), shares(80, 100, 0, 80)
        parts = cut(task.metadata, inside if self.variant == "paper" else apart, inside, seed=self.seed)
        of = {"train": trained, "validation": trained, "test": tested, "oracle": tested}
        return _recut(task, parts, of | ({"unlabelled": tested} if self.unlabelled else {}))

    def _by_code(self, task: Task) -> Task:
        inside = shuffled_cut(task.metadata, self.seed)
        rows = {"train": inside, "validation": ~inside, "test": inside, "oracle": ~inside}
        return rows_from_files(task, rows, [self.test])


#: Where each set of an upper bound begins and ends, in per cent: 7:1:2.
UPPER_BOUND: Shares = {"train": (0, 70), "validation": (70, 80), "test": (80, 100)}
#: The protocols of whose tests an upper bound is.
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
    about: ClassVar[str] = (
        "train, validation, test 7:1:2 of the test domains, or of the test of another protocol"
    )

    def _check_order(self, task: Task) -> None:
        if task.stage != Stage.CUT or task.cut_by not in BOUNDED:
            super()._check_order(task)

    def make(self, task: Task) -> Task:
        tested = sorted(task.metadata.numbers("nuisance", named(self.test)))
        if task.cut_by:
            return self._of_test(task, tested)
        if not tested:
            raise InputError(
                f"{self.id} needs test=, the domains to cut, or one of {', '.join(BOUNDED)} before it, "
                "whose test it cuts"
            )
        parts = cut(task.metadata, UPPER_BOUND, seed=self.seed)
        return _recut(task, parts, dict.fromkeys(parts, tested))

    def _of_test(self, task: Task, tested: Sequence[int]) -> Task:
        """Cut the rows that the task tests."""
        rows, tests = task.metadata, [one for one in task.sets.values() if one.role == "test"]
        indices = np.unique(np.concatenate([one.indices for one in tests]))
        scope = np.any([one.scope for one in tests], axis=0)
        expected = np.any([one.expected for one in tests], axis=0)
        if tested:
            indices = indices[np.isin(rows.nuisance[indices], tested)]
            scope = scope & np.isin(rows.groups[rows.nuisance_column], tested)
            if not len(indices):
                shown = ", ".join(rows.nuisances[number] for number in tested)
                raise InputError(
                    f"{task.describe()} tests no row of {shown}: leave test= out, or name others"
                )
        parts = cut_within(rows, indices, UPPER_BOUND, seed=self.seed, salt=self.id, may_lack="validation")
        sets = {
            name: RowSet(
                indices=mine,
                # A tenth of few rows may be none: no group is promised to the validation set.
                expected=expected & scope & (name != "validation"),
                scope=scope,
                roles=(ROLE[name],),
                reason=f"it is a part of the test of {task.describe()}, by stable hash of origins",
            )
            for name, mine in parts.items()
        }
        return replace(task, sets=sets, promises={}, leaky=False)


@dataclass(frozen=True, kw_only=True)
class OracleStar(Oracle):
    """NICO++'s second upper bound: a 7:1:2 cut of one test domain; a model for each."""

    test: str = ""
    id: ClassVar[str] = "oracle*"
    short: ClassVar[str] = "oracle_star"
    about: ClassVar[str] = (
        "train, validation, test 7:1:2 of one test domain, also of that of another protocol"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.test, str) or not self.test:
            raise InputError(
                f"oracle* needs test=, the name of one domain, got {self.test!r}; see oracle too"
            )


def train_parts(task: Task, seed: int, *, whole: bool = False) -> Mapping[str, Part]:
    """The parts that train, validate and test; `whole` tests every row, though origins then leak into it."""
    return cut(task.metadata, EIGHTY_TWENTY if whole else APART, EIGHTY_TWENTY, seed=seed)


def _held_out(
    task: Task,
    protocol: HoldOut | LeaveOneDomainOut | LeaveOneGroupOut | ClassicDG,
    test: Sequence[str],
    among: Sequence[str],
) -> Task:
    """Train (80 %) and validation (20 %) of the domains among some that do not test; test in the others."""
    tested, trained = _domains(task, test, among)
    parts = train_parts(task, protocol.seed, whole=protocol.variant == "paper")
    return _recut(task, parts, {"train": trained, "validation": trained, "test": tested})


def rows_from_files(
    task: Task,
    rows: Mapping[str, NDArray[np.bool_]],
    test: Sequence[str],
    lists: Mapping[str, str] | None = None,
) -> Task:
    """Each set from its rows, which the authors' files determine; says how many files there were.

    Of `lists`, the one of each set must name some picture of each of its domains.
    """
    tested, trained = _domains(task, test, task.metadata.nuisances)
    of = {name: tested if ROLE[name] == "test" else trained for name in rows}
    for name, list_ in (lists or {}).items():
        known = set(np.unique(task.metadata.nuisance[rows[name]]).tolist())
        for domain in sorted((set(of[name]) & set(np.unique(task.metadata.nuisance).tolist())) - known):
            shown = task.nuisances[domain]
            raise InputError(f"no picture of {shown} is in the list {list_!r}: put its file with the others")
    reason = "the order of the authors' files determines its rows"
    parts = {name: Part(mine, None, reason) for name, mine in rows.items()}
    made = _recut(task, parts, of)
    there = {name: np.zeros(len(one.expected), bool) for name, one in made.sets.items()}
    for name, one in made.sets.items():
        there[name][task.metadata.group[one.indices]] = True  # what others have cut promises no group
    sets = {name: replace(one, expected=one.expected & there[name]) for name, one in made.sets.items()}
    counts = np.bincount(task.metadata.nuisance, minlength=len(task.metadata.nuisances)).tolist()
    shown = ", ".join(f"{name} {count:,}" for name, count in zip(task.nuisances, counts, strict=True))
    return replace(made, sets=sets, notes=(*made.notes, f"cut from these numbers of files: {shown}"))


def _recut(task: Task, parts: Mapping[str, Part], domains: Mapping[str, Sequence[int]]) -> Task:
    """Each set from its part of its domains."""
    column = task.metadata.nuisance_column
    return recut(
        task,
        {name: NewSet(parts[name], [(column, "in", some)], ROLE[name]) for name, some in domains.items()},
    )


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


ALL = (ClassicDG, DomainBed, HoldOut, LeaveOneDomainOut, LeaveOneGroupOut, Oracle, OracleStar)
