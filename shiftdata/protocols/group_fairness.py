"""Group fairness of Stylized Meta-Album: classes that come mostly in a style of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from shiftdata.errors import InputError
from shiftdata.format.conditions import number_of
from shiftdata.format.manifest import Filters
from shiftdata.protocols.base import Protocol
from shiftdata.stable import ranks, uniform
from shiftdata.tasks import Task

Pairs = list[tuple[int, int, float]]


@dataclass(frozen=True, kw_only=True)
class GroupFairness(Protocol):
    """Stylized Meta-Album's group fairness: each of K classes comes mostly in one of K styles.

    In training, class i keeps a share nu_i of its images in its own style and mu * nu_i in every other; nu_i
    is drawn from the range `nu`. Validation and test keep every image of the K x K groups, so they are
    balanced and do not change with mu. Same seed, larger K: the smaller draw is kept. `dominant` are K pairs
    (label, nuisance) instead of drawn ones.
    """

    k: int
    mu: float
    seed: int = 0
    nu: tuple[float, float] | None = None
    dominant: tuple[tuple[str, str], ...] = ()

    id: ClassVar[str] = "group-fairness"
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
        if self.dominant and (
            self.variant
            or len(self.dominant) != self.k
            or any(len(set(names)) < self.k for names in zip(*self.dominant, strict=True))
        ):
            raise InputError(
                f"dominant is k={self.k} pairs (label, nuisance), no name twice, and without a variant; "
                f"got {self.dominant}"
            )

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
        parts = [f"gf_k{self.k}_mu{100 * self.mu:.6g}", f"s{self.seed}" if self.seed else ""]
        parts.append(self.variant.replace("-", "_"))
        if self.nu:
            parts.append("nu" + "_".join(f"{100 * bound:g}" for bound in self.nu))
        parts += [f"{label}.{nuisance}" for label, nuisance in self.dominant]
        return "_".join(part for part in parts if part)

    def summary(self, nuisance: str) -> str:
        """The split in a sentence or two.

        >>> GroupFairness(k=8, mu=0.1).summary("style")
        '8 classes, each mostly in a style of its own, every other at 10 % of its share; balanced tests.'
        """
        seed = f" Seed {self.seed}." if self.seed else ""
        return (
            f"{self.k} classes, each mostly in a {nuisance} of its own, every other "
            f"at {100 * self.mu:.6g} % of its share; balanced tests.{seed}"
        )

    def pairs(self, labels: Sequence[str], nuisances: Sequence[str]) -> Pairs:
        """The classes, each with its dominant nuisance and its nu: (label, nuisance, nu)."""
        if self.dominant:
            own = self.kept_nuisances(nuisances)
            named = zip(self.dominant, own, strict=True)
            return [(number_of("label", label, labels), one, self._nu(label)) for (label, _), one in named]
        for what, names in (("labels", labels), ("nuisances", nuisances)):
            if self.k > len(names):
                raise InputError(f"k={self.k} needs as many {what}, and there are {len(names)}: lower k")
        drawn: list[int] = ranks(labels, self.name, self.seed, "label").argsort()[: self.k].tolist()
        own = self.kept_nuisances(nuisances)
        if not self.variant:
            return [(label, one, self._nu(labels[label])) for label, one in zip(drawn, own, strict=True)]
        classes = sorted(drawn[: 2 if self.variant == "code-binary" else self.k])
        nus = [1.0, 0.5, *(self._nu(labels[label]) for label in classes[2:])]
        return list(zip(classes, sorted(own), nus, strict=False))

    def kept_nuisances(self, nuisances: Sequence[str]) -> list[int]:
        """The K nuisances, in the order in which classes take them."""
        if self.dominant:
            return [number_of("nuisance", name, nuisances) for _, name in self.dominant]
        drawn: list[int] = ranks(nuisances, self.name, self.seed, "nuisance").argsort()[: self.k].tolist()
        return drawn

    def filters(self, labels: Sequence[str], nuisances: Sequence[str], column: str) -> Filters:
        """The split as filters over the file columns; `column` is that of the nuisance."""
        pairs = self.pairs(labels, nuisances)
        kept = sorted(self.kept_nuisances(nuisances))
        clauses: Filters = []
        for label, own, nu in sorted(pairs):
            others = [nuisance for nuisance in kept if nuisance != own]
            train = [("split", "==", "train"), ("label", "==", label)]
            clauses.append([*train, (column, "==", own), ("quantile", "<", nu)])
            # Six decimals: a product such as 0.1 * 0.437 must be the number that its text says.
            clauses.append([*train, (column, "in", others), ("quantile", "<", round(self.minority * nu, 6))])
        labelled = ("label", "in", sorted(label for label, _, _ in pairs))
        return [*clauses, [("split", "in", ["validation", "test"]), labelled, (column, "in", kept)]]

    def make(self, task: Task) -> Task:
        rows = task.metadata
        filters = self.filters(rows.labels, rows.nuisances, rows.nuisance_column)
        labels = [label for label, _, _ in self.pairs(rows.labels, rows.nuisances)]
        kept = self.kept_nuisances(rows.nuisances)
        groups = [label * len(rows.nuisances) + nuisance for label in labels for nuisance in kept]
        return task.restrict(filters, expected=groups)

    def _nu(self, label: str) -> float:
        low, high = self.nu_range
        return round(low + (high - low) * uniform(self.name, self.seed, "nu", label), 3)
