"""What can be recomputed in the rethought DG protocol (DomainBed-v2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from check_published.cells import Book, Printed, Sheet
from check_published.everywhere import identical_rows
from check_published.judging import Finding, box, exactly, judge, statement
from check_published.rules import best_of, mean_of, same, spread_of_mean
from shiftdata.evaluation.metrics import ranks, spearman

PAPER = "domainbed-v2"
WITH_PROBES, LEADERBOARDS = (1, 3, 6, 7, 8), range(9, 22)
OLD, V2, V3 = "Supervised ResNet-50", "MoCo-v2 ResNet-50", "MoCo-v3 ViT-B/16"
SCRATCH = "ResNet-50 trained from scratch"
DATASETS = ("PACS", "VLCS", "OfficeHome", "NICO++", "DomainNet")
SAME_RELEASE = "Both papers describe the same release of the dataset."
ONE_DOMAIN = "Table 8 tests one domain of NICO++ at a time, and not two as tables 14 and 19 do."
CORRELATIONS = {
    "supervised against scratch": (OLD, SCRATCH),
    "MoCo-v2 against scratch": (V2, SCRATCH),
    "MoCo-v3 against scratch": (V3, SCRATCH),
    "MoCo-v2 against MoCo-v3": (V2, V3),
}


def checks(book: Book) -> Iterator[Finding]:
    """Every check of the paper."""
    for table in (*WITH_PROBES, *LEADERBOARDS):
        yield from _averages(book(PAPER, table))
    yield from _gaps(book(PAPER, 1), book(PAPER, 2))
    yield from _leakage(book(PAPER, 4))
    yield from _summary(book)
    yield from _correlations(book)
    yield from _claims(book)
    yield from _stated(book)
    yield from _printed_twice(book)


def _averages(sheet: Sheet) -> Iterator[Finding]:
    """The mean over test domains, and whether its spread over seeds is possible."""
    for part, row in sheet.lines():
        domains = [name for name in sheet.columns(part) if name != "Avg"]
        yield from mean_of(sheet.get(row, "Avg", part), sheet.along(part, row, domains), "domains")
        spreads = [sheet.spread(row, name, part) for name in domains]
        yield from spread_of_mean(sheet.spread(row, "Avg", part), spreads, "domains")


def _gaps(probes: Sheet, gaps: Sheet) -> Iterator[Finding]:
    """Table 2: (LP - FT) / FT of table 1; its relation to the distance from ImageNet."""
    gap = box(lambda x: float((x[0] - x[1]) / x[1]))
    for dataset in gaps.parts:
        domains = gaps.columns(dataset)
        for domain in domains:
            inputs = [probes.get(kind, domain, dataset) for kind in ("LP", "FT")]
            yield from judge(gaps.get("Gap", domain, dataset), gap, inputs, "(LP - FT) / FT of table 1")
        both = [[gaps.get(row, domain, dataset) for domain in domains] for row in ("Gap", "FID")]
        known = [[one.value for one in row if one is not None] for row in both]
        if known[0] and len(known[0]) == len(known[1]) == len(domains):
            rho = spearman(*known)
            yield from statement(
                both[1][0], "claim of section 2.1: nearer to ImageNet, larger gap", rho < 0,
                claim="falling", found=f"Spearman {rho:.2f}",
            )  # fmt: skip


def _leakage(sheet: Sheet) -> Iterator[Finding]:
    """Table 4: averages, leakage and its change, from single domains: their means have more digits."""
    gain = box(lambda x: float(x[: len(x) // 2].mean() - x[len(x) // 2 :].mean()))
    change = box(lambda x: _change(np.split(x, 3)))
    for part in sheet.parts:
        domains = sheet.columns(part)[:3]
        iid, first = (sheet.along(part, row, domains) for row in ("IID", "Oracle, K=1"))
        for row in sheet.rows(part):
            cells = sheet.along(part, row, domains)
            yield from mean_of(sheet.get(row, "Avg", part), cells, "domains")
            leakage = sheet.get(row, "leakage", part)
            yield from judge(leakage, gain, [*cells, *iid], "oracle mean less IID mean")
            yield from judge(
                sheet.get(row, "change", part), change, [*cells, *first, *iid],
                "leakage against K = 1", half=0.5,
            )  # fmt: skip
        yield from _oracle_is_best(sheet, part, domains, first)


def _change(rows: Sequence[np.ndarray]) -> float:
    cells, first, iid = (float(row.sum()) for row in rows)
    return 100 * ((cells - iid) / (first - iid) - 1) if first != iid else float("nan")


def _oracle_is_best(
    sheet: Sheet, part: str, domains: Sequence[str], first: Sequence[Printed | None]
) -> Iterator[Finding]:
    """With K = 1 the oracle takes the best setting for each domain: nothing can be above it."""
    for domain, best in zip(domains, first, strict=True):
        others = [one for row in sheet.rows(part) if (one := sheet.get(row, domain, part))]
        if best is not None and others:
            top = max(others, key=lambda one: one.value)
            yield from statement(
                best, "the oracle on a domain alone is the best on it", top.value <= best.value,
                claim=best.text, found=f"{top.row} {top.text}",
            )  # fmt: skip


def _summary(book: Book) -> Iterator[Finding]:
    """Table 5: averages over datasets, ranks by them, rank changes, and its cells in tables 9 to 19."""
    sheet = book(PAPER, 5)
    for part in sheet.parts:
        methods = sheet.rows(part)
        for method in methods:
            yield from mean_of(
                sheet.get(method, "Average", part), sheet.along(part, method, DATASETS), "datasets"
            )
        yield from _ranks(sheet, part, methods)
        for method in methods if part != OLD else ():
            before = [sheet.get(method, "Ranking", one) for one in (OLD, part)]
            moved = box(lambda x: float(x[0] - x[1]))
            yield from judge(sheet.get(method, "Rank change", part), moved, before, "old rank less new rank")
    for table in range(9, 20):
        detail = book(PAPER, table)
        for part, method in detail.lines():
            dataset, _, setting = part.partition(", ")
            printed = sheet.get(method, dataset, setting)
            yield from same(detail.get(method, "Avg", part), printed, note="table 5 collects tables 9 to 19")
            own, summary = detail.spread(method, "Avg", part), sheet.spread(method, dataset, setting)
            yield from _same_spread(own, summary)


def _same_spread(own: Printed | None, summary: Printed | None) -> list[Finding]:
    found = same(own, summary)
    return [replace(one, check=f"spread {one.check}") for one in found]


def _ranks(sheet: Sheet, part: str, methods: Sequence[str]) -> Iterator[Finding]:
    """Ranks by the average over datasets, recomputed because the printed averages tie."""
    cells = [sheet.along(part, method, DATASETS) for method in methods]
    known = [[one.value for one in row if one is not None] for row in cells]
    if any(len(row) < len(DATASETS) for row in known):
        return
    recomputed = ranks([float(np.mean(row)) for row in known])
    for method, rank in zip(methods, recomputed, strict=True):
        printed = sheet.get(method, "Ranking", part)
        average = sheet.get(method, "Average", part)
        yield from judge(printed, exactly(float(rank)), [average], "rank by the recomputed average")


def _standing(book: Book, setting: str) -> dict[str, float]:
    """Each method's average over the datasets of a leaderboard."""
    sheet = book(PAPER, 5)
    if setting in sheet.parts:
        rows = {method: sheet.along(setting, method, DATASETS) for method in sheet.rows(setting)}
    else:
        tables = [book(PAPER, table) for table in (20, 21)]
        methods = tables[0].rows(f"DomainNet, {setting}")
        rows = {
            method: [
                one.get(method, "Avg", f"{name}, {setting}")
                for one, name in zip(tables, ("DomainNet", "NICO++"), strict=True)
            ]
            for method in methods
        }
    return {
        method: float(np.mean([cell.value for cell in cells if cell is not None]))
        for method, cells in rows.items()
        if None not in cells
    }


