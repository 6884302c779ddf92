"""Protocols: named, versioned rules from a dataset's label and nuisance names to a canonical split.

A protocol draws with stable hashes of names, so that a class keeps its draw when others are added, and
says which rows it keeps as filters alone, so that plain `datasets` reads the same split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.errors import InputError
from shiftdata.manifest import Filters
from shiftdata.stable import ranks, uniform

__all__ = ["GroupFairness", "rows_matching"]


@dataclass(frozen=True, kw_only=True)
class GroupFairness:
    """Stylized Meta-Album's group fairness: each of K classes comes mostly in one of K styles.

    In training, class i keeps a share nu_i of its images in its own style and mu * nu_i in every other;
    nu_i is drawn between 30 % and 100 %. Validation and test keep every image of the K x K groups, so
    they are balanced and do not change with mu. Same seed, larger K: the smaller draw is kept.
    """

    k: int
    mu: float
    seed: int = 0
    name: str = "group-fairness@1"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise InputError(f"k must be at least 2 (classes with a style each), got {self.k}")
        if not 0 < self.mu <= 1:
            raise InputError(f"mu must be above 0 and at most 1 (0 would leave groups empty), got {self.mu}")

    @property
    def config_name(self) -> str:
        """The name of this split as a config.

        >>> GroupFairness(k=8, mu=0.1).config_name, GroupFairness(k=4, mu=0.05, seed=3).config_name
        ('gf_k8_mu10', 'gf_k4_mu5_s3')
        """
        percent = f"{100 * self.mu:.6g}"
        return f"gf_k{self.k}_mu{percent}" + (f"_s{self.seed}" if self.seed else "")

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

    def pairs(self, labels: Sequence[str], nuisances: Sequence[str]) -> list[tuple[int, int, float]]:
        """The K drawn classes, each with its dominant style and its nu: (label, nuisance, nu)."""
        for what, names in (("labels", labels), ("nuisances", nuisances)):
            if self.k > len(names):
                raise InputError(f"k={self.k} needs as many {what}, and there are {len(names)}: lower k")
        drawn_labels = ranks(labels, self.name, self.seed, "label").argsort()[: self.k]
        drawn_nuisances = ranks(nuisances, self.name, self.seed, "nuisance").argsort()[: self.k]
        return [
            (int(label), int(nuisance), self._nu(labels[label]))
            for label, nuisance in zip(drawn_labels, drawn_nuisances, strict=True)
        ]

    def filters(self, labels: Sequence[str], nuisances: Sequence[str], column: str) -> Filters:
        """The split as filters over the file columns; `column` is that of the nuisance."""
        pairs = self.pairs(labels, nuisances)
        kept_nuisances = sorted(nuisance for _, nuisance, _ in pairs)
        clauses: Filters = []
        for label, own, nu in sorted(pairs):
            others = [nuisance for nuisance in kept_nuisances if nuisance != own]
            train = [("split", "==", "train"), ("label", "==", label)]
            clauses.append([*train, (column, "==", own), ("quantile", "<", nu)])
            # Six decimals: a product such as 0.1 * 0.437 must be the number that its text says.
            clauses.append([*train, (column, "in", others), ("quantile", "<", round(self.mu * nu, 6))])
        clauses.append(
            [
                ("split", "in", ["validation", "test"]),
                ("label", "in", sorted(label for label, _, _ in pairs)),
                (column, "in", kept_nuisances),
            ]
        )
        return clauses

    def _nu(self, label: str) -> float:
        return round(0.3 + 0.7 * uniform(self.name, self.seed, "nu", label), 3)


def rows_matching(table: pa.Table, filters: Filters) -> pa.Table:
    """The rows of a metadata table that the filters keep, in table order."""
    return table.filter(pq.filters_to_expression(filters))
