"""What can be recomputed in NICO++."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linprog

from check_published.cells import Book, Printed, Sheet
from check_published.judging import EDGE, Finding, box, judge, statement, std_span
from check_published.rules import best_of, mean_of, sum_of, weighted
from shiftdata.bench.papers.numbers import published_tables
from shiftdata.evaluation.metrics.statistics import spread

PAPER = "nico++"
CLASSIC, FLEXIBLE = (2, 5, 7, 9), (3, 6, 8)
AVERAGES = ("Ova.", "Avg.", "Std")
#: How headers abbreviate the domains of table 10.
DOMAINS = {
    "G": "grass", "Wa": "water", "R": "rock", "A": "autumn", "I": "indoor", "Di": "dim", "S": "sand",
    "Wi": "winter", "O": "outdoor", "Da": "dark",
}  # fmt: skip
CLUSTER = "test A, Wi, Da, Di"  # season and light: one cluster of domains
ACROSS = "test S, Wi, O, Da"
OF_MEANS = (
    "As in every other row, Std is that of the mean accuracies of three runs, not the mean Std of the runs."
)
BOTH_TERMS = "The statement means the minimum, too; theorem 4.3, which it names, has the maximum."
EACH_METHOD = "The statement is about each method, not about the datasets as a whole."
ALL_IMAGES = "The test sets are all images that table 10 counts in the domains of the header."
ALL_LISTED = "Tables 10 and 11 list every image that the text counts."
#: What captions say: what it is compared with, why that excludes it, and the assumption behind it, if any.
CAPTIONS = {
    "split 1, training": ("header", "the columns test on three of the caption's domains", ""),
    "dataset": ("title", "the columns are domains of NICO++, not of DomainNet", ""),
    "setting": ("rows", "", "A DG setting that is not called flexible is the classic one."),
    "spread": ("header", "the column is the standard deviation of the printed accuracies", ""),
}


def checks(book: Book) -> Iterator[Finding]:
    """Every check of the paper."""
    yield from _shifts(book(PAPER, 1))
    for table in CLASSIC:
        yield from _classic(book(PAPER, table))
        yield from _overall(book(PAPER, table), book(PAPER, 10))
    for table in FLEXIBLE:
        yield from _flexible(book(PAPER, table))
    yield from _captions(book)
    yield from _clusters(book(PAPER, 2))
    yield from _spread(book(PAPER, 4))
    yield from _counts(book)
    yield from _layers(book(PAPER, 12))


def _layers(sheet: Sheet) -> Iterator[Finding]:
    """Table 12: every kernel fits the map before it, without padding."""
    (size,) = [cell.value for row in sheet.rows() if (cell := sheet.get(row, "height"))] or (0.0,)
    for row in sheet.rows():
        kernel, stride = sheet.get(row, "kernel size"), sheet.get(row, "stride")
        if kernel and stride and size:
            fits = size >= kernel.value
            yield from statement(
                kernel, "the kernel fits the map without padding", fits, claim=kernel.text,
                found=f"a map of {size:g} x {size:g}",
            )  # fmt: skip
            size = (size - kernel.value) // stride.value + 1


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
                assumption="" if concept is most else BOTH_TERMS,
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
    check = "Std over 4 domains (ddof 0)"
    found = judge(target, std_span(ddof=0), cells, check, assumption=OF_MEANS)
    known = np.array([cell.value for cell in cells if cell is not None])
    by_equation = spread(known) if len(known) == len(cells) else float("nan")
    note = f"equation 9 (ddof 1) gives {by_equation:.2f}"
    return [replace(one, note=note) for one in found]


def _overall(sheet: Sheet, counts: Sheet) -> Iterator[Finding]:
    """Equation 9: overall accuracy weighs each test domain by its images."""
    for part in sheet.parts:
        domains = [name for name in sheet.columns(part) if name not in AVERAGES]
        sizes = [_images(counts, DOMAINS.get(name, name)) for name in domains]
        check = f"mean over {len(domains)} domains, weighted by their images in table 10"
        for row in sheet.rows(part) if all(sizes) else ():
            cells = sheet.along(part, row, domains)
            yield from weighted(sheet.get(row, "Ova.", part), cells, sizes, check, assumption=ALL_IMAGES)
        yield from _any_sizes(sheet, part, domains)


def _images(counts: Sheet, domain: str) -> float:
    return sum(cell.value for row in counts.rows() if (cell := counts.get(row, domain)))


def _any_sizes(sheet: Sheet, part: str, domains: Sequence[str]) -> list[Finding]:
    """Whatever the sizes of the domains are, they are the same for every method.

    A linear program finds the sizes that come nearest to all printed overall accuracies. Oracles are left
    out: they are tested on a fifth of the images (section C.1).
    """
    methods = [row for row in sheet.rows(part) if not row.startswith("Oracle")]
    rows = [sheet.along(part, row, [*domains, "Ova."]) for row in methods]
    cells = [[one for one in row if one is not None] for row in rows if None not in row]
    if not cells:
        return []
    values = np.array([[one.value for one in row] for row in cells])
    accuracy, overall = values[:, :-1], values[:, -1]
    slack = np.ones((len(cells), 1))
    apart = linprog(
        [0] * len(domains) + [1],
        A_ub=np.block([[accuracy, -slack], [-accuracy, -slack]]),
        b_ub=np.concatenate([overall, -overall]),
        A_eq=[[1] * len(domains) + [0]],
        b_eq=[1],
    ).fun
    room = cells[0][0].half + cells[0][-1].half
    return statement(
        cells[0][-1],
        "some domain sizes give the overall accuracy of every method",
        apart <= room + EDGE,
        claim=f"within {room:g}",
        found=f"the best of all sizes leave {apart:.3f}",
        note="equation 9 has one size a domain, whatever the method; oracles are left out",
    )


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
        for fact, (other, note, assumption) in CAPTIONS.items():
            if f"{fact}, caption" in facts:
                claim, found = facts[f"{fact}, caption"], facts[f"{fact}, {other}"]
                yield from statement(
                    first, f"{fact}, caption and {other}", claim == found,
                    claim=claim, found=found, note=note, assumption=assumption,
                )  # fmt: skip
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
                claim=claimed, found=str(domains), note="the column is the mean of four printed accuracies",
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
                    assumption=EACH_METHOD,
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
                note = "each image has one domain (section 3); the other totals are sums"
                yield from sum_of(sheet.get(row, "Total"), parts, "domains", note)
    totals = [sheet.get(row, "Total") for sheet in (common, unique) for row in sheet.rows()]
    yield from judge(
        text.get("images, thousands", "stated"),
        box(lambda x: float(x.sum() / 1000)),
        totals,
        "sum over all categories of tables 10 and 11",
        assumption=ALL_LISTED,
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
