"""Group fairness of Stylized Meta-Album: classes that come mostly in a style of their own.

A share is of the rows in a `fit` set, whatever made that set.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import numbered
from shiftdata.data.format.records import Filters
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.base import Protocol, Stage, places, plain_name
from shiftdata.evaluation.tasks import MuWarning, Task
from shiftdata.evaluation.tasks.making import narrow, noted, restrict, units
from shiftdata.evaluation.tasks.rows import CAUTION
from shiftdata.stable import ranks, uniform

#: How many times too large or small a met mu may be; further off a task warns, and a build leaves it out.
TOO_FAR = 1.5

Pairs = list[tuple[int, int, float]]


@dataclass(frozen=True, kw_only=True)
class GroupFairness(Protocol):
    """Stylized Meta-Album's group fairness: each of K classes comes mostly in one of K styles.

    In training, class i keeps a share nu_i of its images in its own style and mu * nu_i in every other, at
    least one; nu_i is drawn from the range `nu`. All other sets keep every image of the K x K groups, so they
    are balanced and do not change with mu. Same seed, larger K: the smaller draw is kept.

    `seed` draws classes, styles and nu.
    """

    k: int
    mu: float
    seed: int = 0
    nu: tuple[float, float] | None = None

    id: ClassVar[str] = "group-fairness"
    works: ClassVar[Stage] = Stage.THIN
    promises: ClassVar[Sequence[str]] = ("mu", "balanced")
    gives_up: ClassVar[Sequence[str]] = ("ratio", "per-cell")
    metrics: ClassVar[Sequence[str]] = ("fairness",)
    paper: ClassVar[str] = "Stylized Meta-Album, section 3.1 and appendix E"
    about: ClassVar[str] = "K classes, each mostly in a style of its own; balanced validation and test"
    variants: ClassVar = {
        "code": "nu is 1 for the first class, 0.5 for the second, else drawn from 50-100 %; "
        "class and style are paired in their order",
        "code-binary": "as code, with 2 classes and K styles; mu is divided by K - 1",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 2:
            raise InputError(f"k must be at least 2 (classes with a style each), got {self.k}")
        if not 0 < self.mu <= 1:
            raise InputError(f"mu must be above 0 and at most 1 (0 would leave groups empty), got {self.mu}")
        low, high = self.nu_range
        if not 0 < low <= high <= 1:
            raise InputError(f"nu is a range (low, high) with 0 < low <= high <= 1, got {self.nu}")

    @property
    def nu_range(self) -> tuple[float, float]:
        return self.nu or ((0.5, 1.0) if self.variant else (0.3, 1.0))

    @property
    def minority(self) -> float:
        return self.mu / (self.k - 1) if self.variant == "code-binary" else self.mu

    @property
    def config_name(self) -> str:
        """The name of this split as a config.

        >>> GroupFairness(k=8, mu=0.1).config_name, GroupFairness(k=4, mu=0.05, seed=3).config_name
        ('gf_k8_mu10', 'gf_k4_mu5_s3')
        """
        parts = [
            f"gf_k{self.k}_mu{100 * self.mu:.6g}",
            f"s{self.seed}" if self.seed else "",
            self.variant,
            "nu" + "_".join(f"{100 * bound:g}" for bound in self.nu) if self.nu else "",
        ]
        return plain_name("_".join(filter(None, parts)))

    def summary(self, nuisance: str) -> str:
        seed = f" Seed {self.seed}." if self.seed else ""
        return (
            f"{self.k} classes, each mostly in a {nuisance} of its own, every other "
            f"at {100 * self.mu:.6g} % of its share; balanced tests.{seed}"
        )

    def pairs(self, labels: Sequence[str], nuisances: Sequence[str]) -> Pairs:
        """Return the classes, each with its dominant nuisance and its nu: (label, nuisance, nu)."""
        for role, names in (("labels", labels), ("nuisances", nuisances)):
            if self.k > len(names):
                raise InputError(f"k={self.k} needs as many {role}, and training has {len(names)}: lower it")
        classes: list[int] = ranks(labels, self.name, self.seed, "label").argsort()[: self.k].tolist()
        styles = self.drawn_nuisances(nuisances)
        nus = [self._nu(labels[label]) for label in classes]
        if self.variant:
            classes = sorted(classes[: 2 if self.variant == "code-binary" else self.k])
            styles, nus = sorted(styles), [1.0, 0.5, *(self._nu(labels[label]) for label in classes[2:])]
        return list(zip(classes, styles, nus, strict=False))  # code-binary has more styles than classes

    def drawn_nuisances(self, nuisances: Sequence[str]) -> list[int]:
        """Return the nuisances, in the order in which classes take them."""
        order: list[int] = ranks(nuisances, self.name, self.seed, "nuisance").argsort().tolist()
        return order[: self.k]

    def make(self, task: Task) -> Task:
        rows = task.metadata
        shape = (len(rows.labels), len(rows.nuisances))
        fit = [rowset.scope for rowset in task.sets.values() if rowset.role == "fit"]
        if not fit:
            raise InputError(
                f"group-fairness needs a training set, and {task.describe()} has none: join it with a "
                "protocol that trains, or leave it out"
            )
        scope = np.any(fit, axis=0).reshape(shape)
        # Drawn from what training may contain: a held-out domain cannot be anybody's dominant one.
        present = [np.flatnonzero(scope.any(axis=axis)).tolist() for axis in (1, 0)]
        names = [rows.labels[n] for n in present[0]], [rows.nuisances[n] for n in present[1]]
        pairs = [(present[0][label], present[1][own], nu) for label, own, nu in self.pairs(*names)]
        drawn = [present[1][number] for number in self.drawn_nuisances(names[1])]
        labels = sorted(label for label, _, _ in pairs)
        if not (block := scope[np.ix_(labels, drawn)]).all():
            raise InputError(
                f"group-fairness takes each of {len(labels)} classes in each of {len(drawn)} nuisances, and "
                f"after {task.describe()} training has {block.sum()} of these groups: join it with a "
                "protocol that gives all classes the same training domains"
            )
        for name, rowset in task.sets.items():
            if rowset.role == "fit":
                task = self._thinned(task, name, pairs, drawn)
                continue
            may = np.flatnonzero(rowset.scope.reshape(shape).any(axis=0)).tolist()
            # A test domain that training does not have stays whole.
            of_set = sorted(set(drawn) & set(may)) or may
            promised = np.zeros(shape, bool)
            promised[np.ix_(labels, [number for number in of_set if number in drawn])] = True
            of_groups: Filters = [[("label", "in", labels), (rows.nuisance_column, "in", of_set)]]
            task = self._promising(restrict(task, of_groups, to=[name]), name, promised.ravel())
        return task

    def filters(self, pairs: Pairs, drawn: Sequence[int], column: str) -> Filters:
        """Return the shares as filters over the file columns; `column` is that of the nuisance."""
        clauses: Filters = []
        for label, own, nu in sorted(pairs):
            others = sorted(set(drawn) - {own})
            clauses.append([("label", "==", label), (column, "==", own), ("quantile", "<", nu)])
            minor = ("quantile", "<", round(self.minority * nu, 6))
            clauses.append([("label", "==", label), (column, "in", others), minor])
        return clauses

    def _thinned(self, task: Task, name: str, pairs: Pairs, drawn: Sequence[int]) -> Task:
        """Keep the share of each group among the units of a set, by quantile; at least one."""
        rows, rowset = task.metadata, task.sets[name]
        nuisances = len(rows.nuisances)
        shares = np.zeros(len(rows.group_counts) + 1)  # the last is for rows without a group
        for label, own, nu in pairs:
            # Six decimals: a product such as 0.1 * 0.437 must be the number that its text says.
            shares[[label * nuisances + style for style in drawn]] = round(self.minority * nu, 6)
            shares[label * nuisances + own] = nu
        first, unit = units(task, name)
        in_groups = shares[rows.group[rowset.indices[first]]] > 0
        indices = rowset.indices[first[in_groups]]
        group = rows.group[indices].astype(np.int64)
        steps, step = numbered(rows.columns["severity"][indices])
        cell = group * max(1, len(steps)) + step
        place, size = places(cell, rows.columns["quantile"][indices])
        few = (place == 0) & (0.5 / size >= shares[group])  # a share of none: one row
        chosen = few | ((place + 0.5) / size < shares[group])
        of_unit = np.zeros(len(first), bool)
        of_unit[in_groups] = chosen
        filters = self.filters(pairs, drawn, rows.nuisance_column)
        lone = np.flatnonzero(few)
        for row in lone[np.unique(group[lone], return_index=True)[1]].tolist():
            label, nuisance = divmod(int(group[row]), nuisances)
            least = ("quantile", "<", round(1 / int(size[row]), 6))
            filters.append([("label", "==", label), (rows.nuisance_column, "==", nuisance), least])
        promised, reason = shares[:-1] > 0, "a share is of the rows in the set"
        task = narrow(task, name, of_unit[unit], filters=filters, reason=reason, scope=promised)
        task = noted(task, *self._met(name, pairs, nuisances, group, chosen, promised))
        return self._promising(task, name, promised)

    def _promising(self, task: Task, name: str, promised: NDArray[np.bool_]) -> Task:
        """Let promised groups that the dataset lacks show as empty, within what the set may contain."""
        rowset = task.sets[name]
        expected = rowset.expected | (promised & rowset.scope)
        return replace(task, sets={**task.sets, name: replace(rowset, expected=expected)})

    def _met(
        self,
        name: str,
        pairs: Pairs,
        nuisances: int,
        group: NDArray[np.int64],
        chosen: NDArray[np.bool_],
        promised: NDArray[np.bool_],
    ) -> list[str]:
        """Note the share of each minority group, relative to its class's dominant group.

        Rows are whole, at least one: of few rows a group keeps far more than mu, of which it warns.
        """
        sizes, chosen_sizes = (
            np.bincount(group, weights, minlength=len(promised)) for weights in (None, chosen)
        )
        ratios: list[float] = []
        for label, own, _ in pairs:
            groups = np.flatnonzero(promised[label * nuisances : (label + 1) * nuisances]) + label * nuisances
            major = label * nuisances + own
            minor = groups[(groups != major) & (sizes[groups] > 0)]
            if sizes[major]:
                ratios += (chosen_sizes[minor] / sizes[minor] / (chosen_sizes[major] / sizes[major])).tolist()
        asked = f"requested: mu = {100 * self.minority:.6g} %"
        if not ratios:
            return [f"{name} has no class with both its dominant and a minority group ({asked})"]
        met = float(np.mean(ratios))
        each = f"{100 * min(ratios):.4g} to {100 * max(ratios):.4g} % by group"
        notes = [
            f"in {name}, a minority group keeps {100 * met:.4g} % of the share of rows that the dominant "
            f"group of its class keeps ({asked}; {each})"
        ]
        if not 1 / TOO_FAR < met / self.minority < TOO_FAR:
            smallest = int(sizes[promised & (sizes > 0)].min())
            needed = int(np.ceil(1 / (self.minority * min(nu for *_, nu in pairs))))
            ask = f"{min(1, met * self.mu / self.minority):.2g}"
            text = (
                f"mu in {name} is {met:.4g}, and {self.minority:.4g} was asked: a group keeps whole rows, at "
                f"least one, and the smallest has {smallest:,}. Ask for mu={ask}, or take a base with "
                f"{needed:,} rows or more in each group"
            )
            warnings.warn(text, MuWarning, stacklevel=6)
            notes.append(CAUTION + text)
        return notes

    def _nu(self, label: str) -> float:
        low, high = self.nu_range
        return round(low + (high - low) * uniform(self.name, self.seed, "nu", label), 3)
