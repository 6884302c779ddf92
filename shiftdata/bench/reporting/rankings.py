"""Ranks of methods: under each rule, with each backbone, and beside the papers'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from shiftdata.bench.reporting.kinds import Kind, title_of, unit_of
from shiftdata.bench.reporting.scores import Cell, Score, rule_label
from shiftdata.bench.reporting.tables import Group, Section, Table, number, plain_table
from shiftdata.errors import InputError
from shiftdata.papers import Results, published, ranking
from shiftdata.papers.numbers import SCHEMA

#: Our names for the papers' methods. In RLSbench RS and RW are parts of a table: see `_corrected`.
NAMES: Mapping[str, Mapping[str, str]] = {
    "domainbed-v2": {
        "ERM": "erm", "SWAD": "swad", "RSC": "rsc", "GroupDRO": "group-dro-domains", "Fishr": "fishr",
        "CORAL": "coral", "MMD": "mmd", "IRM": "irm", "Mixup": "mixup", "SagNet": "sagnet",
    },
    "nico++": {
        "Deepall": "erm", "SWAD": "swad", "RSC": "rsc", "EoA": "eoa", "MMD": "mmd", "CORAL": "coral",
        "GroupDRO": "group-dro-domains", "IRM": "irm", "SagNet": "sagnet", "MLDG": "mldg", "FACT": "fact",
        "StableNet": "stablenet", "AdaClust": "adaclust", "MMLD": "mmld", "JiGen": "jigen",
        "MixStyle": "mixstyle", "Mixstyle": "mixstyle",  # tables 3 and 2
    },
    "sma": {
        "NO_ADAPT": "erm", "DeepJDOT": "deepjdot", "DANN": "dann", "CDAN": "cdan",
        "UDA": "uan", "OSBP": "osbp", "OVANet": "ovanet", "UniOT": "uniot",
    },
    "rlsbench": {
        "Source": "erm", "BN-adapt": "bn-adapt", "CDANN": "cdan", "TENT": "tent", "DANN": "dann",
        "FixMatch": "fixmatch", "NoisyStudent": "noisy-student",
    },
}  # fmt: skip
CORRECTIONS = {"None": "", "RW": "rw", "RS": "rs", "RS+RW": "rs+rw"}
DATASETS = ("PACS", "VLCS", "OfficeHome", "NICO++", "DomainNet")
#: Methods in common from which on two rankings are compared: of two, every one agrees or none does.
FEWEST = 3


@dataclass(frozen=True)
class Board:
    """A published ranking: its numbers, with our names for the methods that we have."""

    name: str
    results: Results


def ranking_section(groups: Sequence[Group]) -> Section:
    """Ranks in each group under every rule, then over backbones, then beside the papers."""
    tables = []
    for some in _alike(groups, "kind", "family", "dataset", "backbone"):
        first = some[0]
        where = f"{first.kind.name}, {first.dataset}, {first.family}, {first.backbone}"
        sets = {rule_label(one.rule): _results(one) for one in some}
        tables += _table(f"{title_of(first.kind.main)}, ranks by selection: {where}", sets)
        for board in boards(first.kind, first.family):
            tables += _beside(board, sets, where)
    for some in _alike(groups, "kind", "family", "dataset", "rule"):
        if len(some) > 1:
            first = some[0]
            where = f"{first.kind.name}, {first.dataset}, {first.family}, {rule_label(first.rule)}"
            sets = {one.backbone: _results(one) for one in some}
            tables += _table(f"{title_of(first.kind.main)}, ranks by backbone: {where}", sets)
    notes = (
        "1 is the best; equal means share a rank. A change of +2 is two places nearer to the first than "
        "under the first set of numbers. Values are means over the tasks that every method has. Rank "
        "correlations of few methods vary widely by chance.",
    )
    return Section("Ranks", tuple(tables), notes if tables else ())


def _alike(groups: Iterable[Group], *names: str) -> list[list[Group]]:
    found: dict[tuple[str, ...], list[Group]] = {}
    for one in groups:
        found.setdefault(tuple(str(getattr(one, name)) for name in names), []).append(one)
    return list(found.values())


def _plain(one: Score) -> str:
    """The method without the mark of an oracle, which the set of numbers has."""
    return one.method.removesuffix(" (oracle)")


def _results(group: Group) -> Results:
    """The means of the methods that have the most tasks, a column a task."""
    kind = group.kind
    values = {
        (_plain(one), one.selected.study.task_id): float(one.main.mean())
        for one in group.scores
        if one.main.mean() == one.main.mean()
    }
    counts: dict[str, int] = {}
    for method, _ in values:
        counts[method] = counts.get(method, 0) + 1
    most = max(counts.values(), default=0)
    rows = [
        number("", method, task, method, title_of(kind.main), Cell(value, float("nan"), unit_of(kind.main)))
        for (method, task), value in values.items()
        if counts[method] == most
    ]
    return Results(pa.Table.from_pylist(rows, SCHEMA))


def _table(title: str, sets: Mapping[str, Results]) -> list[Table]:
    sets = {name: one for name, one in sets.items() if len(set(one.rows["method"].to_pylist())) > 1}
    if not sets:
        return []
    try:
        made = ranking(*sets.values(), names=list(sets))
    except InputError:  # no task that every method has
        return []
    return [
        plain_table(
            f"{title[:1].upper()}{title[1:]}",
            ["method", *made.header[1:]],
            made.body,
            [f"{one}." for one in made.notes],
        )
    ]


def _beside(board: Board, sets: Mapping[str, Results], where: str) -> list[Table]:
    """Our ranks beside a paper's, over the methods of both."""
    theirs = set(board.results.rows["method"].to_pylist())
    kept = {}
    for name, mine in sets.items():
        shared = sorted(theirs & set(mine.rows["method"].to_pylist()))
        if len(shared) >= FEWEST:
            kept[name] = mine.where(method=shared)
    if not kept:
        return []
    shared = sorted(set.intersection(*(set(one.rows["method"].to_pylist()) for one in kept.values())))
    metric = next(iter(kept.values())).rows["metric"][0].as_py()
    rows = board.results.where(method=shared).rows.to_pylist()
    paper = Results(pa.Table.from_pylist([one | {"metric": metric} for one in rows], SCHEMA))
    return _table(f"Ranks beside the paper's: {where}", {board.name: paper, **kept})


