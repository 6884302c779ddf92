"""Label shift of RLSbench: a target whose label marginal is drawn from a Dirichlet around its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.base import Protocol, Stage, first_of_each, named
from shiftdata.evaluation.protocols.cuts import Shares, cut
from shiftdata.evaluation.protocols.halves import NAMES, Halves, Sides, halves_of
from shiftdata.evaluation.sampling.rows import dirichlet_marginal, largest_counts
from shiftdata.evaluation.tasks import Role, Task
from shiftdata.evaluation.tasks.making import choose, noted, recut, units
from shiftdata.evaluation.tasks.sets import NewSet
from shiftdata.stable import rng

ROLES: tuple[Role, ...] = ("fit", "select", "unlabelled", "test")
#: Where sets of the source, and of the target, begin and end, in folds: of two domains that share no origin,
#: of two that share them, of one domain that is both.
APART, SHARED, SAME = ((0, 80, 100), (0, 100)), ((0, 40, 50), (50, 100)), ((0, 64, 80), (80, 100))
#: The law of the draw, as reports print it.
LAWS: Mapping[str, str] = {
    "paper": "Dirichlet(alpha p), alpha = {alpha:g}, by the paper's text (its published numbers are of the "
    "released code's draw, label-shift@code, which shifts far less)",
    "code": "Dirichlet(alpha K p), alpha = {alpha:g}, K = {classes}, by the released code, of which the "
    "published numbers are (the paper's text has Dirichlet(alpha p))",
}


@dataclass(frozen=True, kw_only=True)
class LabelShift(Protocol):
    """One drawn label marginal for the target's training and test rows; the source stays as it is.

    With `source` and `target` (domains; the same one for pure label shift) the task is cut into source_train
    (fit), source_test (select), target_train (unlabelled), target_test (test), 80/20 each; of a small target
    the share `test` is tested. Without them the unlabelled sets and the test of a task are shifted alike.
    `alpha=None` does not shift.

    `rlsbench` names one of that benchmark's 14 datasets: source and halves are its own (`halves.RLSBENCH`).

    Without replacement, n = floor(min_k n_k / P_k) and label k keeps floor(n P_k) rows: labels may vanish,
    which `on_empty="report"` accepts. With replacement the set keeps its number of rows. After
    `continuous` trajectories are drawn instead of rows, each whole.
    """

    alpha: float | None
    rlsbench: str = ""
    source: str | Sequence[str] = ()
    target: str | Sequence[str] = ()
    test: float = 0.2
    replacement: bool = False
    seed: int = 0

    id: ClassVar[str] = "label-shift"
    short: ClassVar[str] = "ls"
    promises: ClassVar[Sequence[str]] = ("marginal", "hidden")
    gives_up: ClassVar[Sequence[str]] = ("whole-test", "ratio", "per-cell", "every-row", "balanced")
    metrics: ClassVar[Sequence[str]] = ("label-shift",)
    paper: ClassVar[str] = "RLSbench, section 3.1 and appendix D"
    about: ClassVar[str] = "target labels from Dirichlet(alpha * p), 80/20 cuts of source and target"
    variants: ClassVar = {
        "code": "the released code's Dirichlet(alpha * K * p), which shifts far less",
        "files": "that Dirichlet, and the released code's halves, whatever leaks: drawn from the authors' "
        "files in their order; for the datasets of rlsbench",
    }
    leaking: ClassVar = ("files",)
    from_files: ClassVar = ("files",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha is not None and not 0 < self.alpha < np.inf:
            raise InputError(f"alpha is above 0, or None for no shift, got {self.alpha}")
        if self.variant == "files" and not self.rlsbench:
            raise InputError("label-shift@files cuts as RLSbench's code does: give rlsbench=, its dataset")
        if self.rlsbench and (self.source or not self.target):
            raise InputError("with rlsbench= give the target alone: the source is that of its dataset")
        if not self.rlsbench and bool(self.source) != bool(self.target):
            raise InputError(
                f"give source= and target=, two domains or the same twice, or neither: then the task's own "
                f"sets are shifted; got source={self.source!r}, target={self.target!r}"
            )
        if not 0.01 <= self.test <= 0.99:
            raise InputError(f"test is a share of the target from 0.01 to 0.99, got {self.test}")
        if self.test != LabelShift.test and (self.rlsbench or not self.target):
            raise InputError("test= cuts a target of your own: give it with source= and target= alone")
        self._halves()

    def _halves(self) -> Halves | None:
        return halves_of(self.rlsbench, in_code=self.variant == "files") if self.rlsbench else None

    @property
    def reads_params(self) -> bool:
        halves = self._halves()
        return super().reads_params or bool(halves and halves.select)

    @property
    def stage(self) -> Stage:
        return Stage.CUT if self.target else Stage.DRAW

    @property
    def leaves(self) -> Stage:
        return self.stage if self.alpha is None else Stage.DRAW

    @property
    def promised(self) -> Sequence[str]:
        return [name for name in super().promised if name != "marginal" or self.alpha is not None]

    @property
    def given_up(self) -> Sequence[str]:
        return self.gives_up if self.alpha is not None else ()

    def parts(self) -> tuple[Protocol, ...]:
        """Return the cut, and the draw in the sets that it makes."""
        if not self.target or self.alpha is None:
            return (self,)
        variant = "code" if self.variant else ""
        draw = replace(self, source=(), target=(), rlsbench="", test=LabelShift.test, variant=variant)
        return (replace(self, alpha=None), draw)

    @property
    def advice(self) -> str:
        if self.alpha is None:
            return super().advice
        draws = "another seed" if self.replacement else "another seed, or replacement=True"
        return f"take a larger alpha, which shifts less, {'or ' * self.replacement}{draws}"

    def summary(self, nuisance: str) -> str:
        text = super().summary(nuisance)
        return text.replace("alpha * p", "alpha * K * p") if self.variant else text

    def make(self, task: Task) -> Task:
        if self.target:
            task = self._cut(task)
        shifted = self._shifted(task)
        return task if self.alpha is None else self._drawn(task, shifted)

    def _shifted(self, task: Task) -> list[str]:
        """Return the sets whose labels are drawn: those without labels, and the first test set."""
        tests = [name for name, rows in task.sets.items() if rows.role == "test"][:1]
        shifted = [name for name, rows in task.sets.items() if rows.role == "unlabelled"] + tests
        if not shifted:
            raise InputError(
                f"label-shift needs an unlabelled or a test set, and there are {', '.join(task.sets)}: "
                "give source and target"
            )
        for name in shifted:
            if self.alpha is not None and not len(task.sets[name]):
                raise InputError(f"{name} has no row to shift: take a larger base, or more target domains")
        return shifted

    def _drawn(self, task: Task, shifted: list[str]) -> Task:
        own = _label_counts(task, shifted[0])
        variant: Literal["paper", "code"] = "code" if self.variant else "paper"
        p = own / own.sum()
        marginal = dirichlet_marginal(p, self.alpha, variant=variant, seed=self.seed, names=(self.id,))
        for name in shifted:
            task = self._resampled(task, name, marginal)
        law, possible = LAWS[variant].format(alpha=self.alpha, classes=len(own)), np.count_nonzero(own)
        present = [
            f"{np.count_nonzero(_label_counts(task, name))} of {possible} in {name}" for name in shifted
        ]
        return noted(task, f"labels from {law}; labels that have rows: {', '.join(present)}")

    def _cut(self, task: Task) -> Task:
        rows, halves = task.metadata, self._halves()
        source = sorted(rows.numbers("nuisance", named(halves.source if halves else self.source)))
        target = sorted(rows.numbers("nuisance", named(self.target)))
        same, domains = source == target, {"source": source, "target": target}
        if not same and set(source) & set(target):
            raise InputError("source and target are the same domains, or have none in common")
        if halves:
            sides = Sides.of(rows, halves, source, target)
            parts = sides.by_files(self.seed) if self.variant == "files" else sides.parts(self.seed)
        else:
            recurring, single = (SAME, SAME) if same else (SHARED, APART)
            parts = cut(rows, self._shares(*recurring), self._shares(*single), seed=self.seed)
        sets = {
            name: NewSet(parts[name], [(rows.nuisance_column, "in", domains[name[:6]])], role)
            for name, role in zip(NAMES, ROLES, strict=True)
        }
        return recut(task, sets)

    def _shares(self, source: tuple[int, int, int], target: tuple[int, int]) -> Shares:
        """Return the folds of each set."""
        (low, middle, high), (start, end) = source, target
        tested = end - round(self.test * (end - start))
        return dict(zip(NAMES, ((low, middle), (middle, high), (start, tested), (tested, end)), strict=True))

    def _resampled(self, task: Task, name: str, marginal: NDArray[np.float64]) -> Task:
        rows, rowset = task.metadata, task.sets[name]
        if rowset.counts is not None:
            raise InputError(f"{name} was drawn with replacement already: shift the labels once")
        first, unit = units(task, name)
        labels = rows.label[rowset.indices[first]].astype(np.int64)
        counts = np.bincount(labels, minlength=len(rows.labels)).astype(np.int64)
        shares = np.where(counts > 0, marginal, 0)
        if not shares.sum():
            raise InputError(f"the drawn marginal has only labels that {name} lacks: take another seed")
        shares = shares / shares.sum()
        order = rows.hashes(rowset.indices[first], self.id, self.seed, name)
        reason = "its labels are drawn from a Dirichlet"
        if not self.replacement:
            mask = first_of_each(labels, order, largest_counts(counts, shares))[unit]
            return choose(task, name, rowset.indices[mask], reason)
        generator = rng(self.id, self.seed, name)
        by_label, starts = np.lexsort((order, labels)), np.cumsum(counts) - counts
        takes = generator.multinomial(len(labels), shares)
        drawn = np.zeros(len(labels), np.int64)
        for label in np.flatnonzero(takes).tolist():
            places = generator.integers(counts[label], size=takes[label])
            np.add.at(drawn, by_label[starts[label] + places], 1)
        drawn = drawn[unit]
        return choose(task, name, rowset.indices[drawn > 0], reason, counts=drawn[drawn > 0])


def _label_counts(task: Task, name: str) -> NDArray[np.int64]:
    """Count the examples of each label in a set, each as often as it was drawn."""
    rows = task.sets[name]
    labels = task.metadata.label[rows.indices]
    return np.bincount(labels, rows.counts, minlength=len(task.metadata.labels)).astype(np.int64)
