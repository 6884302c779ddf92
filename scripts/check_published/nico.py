"""What can be recomputed in NICO++."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from check_published.cells import Book, Printed, Sheet
from check_published.judging import Finding, box, judge, statement, std_span
from check_published.nico_sizes import AVERAGES, CLASSIC, overall
from check_published.rules import best_of, mean_of, sum_of
from shiftdata.metrics import std
from shiftdata.papers.numbers import published_tables

PAPER = "nico++"
FLEXIBLE = (3, 6, 8)
CLUSTER = "test A, Wi, Da, Di"  # season and light: one cluster of domains
ACROSS = "test S, Wi, O, Da"


def checks(book: Book) -> Iterator[Finding]:
    """Every check of the paper."""
    yield from _shifts(book(PAPER, 1))
    for table in CLASSIC:
        yield from _classic(book(PAPER, table))
    yield from overall(book)
    for table in FLEXIBLE:
        yield from _flexible(book(PAPER, table))
    yield from _captions(book)
    yield from _clusters(book(PAPER, 2))
    yield from _spread(book(PAPER, 4))
    yield from _counts(book)


def _shifts(sheet: Sheet) -> Iterator[Finding]:
    """Table 1, and what section 4.3 says of it."""
    rows = ("covariate shift", "concept shift, min", "concept shift, max")
    for dataset in sheet.columns():
        covariate, least, most = (sheet.get(row, dataset) for row in rows)
        if covariate is None or least is None or most is None or dataset == "I.I.D.":
            continue
        yield from statement(
            least, "the minimum is not above the maximum", least.value <= most.value,
            claim=least.text, found=most.text,
        )  # fmt: skip
        below = dataset == "NICO++"
        for concept in (least, most):
            apart = concept.value - covariate.value
            yield from statement(
                concept,
                "claim of section 4.3: concept shift above covariate shift, below on NICO++",
                (apart < 0) == below,
                claim="below" if below else "above",
                found=f"{concept.text} - {covariate.text} = {apart:+.3f}",
                note="" if concept is most else "theorem 4.3 takes the maximum, where the claim is true",
            )
    for row, best in zip(rows, (max, min, min), strict=True):
        cells = [one for name in sheet.columns() if name != "I.I.D." and (one := sheet.get(row, name))]
        if cells:
            found = best(cells, key=lambda one: one.value)
            yield from statement(
                sheet.get(row, "NICO++"), "claim of section 4.3: NICO++ has the best value",
                found.column == "NICO++", claim="best", found=f"{found.column} {found.text}",
            )  # fmt: skip


def _classic(sheet: Sheet) -> Iterator[Finding]:
    """Average and Std over test domains."""
    for part in sheet.parts:
        domains = [name for name in sheet.columns(part) if name not in AVERAGES]
        for row in sheet.rows(part):
            cells = sheet.along(part, row, domains)
            yield from mean_of(sheet.get(row, "Avg.", part), cells, "domains")
            yield from _std(sheet.get(row, "Std", part), cells)


def _std(target: Printed | None, cells: Sequence[Printed | None]) -> list[Finding]:
    """The tables divide by K; equation 9 divides by K - 1."""
    found = judge(target, std_span("nico++-tables"), cells, "Std over 4 domains (ddof 0)")
    known = [one.value for one in cells if one is not None]
    by_equation = std(known, "nico++") if len(known) == len(cells) else float("nan")
    note = f"equation 9 (ddof 1) gives {by_equation:.2f}"
    return [replace(one, note=note) for one in found]


def _flexible(sheet: Sheet) -> Iterator[Finding]:
    for method in sheet.columns():
        yield from mean_of(
            sheet.get("Avg.", method), [sheet.get(row, method) for row in ("Rand.", "Comp.")], "settings"
        )


def _captions(book: Book) -> Iterator[Finding]:
    """What captions say against headers and rows."""
    for table in published_tables():
        sheet = book(table.paper, table.table)
        if table.paper != PAPER or not sheet.values:
            continue
        facts = table.facts
        first = next(iter(sheet.values.values()))
        for caption, header, check in (
            (
                "split 1, training, caption",
                "split 1, training, header",
                "training domains, caption and header",
            ),
            ("dataset, caption", "dataset, title", "dataset, end and beginning of the caption"),
            ("setting, caption", "setting, rows", "setting, caption and rows"),
            ("spread, caption", "spread, header", "measure of spread, caption and header"),
        ):
            if caption in facts:
                yield from statement(
                    first, check, facts[caption] == facts[header], claim=facts[caption], found=facts[header]
                )
        for number in (1, 2):
            training, test = (facts.get(f"split {number}, {kind}, header") for kind in ("training", "test"))
            if training and test:
                both = set(training.split(", ")) & set(test.split(", "))
                yield from statement(
                    first, f"split {number}: training and test domains differ", not both,
                    claim=training, found=test,
                )  # fmt: skip
        if "domains averaged, caption" in facts:
            domains = len(facts["split 1, test, header"].split(", "))
            claimed = facts["domains averaged, caption"]
            yield from statement(
                first, "domains averaged, caption and header", int(claimed) == domains,
                claim=claimed, found=str(domains),
            )  # fmt: skip


def _clusters(sheet: Sheet) -> Iterator[Finding]:
    """Section 5.2: test domains of one cluster are easier than those across clusters."""
    for method in sheet.rows(CLUSTER):
        one, across = sheet.get(method, "Avg.", CLUSTER), sheet.get(method, "Avg.", ACROSS)
        if one and across:
            yield from statement(
                one, "claim of section 5.2: one cluster is easier than several",
                one.value > across.value, claim="easier", found=f"{one.text} against {across.text}",
            )  # fmt: skip
    for part in sheet.parts:
        methods = sheet.rows(part)
        best = best_of([sheet.get(method, "Avg.", part) for method in methods])
        yield from statement(
            sheet.get("Oracle", "Avg.", part), "claim of section 5.2: the oracle is out of reach",
            [one.row for one in best] == ["Oracle"], claim="best", found=best[0].row if best else "",
        )  # fmt: skip


def _spread(sheet: Sheet) -> Iterator[Finding]:
    """Table 4: the spread on NICO++ is lower than on the other datasets (section 5.4)."""
    for method in sheet.rows("NICO++"):
        for metric in ("epoch spread", "seed spread"):
            own = sheet.get(method, metric, "NICO++")
            others = [
                one for part in sheet.parts if part != "NICO++" and (one := sheet.get(method, metric, part))
            ]
            if own and others:
                least = min(others, key=lambda one: one.value)
                yield from statement(
                    own,
                    "claim of section 5.4: lower than on every other dataset",
                    own.value < least.value,
                    claim=f"{own.text} is lowest",
                    found=f"{least.part} {least.text}",
                )


def _counts(book: Book) -> Iterator[Finding]:
    """Tables 10 and 11: totals of categories, of the dataset, and what the text says of them."""
    common, unique, text = book(PAPER, 10), book(PAPER, 11), book(PAPER, "text")
    for sheet in (common, unique):
        for row in sheet.rows():
            parts = [
                cell for (_, name, column), cell in sheet.values.items() if name == row and column != "Total"
            ]
            if len(parts) == 10:
                yield from sum_of(sheet.get(row, "Total"), parts, "domains")
    totals = [sheet.get(row, "Total") for sheet in (common, unique) for row in sheet.rows()]
    yield from judge(
        text.get("images, thousands", "stated"),
        box(lambda x: float(x.sum() / 1000)),
        totals,
        "sum over all categories of tables 10 and 11",
    )
    kinds = ("animals", "plants", "vehicles", "substances")
    stated = text.get("categories", "stated")
    yield from sum_of(stated, [text.get(kind, "stated") for kind in kinds], "kinds of categories")
    if stated is not None:
        for sheet in (common, unique):
            rows = len(sheet.rows())
            yield from statement(
                stated, f"categories of table {sheet.table}", rows == stated.value,
                claim=stated.text, found=str(rows),
            )  # fmt: skip
    for sheet, name in ((common, "common"), (unique, "unique")):
        yield from _capacity(sheet, text.get(f"capacity of most {name} domains", "stated"))


def _capacity(sheet: Sheet, stated: Printed | None) -> list[Finding]:
    cells = [cell for (_, _, column), cell in sheet.values.items() if column != "Total"]
    if stated is None or not cells:
        return []
    enough = sum(cell.value >= stated.value for cell in cells)
    return statement(
        stated,
        "claim of section 3.2: most domains hold that many images",
        enough > len(cells) / 2,
        claim=f"most hold at least {stated.text}",
        found=f"{enough} of {len(cells)} ({100 * enough / len(cells):.0f} %)",
    )