def boards(kind: Kind, family: str) -> Iterator[Board]:
    """The published rankings that a kind of task has."""
    if kind.name == "domain generalization":
        if "classic-dg" in family:
            for part in ("test S, Wi, O, Da", "test A, Wi, Da, Di"):
                yield _board("nico++", published("nico++", 2, part=part, column="Avg."), f"nico++ 2, {part}")
        elif "flexible-dg" in family:
            yield _board("nico++", published("nico++", 3, row=["Rand.", "Comp."]), "nico++ 3")
        else:
            for part in ("Supervised ResNet-50", "MoCo-v2 ResNet-50", "MoCo-v3 ViT-B/16"):
                yield _board(
                    "domainbed-v2",
                    published("domainbed-v2", 5, part=part, column=DATASETS),
                    f"domainbed-v2 5, {part}",
                )
    elif kind.name == "domain adaptation":
        yield _board("sma", published("sma", row="mean", metric="accuracy"), "sma 4 to 8, means")
    elif kind.name == "universal domain adaptation":
        yield _board("sma", published("sma", row="mean", metric="H-score"), "sma 9 to 13, means")
    elif kind.name == "label shift":
        yield Board("rlsbench 5, average", _corrected())


def _board(paper: str, results: Results, name: str) -> Board:
    return Board(name, _renamed(results, {(None, theirs): mine for theirs, mine in NAMES[paper].items()}))


def _corrected() -> Results:
    """RLSbench's methods with and without re-sampling and re-weighting, by our names."""
    names: dict[tuple[str | None, str], str] = {}
    for part, prefix in CORRECTIONS.items():
        for theirs, mine in NAMES["rlsbench"].items():
            whole = "+".join(one for one in (prefix, mine) if one)
            names[part, theirs] = whole.removesuffix("+erm") if prefix else whole
    return _renamed(published("rlsbench", 5, row="Avg"), names)


def _renamed(results: Results, names: Mapping[tuple[str | None, str], str]) -> Results:
    """The numbers of methods that have a name here, a row a method."""
    rows = []
    for row in results:
        name = names.get((row["part"], row["method"])) or names.get((None, row["method"]))
        if name is not None:
            part = "" if (row["part"], row["method"]) in names else row["part"]
            column = row["column"] if row["method"] == row["row"] else row["row"]
            rows.append(row | {"part": part, "row": name, "column": column, "method": name})
    return Results(pa.Table.from_pylist(rows, SCHEMA))
