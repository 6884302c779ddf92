"""Unsupervised domain adaptation from one style to another, as in Stylized Meta-Album (section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shiftdata.errors import InputError
from shiftdata.format.manifest import Clause
from shiftdata.metadata.folds import cut
from shiftdata.protocols.base import Protocol, first_of_each, hashes
from shiftdata.tasks import Task

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

SETS = ("source_train", "target_train", "target_test")


@dataclass(frozen=True, kw_only=True)
class UDA(Protocol):
    """Closed-set adaptation: labelled rows of one style, unlabelled and test rows of another.

    Where origins occur under several styles, no two sets share one: half of them are the source's, a quarter
    each the target's two sets'. Where they do not, each style is cut 50/50 as in the paper. Give
    `source` and `target`, or the number of one of the paper's 25 scenarios.
    """

    source: str | None = None
    target: str | None = None
    scenario: int | None = None
    seed: int = 0

    id: ClassVar[str] = "uda"
    paper: ClassVar[str] = "Stylized Meta-Album, section 3.2"
    about: ClassVar[str] = "closed-set domain adaptation from one style to another"
    variants: ClassVar = {
        "paired": "source and unlabelled target rows share half of the origins, the test has the others",
        "paper": "each style is cut 50/50 on its own: origins of the source's training leak into the test",
    }
    leaking: ClassVar = ("paper",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.scenario is None) == (self.source is None and self.target is None):
            raise InputError("give source and target, or scenario (1-25) alone")
        if self.scenario is not None and not 1 <= self.scenario <= len(SCENARIOS):
            raise InputError(f"scenario is a number from 1 to {len(SCENARIOS)}, got {self.scenario}")
        source, target = self.pair
        if not source or not target or source == target:
            raise InputError(f"source and target are two nuisances, got {source!r} and {target!r}")

    @property
    def pair(self) -> tuple[str | None, str | None]:
        return SCENARIOS[self.scenario - 1] if self.scenario else (self.source, self.target)

    def make(self, task: Task) -> Task:
        rows = task.metadata
        source, target = rows.numbers("nuisance", [str(name) for name in self.pair])
        of_labels = self.label_clauses(task)
        clauses: dict[str, Clause] = {
            name: [*of_labels[name[:6]], (rows.nuisance_column, "==", source if name == SETS[0] else target)]
            for name in SETS
        }
        if self.variant == "paper":
            return self._drawn(task, clauses)
        if rows.origins_shared and not self.variant:
            parts = cut(dict(zip(SETS, (50, 25, 25), strict=True)), self.seed)
        else:
            first, second = cut({"first": 50, "second": 50}, self.seed).values()
            parts = dict(zip(SETS, (first, first, second), strict=True))
        sides = {"source_train": "train", "target_train": "train"} if self.variant == "paired" else None
        return task.recut({name: [[*parts[name], *clauses[name]]] for name in SETS}, sides)

    def label_clauses(self, task: Task) -> dict[str, Clause]:
        return {"source": [], "target": []}

    def _drawn(self, task: Task, clauses: dict[str, Clause]) -> Task:
        """Halves of each class, drawn for the source and for the target apart."""
        reason = "the paper's variant draws the halves of each style on their own"
        made = task.recut({name: [clause] for name, clause in clauses.items()})
        for name in SETS:
            indices = made.sets[name].indices
            labels = task.metadata.label[indices].astype(np.int64)
            order = hashes(task.metadata, indices, self.id, self.seed, name[:6])
            halves = np.bincount(labels, minlength=len(task.metadata.labels)) // 2
            first = first_of_each(labels, order, halves)
            made = made.choose(name, indices[~first if name == "target_test" else first], reason)
        return made


@dataclass(frozen=True, kw_only=True)
class UniDA(UDA):
    """Universal adaptation: source and target share some classes, and each has private ones.

    Classes are taken in alphabetical order: the shared, the source's, the target's.
    """

    shared: int = 10
    source_private: int = 5
    target_private: int = 5

    id: ClassVar[str] = "unida"
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
