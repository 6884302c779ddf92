"""What can be recomputed in Stylized Meta-Album."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from check_published.cells import Book, Printed, Sheet
from check_published.judging import Finding, box, judge, statement, std_span
from check_published.rules import best_of, mean_of, same, sum_of

PAPER = "sma"
STYLES = 20
CLOSED, OPEN = range(4, 9), range(9, 14)
SETTINGS = 4 + 3 - 1  # four values of K, three of mu, one pair of them in both
TO_FIVE = 2.5  # the text gives these means to the nearest five per cent
SMA_EXTENDED = "SMA_Extended (Meta-Dataset)"
SMA_BRD = "SMA_BRD (Single Dataset)"
BENCHMARK = "Stylized Meta-Album (SMA)"
EVERY_STYLE = "Every content image is stylized once in each of the 20 styles, which the text does not say."


def checks(book: Book) -> Iterator[Finding]:
    """Every check of the paper."""
    yield from _benchmarks(book)
    yield from _datasets(book)
    for table in (*CLOSED, *OPEN):
        yield from _scenarios(book(PAPER, table))
    yield from _methods(book)
    yield from _selection(book(PAPER, 3))
    yield from _subsampled(book(PAPER, "figure 12"))
    yield from _stated(book)


def _benchmarks(book: Book) -> Iterator[Finding]:
    """Table 1: smallest and largest class, group and source must be able to give the total."""
    sheet = book(PAPER, 1)
    for part, row in sheet.lines():
        total, classes, sources, datasets = sheet.along(
            part, row, ["instances", "classes", "sources", "datasets"]
        )
        if total is None or classes is None or sources is None or datasets is None:
            continue
        own_sources = sources.value * datasets.value  # every dataset of a meta-dataset has its own
        counts = {"class": classes.value, "source": own_sources}
        complete = sheet.get(row, "classes per source, min", part)
        if complete is not None and complete.value * datasets.value == classes.value:
            counts["group"] = classes.value * sources.value  # no class is absent from a source
        for name, count in counts.items():
            yield from _can_add_up(sheet, part, row, name, count, total)
        yield from _nested(sheet, part, row, sources.value, classes.value / datasets.value, counts)


def _can_add_up(
    sheet: Sheet, part: str, row: str, name: str, count: float, total: Printed
) -> Iterator[Finding]:
    least, most = sheet.along(part, row, [f"instances per {name}, min", f"instances per {name}, max"])
    if least is None or most is None or count < 2:
        return
    low = (count - 1) * least.value + most.value
    high = least.value + (count - 1) * most.value
    yield from statement(
        least,
        f"smallest and largest {name} allow the total",
        low <= total.value <= high,
        claim=f"{least.text} to {most.text}, total {total.text}",
        found=f"{count:,.0f} of them have {low:,.0f} to {high:,.0f} images",
        note=f"the row itself gives the number: {count:,.0f}",
    )


def _nested(
    sheet: Sheet, part: str, row: str, sources: float, classes: float, counts: dict[str, float]
) -> Iterator[Finding]:
    """A class has one group a source, a source one group a class."""
    if "group" not in counts:
        return
    group = sheet.along(part, row, ["instances per group, min", "instances per group, max"])
    for name, groups in (("class", sources), ("source", classes)):
        whole = sheet.along(part, row, [f"instances per {name}, min", f"instances per {name}, max"])
        least, most, smallest, largest = (*whole, *group)
        if least is None or most is None or smallest is None or largest is None:
            continue
        yield from statement(
            most,
            f"groups fit into each {name}",
            least.value >= groups * smallest.value and most.value <= groups * largest.value,
            claim=f"{least.text} to {most.text} images a {name}",
            found=f"{groups:.0f} groups of {smallest.text} to {largest.text}",
            note="a group is one class in one source (section 2), and each source has all classes",
        )


def _datasets(book: Book) -> Iterator[Finding]:
    """Table 2: every content image in every style, and the totals of table 1."""
    sheet, benchmarks, text = book(PAPER, 2), book(PAPER, 1), book(PAPER, "text")
    rows = sheet.rows()
    times = box(lambda x: float(x[0] * STYLES))
    for row in rows:
        for kind in ("classes", "images"):
            content, stylized = sheet.along("", row, [f"content {kind}", f"stylized {kind}"])
            check = f"{STYLES} styles of each content"
            yield from judge(stylized, times, [content], check, assumption=EVERY_STYLE)
    images = [sheet.get(row, "stylized images") for row in rows]
    yield from sum_of(benchmarks.get(SMA_EXTENDED, "instances", BENCHMARK), images, "datasets of table 2")
    groups = [sheet.get(row, "stylized classes") for row in rows]
    yield from sum_of(text.get("groups", "stated"), groups, "datasets of table 2")
    contents = [one for row in rows if (one := sheet.get(row, "content images"))]
    if contents:
        ordered = sorted(contents, key=lambda one: one.value)
        for cell, end in ((ordered[0], "min"), (ordered[-1], "max")):
            yield from same(cell, benchmarks.get(SMA_EXTENDED, f"instances per source, {end}", BENCHMARK))
    for end in ("min", "max"):
        source = benchmarks.get(SMA_BRD, f"instances per source, {end}", BENCHMARK)
        yield from same(sheet.get("SMA_BRD", "content images"), source)
    brd = benchmarks.get(SMA_BRD, "instances", BENCHMARK)
    yield from same(sheet.get("SMA_BRD", "stylized images"), brd)
    for name in ("PLT_DOC", "APL"):
        stated = text.get(f"images of {name}", "stated")
        yield from same(sheet.get(f"SMA_{name}", "content images"), stated)


def _scenarios(sheet: Sheet) -> Iterator[Finding]:
    """Tables 4 to 13: mean and standard error (ddof 1) over 25 scenarios."""
    for part in sheet.parts:
        scenarios = [row for row in sheet.rows(part) if row != "mean"]
        for method in sheet.columns(part):
            cells = [sheet.get(row, method, part) for row in scenarios]
            yield from mean_of(sheet.get("mean", method, part), cells, "scenarios")
            yield from judge(
                sheet.spread("mean", method, part),
                std_span(ddof=1, per_root=len(cells)),
                cells,
                f"SEM over {len(cells)} scenarios (ddof 1)",
            )


def _methods(book: Book) -> Iterator[Finding]:
    """Section 3.2.2: which method is best on which dataset."""
    for tables, wanted in (
        (CLOSED, dict.fromkeys(("BIRDS", "DOGS", "SPORTS", "PLT_DOC", "APL"), "CDAN")),
        (OPEN, {"BIRDS": "OVANet", "SPORTS": "OVANet", "DOGS": "OVANet", "PLT_DOC": "UniOT", "APL": "UniOT"}),
    ):
        for sheet in (book(PAPER, table) for table in tables):
            for dataset in sheet.parts:
                means = sheet.along(dataset, "mean", sheet.columns(dataset))
                best = best_of(means)
                yield from statement(
                    sheet.get("mean", wanted[dataset], dataset),
                    "claim of section 3.2.2: the best method",
                    [cell.column for cell in best] == [wanted[dataset]],
                    claim=f"{wanted[dataset]} is best on {dataset}",
                    found=" and ".join(f"{cell.column} {cell.text}" for cell in best),
                    note="the 25 printed scenarios give the same means",
                )
    for sheet in (book(PAPER, table) for table in CLOSED):
        for dataset in sheet.parts:
            plain, *adapted = [one for one in sheet.along(dataset, "mean", sheet.columns(dataset)) if one]
            yield from statement(
                plain,
                "claim of section 3.2.2: adaptation helps",
                all(one.value > plain.value for one in adapted),
                claim="every method is better than no adaptation",
                found=f"{plain.text} against {', '.join(one.text for one in adapted)}",
            )


def _selection(sheet: Sheet) -> Iterator[Finding]:
    """Table 3: what appendix E.3 and section 3.1.3 say of K = 8, and of K = 2."""
    columns = ["Acc.", "Worst Acc.", "Top-3 Worst Acc."]
    for dataset in sheet.parts:
        cells = [one for one in sheet.along(dataset, "K=8", columns) if one]
        if len(cells) == 3:
            best = best_of(cells)
            wins = [cell.column for cell in best] == ["Top-3 Worst Acc."]
            yield from statement(
                cells[2],
                "claim of appendix E.3: top-3 selection is best at K = 8",
                wins == (dataset != "Dogs"),
                claim="not on Dogs" if dataset == "Dogs" else "best",
                found=f"best: {best[0].column} {best[0].text}",
            )
        yield from _no_difference(sheet, dataset)
    tex = "Texture-DTD"
    plain, worst, top = sheet.along(tex, "K=8", columns)
    if plain and worst and top:
        yield from statement(
            plain,
            "claim of section 3.1.3: at K = 8 selection by accuracy beats the worst group",
            plain.value > worst.value,
            claim="better",
            found=f"{plain.text} against {worst.text}",
        )


def _no_difference(sheet: Sheet, dataset: str) -> Iterator[Finding]:
    names = ("Acc.", "Top-3 Worst Acc.")
    one, other = sheet.along(dataset, "K=2", names)
    errors = [sheet.spread("K=2", name, dataset) for name in names]
    if one is None or other is None or errors[0] is None or errors[1] is None:
        return
    apart = abs(one.value - other.value) / float(np.hypot(errors[0].value, errors[1].value))
    yield from statement(
        other,
        "claim of appendix E.3: at K = 2 accuracy and top-3 select alike",
        apart < 2,
        claim="no significant difference",
        found=f"{apart:.1f} standard errors apart",
    )


def _subsampled(sheet: Sheet) -> Iterator[Finding]:
    """Figure 12: in each class the dominant style keeps all, the others a tenth."""
    for number, label in enumerate(sheet.columns()):
        rows = sheet.rows()
        for row in rows:
            if row != rows[number]:
                dominant = sheet.get(rows[number], label)
                tenth = box(lambda x: float(0.1 * x[0]))
                yield from judge(
                    sheet.get(row, label), tenth, [dominant], "mu = 10 % of the dominant group", half=0.5
                )


def _stated(book: Book) -> Iterator[Finding]:
    text = book(PAPER, "text")
    for setting, tables in (("closed set", CLOSED), ("UniDA", OPEN)):
        for sheet, dataset in product((book(PAPER, table) for table in tables), ("BIRDS", "PLT_DOC")):
            stated = text.get(f"mean of {dataset}, {setting}", "stated")
            means = sheet.along(dataset, "mean", sheet.columns(dataset))
            check = f"mean over {len(means)} methods, to the nearest 5 %"
            mean = box(lambda x: float(x.mean()))
            yield from judge(stated, mean, means, check, half=TO_FIVE) if dataset in sheet.parts else ()
        ratio = text.get(f"SEM ratio, {setting}", "stated")
        less = box(lambda x: float(100 * (1 - x[0])))
        yield from judge(
            text.get(f"SEM reduction, {setting}", "stated"), less, [ratio], "1 - ratio", half=0.5
        )
    yield from same(
        text.get("scenarios of OfficeHome, section 3.2.2", "stated"),
        text.get("scenarios of OfficeHome, figure 9", "stated"),
        assumption="Both places count the scenarios behind the same bars of figure 9.",
    )
    names = ("methods", "runs to find hyper-parameters", "runs with them")
    yield from judge(
        text.get("training sessions per dataset", "stated"),
        box(lambda x: float(x[0] * (x[1] + x[2]) * SETTINGS)),
        [text.get(name, "stated") for name in names],
        f"methods x runs x {SETTINGS} settings",
        note="K and mu are varied one at a time; all 12 pairs of them would be 1,680",
    )