def _correlations(book: Book) -> Iterator[Finding]:
    """Section 3.2: rank correlations between leaderboards."""
    text = book(PAPER, "text")
    for name, (one, other) in CORRELATIONS.items():
        first, second = _standing(book, one), _standing(book, other)
        stated = text.get(name, "stated")
        if set(first) == set(second) and len(first) > 1:
            rho = spearman(list(first.values()), [second[method] for method in first])
            yield from judge(
                stated, exactly(rho), [stated],
                "Spearman correlation of the averages",
                note="from scratch: mean of tables 20 and 21" if other == SCRATCH else "",
            )  # fmt: skip


def _claims(book: Book) -> Iterator[Finding]:
    """Section 3.2: SWAD is first in every leaderboard. Section 2.1: after self-supervision LP never wins."""
    for setting in (OLD, V2, V3, SCRATCH):
        standing = _standing(book, setting)
        if standing:
            best = max(standing, key=lambda method: standing[method])
            cell = book(PAPER, 5).get("SWAD", "Average", setting) or book(PAPER, 21).get(
                "SWAD", "Avg", f"NICO++, {setting}"
            )
            yield from statement(
                cell, "claim of section 3.2: SWAD ranks first in every leaderboard", best == "SWAD",
                claim=f"first: {setting}", found=f"{best} {standing[best]:.2f}, SWAD {standing['SWAD']:.2f}",
                note=_alone(book(PAPER, 21)) if setting == SCRATCH else "",
            )  # fmt: skip
    for table in (3, 6, 8):
        yield from _probes_lose(book(PAPER, table))


