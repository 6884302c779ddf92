"""Unsupervised domain adaptation from one style to another, as in Stylized Meta-Album (section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shiftdata.data.format.records import Clause
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.base import Protocol, Stage, first_of_each
from shiftdata.evaluation.protocols.cuts import Shares, cut
from shiftdata.evaluation.tasks import Role, Task
from shiftdata.evaluation.tasks.making import choose, recut
from shiftdata.evaluation.tasks.sets import NewSet, Part

#: The 25 scenarios of Stylized Meta-Album (tables 4-13), source and target style.
SCENARIOS: tuple[tuple[str, str], ...] = tuple(
    (source, target)
    for source, targets in {
        "american_impressionism": ("american_barbizon_school", "hurricane"),
        "analytical_art": ("autumn_leaves", "thunder"),
        "arts_and_crafts_movement": ("dawn",),
        "aurora": ("american_impressionism",),
        "autumn_leaves": ("abstract_illusionism",),
        "chinese_art": ("land_art",),
        "dawn": ("abstract_illusionism", "american_barbizon_school"),
        "fauvism_painting": ("abstract_illusionism", "rayonism", "swamp"),
        "hurricane": ("aurora", "autumn_leaves", "cloud", "thunder"),
        "land_art": ("abstract_illusionism", "american_impressionism", "cloud", "wave"),
        "meadow": ("abstract_illusionism", "chinese_art", "prehistorian_painting"),
        "prehistorian_painting": ("american_barbizon_school",),
    }.items()
    for target in targets
)

#: Where each set begins and ends, in folds. No origin is in two of them, but for the two tests, which may
#: share theirs: where origins occur under several nuisances, source and target share the hundred ..
APART: Shares = {
    "source_train": (0, 40),
    "source_validation": (40, 50),
    "target_train": (50, 75),
    "target_test": (75, 100),
    "source_test": (75, 100),
}
#: .. and where they do not, each is cut 50/50 as in the paper, a fifth of the source's half for validation.
HALVES: Shares = {
    "source_train": (0, 40),
    "source_validation": (40, 50),
    "target_train": (0, 50),
    "target_test": (50, 100),
    "source_test": (50, 100),
}
ROLE: Mapping[str, Role] = {
    "source_train": "fit",
    "source_validation": "select",
    "target_train": "unlabelled",
    "target_test": "test",
    "source_test": "test",
}


@dataclass(frozen=True, kw_only=True)
class UDA(Protocol):
    """Closed-set adaptation: labelled rows of one nuisance, unlabelled and test rows of another.

    Sets: source_train, source_validation, target_train (unlabelled), target_test, source_test. Where origins
    occur under several nuisances no two sides share one: half of them are the source's, a quarter each the
    target's training and the tests'. `SCENARIOS` has the paper's 25 pairs.
    """

    source: str
    target: str
    seed: int = 0

    id: ClassVar[str] = "uda"
    promises: ClassVar[Sequence[str]] = ("ratio", "hidden")
    short: ClassVar[str] = "uda"
    works: ClassVar[Stage] = Stage.CUT
    metrics: ClassVar[Sequence[str]] = ("adaptation",)
    paper: ClassVar[str] = "Stylized Meta-Album, section 3.2"
    about: ClassVar[str] = "closed-set domain adaptation from one nuisance to another"
    variants: ClassVar = {
        "paired": "source and unlabelled target rows share half of the origins, the tests have the others",
        "paper": "each style is cut 50/50 on its own, without validation: origins of the source's training "
        "leak into the test",
    }
    leaking: ClassVar = ("paper",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.source or self.source == self.target:
            raise InputError(f"source and target are two nuisances, got {self.source!r} and {self.target!r}")

    def make(self, task: Task) -> Task:
        rows = task.metadata
        column = rows.nuisance_column
        source, target = rows.numbers("nuisance", [self.source, self.target])
        clauses = self.label_clauses(task)
        conditions = {
            name: [*clauses[name[:6]], (column, "==", source if name.startswith("source") else target)]
            for name in APART
        }
        if self.variant == "paper":
            return self._drawn(task, conditions)
        parts = cut(rows, HALVES if self.variant else APART, HALVES, seed=self.seed)
        sides = {"source_test": "test", "target_test": "test"}
        if self.variant == "paired":
            sides |= {"source_train": "train", "target_train": "train", "source_validation": "train"}
        sets = {name: (parts[name], conditions[name], ROLE[name], sides.get(name, "")) for name in APART}
        return recut(task, {name: NewSet(*fields) for name, fields in sets.items()})

    def label_clauses(self, task: Task) -> dict[str, Clause]:
        return {"source": [], "target": []}

    def _drawn(self, task: Task, conditions: Mapping[str, Clause]) -> Task:
        """Draw halves of each class, for the source and for the target apart."""
        rows = task.metadata
        reason = "the paper's variant draws the halves of each style on their own"
        whole = Part(np.ones(len(rows), bool), [])
        names = [name for name in APART if name != "source_validation"]
        task = recut(task, {name: NewSet(whole, conditions[name], ROLE[name]) for name in names})
        for side in ("source", "target"):
            indices = task.sets[f"{side}_train"].indices
            labels = rows.label[indices].astype(np.int64)
            order = rows.hashes(indices, self.id, self.seed, side)
            first = first_of_each(labels, order, np.bincount(labels, minlength=len(rows.labels)) // 2)
            task = choose(task, f"{side}_train", indices[first], reason)
            task = choose(task, f"{side}_test", indices[~first], reason)
        return task


@dataclass(frozen=True, kw_only=True)
class UniDA(UDA):
    """Universal adaptation: source and target share some classes, and each has private ones.

    Classes are taken in alphabetical order: the shared, the source's, the target's. A model should call the
    target's private classes unknown.
    """

    shared: int = 10
    source_private: int = 5
    target_private: int = 5

    id: ClassVar[str] = "unida"
    short: ClassVar[str] = "unida"
    metrics: ClassVar[Sequence[str]] = ("universal",)
    about: ClassVar[str] = "universal domain adaptation: 10 shared, 5 source and 5 target classes"

    def label_clauses(self, task: Task) -> dict[str, Clause]:
        names = task.metadata.labels
        ordered = sorted(range(len(names)), key=lambda number: names[number])
        ends = np.cumsum([self.shared, self.source_private, self.target_private]).tolist()
        if min(self.shared, self.source_private + 1, self.target_private + 1) < 1 or ends[-1] > len(names):
            raise InputError(
                f"unida takes {self.shared} shared, {self.source_private} and {self.target_private} private "
                f"classes, and {task.metadata.name} has {len(names)}: "
                "give other numbers for shared, source_private, target_private"
            )
        common = ordered[: ends[0]]
        return {
            "source": [("label", "in", sorted(common + ordered[ends[0] : ends[1]]))],
            "target": [("label", "in", sorted(common + ordered[ends[1] : ends[2]]))],
        }
