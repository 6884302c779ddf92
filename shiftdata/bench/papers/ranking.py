"""Rankings of published results and your own, and their agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shiftdata.bench.papers.results import Results
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import RankAgreement, rank_agreement, ranks
from shiftdata.evaluation.metrics.records import number
from shiftdata.tables import Table

#: Metrics that are better when lower.
LESS_IS_BETTER = frozenset(
    {
        "accuracy drop", "concept shift, max", "concept shift, min", "epoch spread", "leakage", "oracle gap",
        "rank", "seed spread", "Std over domains",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Standing:
    """One method in one set of results: the mean over the columns that all methods have, and its rank."""

    method: str
    value: float
    rank: float


@dataclass(frozen=True)
class Ranking:
    """Several sets of results side by side, each with its own ranks.

    `agreement` compares each further set with the first, and `changes` has the places that each method gains,
    both over the shared methods.
    """

    metric: str
    standings: Mapping[str, tuple[Standing, ...]]
    agreement: Mapping[str, RankAgreement]
    changes: Mapping[str, Mapping[str, float]]

    def __str__(self) -> str:
        table = self.table("")
        return "\n".join([*(block.text() for block in table.blocks), *table.notes])

    def table(self, title: str) -> Table:
        """Every method, by its rank in the first set that has it, with notes on agreement."""
        ordered = (sorted(of, key=lambda standing: standing.rank) for of in self.standings.values())
        lines = {standing.method: [standing.method] for of in ordered for standing in of}
        header, (first, *_) = [self.metric], self.standings
        for name, standings in self.standings.items():
            ranks = {of.method: [number(of.value, 2), f"{of.rank:g}"] for of in standings}
            gained = {method: f"{places:+g}" for method, places in self.changes.get(name, {}).items()}
            header += [name, "rank", *(["change"] if name != first else [])]
            for method, cells in lines.items():
                cells += ranks.get(method, ["-", "-"])
                cells += [gained.get(method, "-")] if name != first else []
        notes = [f"{name} against {first}: {agreement}." for name, agreement in self.agreement.items()]
        return Table.plain(title, header, lines.values(), notes)


def ranking(first: Results, *others: Results, names: Sequence[str] | None = None) -> Ranking:
    """Rank the methods of one or more sets of results, published or your own, and compare the rankings.

    A method's value is the mean over the columns that every method of its set has. Choose one metric and one
    part of a table with `where`.

    >>> from shiftdata.bench.papers import published
    >>> old = published("domainbed-v2", 5, part="Supervised ResNet-50", column=["PACS", "VLCS", "OfficeHome"])
    >>> measured = [{"method": "ERM", "value": 84.0}, {"method": "SWAD", "value": 87.2}]
    >>> mine = Results.of(measured, column="PACS", metric="accuracy")
    >>> print(ranking(old.where(method=["ERM", "SWAD", "RSC"]), mine, names=["paper", "mine"]))
    accuracy  paper  rank   mine  rank  change
    SWAD      79.27     1  87.20     1      +0
    ERM       76.50     2  84.00     2      +0
    RSC       75.93     3      -     -       -
    mine against paper: Spearman 1.0000, Kendall 1.0000 (2 methods).
    """
    sets = [first, *others]
    if names is not None and (len(names) != len(sets) or len(set(names)) < len(names)):
        raise InputError(f"{len(sets)} sets of results need as many different names, got {list(names)}")
    labels = list(names or [f"set {place}" for place in range(1, len(sets) + 1)])
    metrics = {metric for results in sets for metric in results.rows["metric"].to_pylist()}
    if len(metrics) != 1:
        raise InputError(
            f"a ranking ranks one metric, these results have {', '.join(sorted(metrics)) or 'none'}: "
            "choose one, as in results.where(metric=...)"
        )
    (metric,) = metrics
    if any(results.rows["value"].null_count for results in sets):
        raise InputError(f"a ranking ranks numbers, and {metric} has words: choose another metric")
    lower = metric in LESS_IS_BETTER
    values = {label: _values(results, label) for label, results in zip(labels, sets, strict=True)}
    standings = {label: _ranked(means, lower) for label, means in values.items()}
    agreement, changes = {}, {}
    for label in labels[1:]:
        shared = [method for method in values[labels[0]] if method in values[label]]
        if len(shared) > 1:
            both = [[values[name][method] for method in shared] for name in (labels[0], label)]
            agreement[label] = rank_agreement(*both, lower_is_better=lower)
            changes[label] = dict(zip(shared, agreement[label].change.tolist(), strict=True))
    return Ranking(metric, standings, agreement, changes)


def _ranked(means: Mapping[str, float], lower: bool) -> tuple[Standing, ...]:
    order = ranks(list(means.values()), lower_is_better=lower).tolist()
    return tuple(map(Standing, means, means.values(), order))


def _values(results: Results, label: str) -> dict[str, float]:
    """Each method's mean over the columns that all methods have."""
    cells: dict[str, dict[str, float]] = {}
    for row in results:
        if row["method"] is None:
            continue
        across = row["column"] if row["method"] == row["row"] else row["row"]
        where = ", ".join(name for name in (row["part"], across) if name)
        of_method = cells.setdefault(row["method"], {})
        if where in of_method:
            raise InputError(
                f"{label}: {row['method']} has two numbers for {where}: choose one table or paper"
            )
        of_method[where] = row["value"]
    if not cells:
        raise InputError(f"{label}: none of these numbers belongs to a method")
    shared = set.intersection(*map(set, cells.values()))
    if not shared:
        raise InputError(f"{label}: no column has a number for each of {', '.join(cells)}")
    columns = [column for column in next(iter(cells.values())) if column in shared]
    return {name: float(np.mean([of[column] for column in columns])) for name, of in cells.items()}