def _alone(sheet: Sheet) -> str:
    """Who is first in table 21, because the paper prints no average of tables 20 and 21."""
    (part,) = sheet.parts
    (first,) = best_of([sheet.get(method, "Avg", part) for method in sheet.rows(part)])
    return f"averages of tables 20 and 21; in table 21 alone {first.row} is first with {first.text}"


def _probes_lose(sheet: Sheet) -> Iterator[Finding]:
    for part in sheet.parts:
        if not any(name in part for name in ("MoCo", "SimCLR")):
            continue
        pairs = [(sheet.get("LP", name, part), sheet.get("FT", name, part)) for name in sheet.columns(part)]
        wins = [lp.column for lp, ft in pairs if lp and ft and lp.value > ft.value]
        yield from statement(
            sheet.get("LP", "Avg", part), "claim of section 2.1: LP does not win after self-supervision",
            not wins, claim="on no domain", found=", ".join(wins) or "on none",
        )  # fmt: skip


def _stated(book: Book) -> Iterator[Finding]:
    """Section 3.1: the cost of a setting. Section 2: sizes of datasets, which other papers state too."""
    text = book(PAPER, "text")
    names = ("trials", "further seeds")
    total = box(lambda x: float(x.sum()))
    cost = [text.get(name, "stated") for name in names]
    yield from judge(
        text.get("models trained for a setting", "stated"), total, cost, "trials + further seeds"
    )
    other = book("sma", 1)
    for mine, theirs in (("PACS", "PACS"), ("OfficeHome", "Office-Home"), ("DomainNet", "DomainNet")):
        listed = other.get(theirs, "instances", "Multi-source benchmarks")
        yield from same(listed, text.get(f"examples of {mine}", "stated"), assumption=SAME_RELEASE)


def _printed_twice(book: Book) -> Iterator[Finding]:
    """The same experiment in two tables; and identical rows that cannot be the same experiment."""
    probes = {part: book(PAPER, table) for table in (3, 6, 8) for part in book(PAPER, table).parts}
    for dataset in book(PAPER, 1).parts:
        part = f"{dataset}, ResNet-50, Supervised"
        if part in probes:
            for row, name in ((row, name) for row in ("LP", "FT") for name in probes[part].columns(part)):
                yield from same(book(PAPER, 1).get(row, name, dataset), probes[part].get(row, name, part))
    for table in (10, 11, 12, 15, 16, 17):
        yield from _fine_tuned(book(PAPER, table), probes)
    for first, second in identical_rows(sheet for sheet in book if sheet.paper == PAPER):
        one, other = (_experiment(cells[0]) for cells in (first, second))
        if one != other:
            same_data = one.partition(",")[0] == other.partition(",")[0]
            yield from statement(
                second[0], "identical rows in different places", False,
                claim=f"table {second[0].table}: {other}", found=f"table {first[0].table}: {one}",
                note="the same ten numbers for two datasets", assumption=ONE_DOMAIN if same_data else "",
            )  # fmt: skip


def _fine_tuned(sheet: Sheet, probes: dict[str, Sheet]) -> Iterator[Finding]:
    """With one test domain at a time, fine-tuning is what a leaderboard calls ERM."""
    for part in sheet.parts:
        dataset, weights = part.split(", ")
        again = f"{dataset}, {', '.join(weights.split()[::-1])}"
        if again in probes:
            names = zip(sheet.columns(part), probes[again].columns(again), strict=True)
            for own, other in names:
                yield from same(probes[again].get("FT", other, again), sheet.get("ERM", own, part))


def _experiment(cell: Printed) -> str:
    """What a row is the result of: dataset, weights, method, test domains at a time."""
    names = cell.part.split(", ")
    if int(cell.table) in LEADERBOARDS:
        weights = " ".join(names[1].split()[::-1])
        groups = names[0] in ("DomainNet", "NICO++") and cell.table != "9"
        return f"{names[0]}, {weights}, {cell.row}, {'two test domains' if groups else 'one test domain'}"
    weights = " ".join(names[1:]) or "ResNet-50 Supervised"
    return f"{names[0]}, {weights}, {cell.row.replace('FT', 'ERM')}, one test domain"
