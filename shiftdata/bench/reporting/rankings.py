"""Ranks of methods: under each rule, with each backbone, and next to those of the papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from shiftdata.bench.papers import Results, published, ranking
from shiftdata.bench.papers.numbers import SCHEMA
from shiftdata.bench.reporting.comparisons import means_of
from shiftdata.bench.reporting.kinds import Kind, capital, title_of
from shiftdata.bench.reporting.scores import Group, Section, alike, rule_label
from shiftdata.errors import InputError
from shiftdata.tables import Table

#: Methods whose name here is not the lower-case name in the papers.
NAMES = {
    "Deepall": "erm", "NO_ADAPT": "erm", "Source": "erm", "GroupDRO": "group-dro-domains", "UDA": "uan",
    "CDANN": "cdan", "NoisyStudent": "noisy-student",
}  # fmt: skip
#: RLSbench's tables have RS and RW as parts.
CORRECTIONS = {"None": "", "RW": "rw", "RS": "rs", "RS+RW": "rs+rw"}
DATASETS = ("PACS", "VLCS", "OfficeHome", "NICO++", "DomainNet")
PRETRAINED = ("Supervised ResNet-50", "MoCo-v2 ResNet-50", "MoCo-v3 ViT-B/16")
#: The fewest methods in common for which two rankings are compared.
FEWEST = 3
NOTE = (
    "1 is the best; equal means share a rank. A change of +2 is two places up from the first set of numbers. "
    "Values are means over the tasks that every method has. Rank correlations of few methods vary widely."
)


def ranking_section(groups: Sequence[Group]) -> Section:
    """Ranks in each group under every rule, then over backbones, then next to the papers."""
    tables = []
    for same in alike(groups, "kind", "family", "dataset", "backbone"):
        first = same[0]
        where = f"{first.kind.name}, {first.dataset}, {first.family}, {first.backbone}"
        sets = {rule_label(group.rule): _results(group) for group in same}
        tables += _table(f"{title_of(first.kind.main)}, ranks by selection: {where}", sets)
        for name, board in boards(first.kind, first.family):
            tables += _with_paper(f"Ranks next to the paper's: {where}", name, board, sets)
    for same in alike(groups, "kind", "family", "dataset", "rule"):
        if len(same) > 1:
            first = same[0]
            where = f"{first.kind.name}, {first.dataset}, {first.family}, {rule_label(first.rule)}"
            sets = {group.backbone: _results(group) for group in same}
            tables += _table(f"{title_of(first.kind.main)}, ranks by backbone: {where}", sets)
    return Section("Ranks", tuple(tables), (NOTE,) if tables else ())


def _results(group: Group) -> Results:
    """The means of the methods that have the most tasks, a column per task."""
    numbers = [
        {"method": method.removesuffix(" (oracle)"), "column": task, "value": mean}
        for method, of in means_of(group.scores).items()
        for task, mean in of.items()
    ]
    return Results.of(numbers, metric=title_of(group.kind.main))


def _methods(results: Results) -> set[str]:
    return set(results.rows["method"].to_pylist())


def _table(title: str, sets: Mapping[str, Results]) -> list[Table]:
    sets = {name: results for name, results in sets.items() if len(_methods(results)) > 1}
    try:
        ranked = ranking(*sets.values(), names=list(sets)) if sets else None
    except InputError:  # no task that every method has
        return []
    return [ranked.table(capital(title))] if ranked else []


def _with_paper(title: str, name: str, board: Results, sets: Mapping[str, Results]) -> list[Table]:
    """Our ranks next to a paper's, over the methods of both."""
    shared = {rule: sorted(_methods(board) & _methods(mine)) for rule, mine in sets.items()}
    chosen = {rule: sets[rule].where(method=of) for rule, of in shared.items() if len(of) >= FEWEST}
    if not chosen:
        return []
    every = sorted(set.intersection(*map(_methods, chosen.values())))
    metric = next(iter(chosen.values())).rows["metric"][0].as_py()
    rows = [row | {"metric": metric} for row in board.where(method=every)]
    return _table(title, {name: Results(pa.Table.from_pylist(rows, SCHEMA)), **chosen})


def boards(kind: Kind, family: str) -> Iterator[tuple[str, Results]]:
    """The published rankings that a kind of task has, by our names."""
    if kind.name == "domain generalization":
        if "classic-dg" in family:
            for part in ("test S, Wi, O, Da", "test A, Wi, Da, Di"):
                yield f"nico++ 2, {part}", _renamed(published("nico++", 2, part=part, column="Avg."))
        elif "flexible-dg" in family:
            yield "nico++ 3", _renamed(published("nico++", 3, row=["Rand.", "Comp."]))
        else:
            for part in PRETRAINED:
                results = published("domainbed-v2", 5, part=part, column=DATASETS)
                yield f"domainbed-v2 5, {part}", _renamed(results)
    elif kind.name == "domain adaptation":
        yield "sma 4 to 8, means", _renamed(published("sma", row="mean", metric="accuracy"))
    elif kind.name == "universal domain adaptation":
        yield "sma 9 to 13, means", _renamed(published("sma", row="mean", metric="H-score"))
    elif kind.name == "label shift":
        yield "rlsbench 5, average", _renamed(published("rlsbench", 5, row="Avg"))


def _renamed(results: Results) -> Results:
    """The numbers by our names of methods, one row each; RLSbench's corrections are methods."""
    rows = []
    for row in results:
        name, part = NAMES.get(row["method"], row["method"].lower()), row["part"]
        if row["paper"] == "rlsbench":
            prefix, part = CORRECTIONS[part], ""
            name = "+".join(text for text in (prefix, "" if prefix and name == "erm" else name) if text)
        across = row["column"] if row["method"] == row["row"] else row["row"]
        rows.append(row | {"part": part, "row": name, "column": across, "method": name})
    return Results(pa.Table.from_pylist(rows, SCHEMA))
