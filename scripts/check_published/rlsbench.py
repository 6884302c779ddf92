"""What can be recomputed in RLSbench."""

from __future__ import annotations

from collections.abc import Iterator

from check_published.cells import Book, Printed, Sheet
from check_published.judging import Finding, box, judge, statement
from check_published.rules import best_of, mean_of, same, sum_of

PAPER = "rlsbench"
SEVERITIES, SEEDS = 5, 2  # None, 10, 3, 1, 0.5; two draws of each
SIMILAR = 1.0  # per cent; the text calls RS-FixMatch similar or superior
ANY_CORRECTION = (
    "Methods with one correction compete, too; the text names the meta-algorithm, which has both."
)
HELP = "To help is to raise the mean accuracy over the six methods with both corrections."
#: Table 4's names of what table 5 prints without correction.
SAME_METHOD = {
    "Source": "Source (w aug)",
    "BN-adapt": "BN-adapt",
    "TENT": "TENT",
    "DANN": "DANN",
    "CDANN": "CDAN",
    "FixMatch": "Fix-Match",
    "NoisyStudent": "Noisy-Student",
}


def checks(book: Book) -> Iterator[Finding]:
    """Every check of the paper."""
    yield from _pairs(book)
    for table in (4, 5):
        yield from _averages(book(PAPER, table))
    yield from _printed_twice(book)
    yield from _best(book)
    yield from _corrections_help(book(PAPER, 5))
    yield from _batch_size(book(PAPER, 7))
    yield from _settings(book(PAPER, 6), book(PAPER, "text"))


def _pairs(book: Book) -> Iterator[Finding]:
    targets, text = book(PAPER, 1), book(PAPER, "text")
    rows = targets.rows()
    yield from sum_of(
        text.get("source and target pairs", "stated"),
        [targets.get(row, "targets") for row in rows],
        "datasets",
    )
    pairs = text.get("pairs with label shift", "stated")
    shifted = box(lambda x: float(x[0] * SEVERITIES * SEEDS))
    stated = [text.get("source and target pairs", "stated")]
    note = "the unshifted target counts for two seeds too"
    yield from judge(pairs, shifted, stated, f"pairs x {SEVERITIES} severities x {SEEDS} seeds", note=note)
    number = text.get("datasets", "stated")
    if number is not None and rows:
        yield from statement(
            number, "datasets of table 1", len(rows) == number.value, claim=number.text, found=str(len(rows))
        )


def _averages(sheet: Sheet) -> Iterator[Finding]:
    """The last row of tables 4 and 5: the mean over datasets."""
    for part in sheet.parts:
        datasets = [row for row in sheet.rows(part) if row != "Avg"]
        for method in sheet.columns(part):
            cells = [sheet.get(row, method, part) for row in datasets]
            yield from mean_of(sheet.get("Avg", method, part), cells, "datasets")


def _printed_twice(book: Book) -> Iterator[Finding]:
    """What is printed without correction has two digits in one place and one in the other."""
    plain, corrected = book(PAPER, 4), book(PAPER, 5)
    for row in corrected.rows("None"):
        for method, name in SAME_METHOD.items():
            yield from same(plain.get(row, name), corrected.get(row, method, "None"))
    for table in (2, 3):
        sheet = book(PAPER, table)
        for row in sheet.rows("plain"):
            again = next((one for one in sheet.rows("None") if one.rstrip("s") == row.rstrip("s")), row)
            for method in sheet.columns("None"):
                yield from same(sheet.get(row, method, "plain"), sheet.get(again, method, "None"))


def _best(book: Book) -> Iterator[Finding]:
    """Section 4: which method with which correction is best on each modality."""
    for table, kind, method, correction in (
        (5, "vision", "FixMatch", "RS+RW"),
        (2, "NLP", "Source", "RW"),
        (3, "tabular", "CDANN", "RS+RW"),
    ):
        sheet = book(PAPER, table)
        means = _means(sheet)
        if not means:
            continue
        best = max(means, key=lambda one: means[one])
        claimed = (method, correction)
        row = "Avg" if table == 5 else sheet.rows(correction)[0]
        yield from statement(
            sheet.get(row, method, correction),
            "claim of section 4: the best method on a modality",
            means.get(claimed, 0.0) >= means[best] - 1e-9,
            claim=f"{method} with {correction} is best on {kind}",
            assumption=ANY_CORRECTION,
            found=f"{best[0]} with {best[1]} {means[best]:.2f}, {method} {means.get(claimed, 0.0):.2f}",
        )


def _means(sheet: Sheet) -> dict[tuple[str, str], float]:
    """The mean over datasets of each method and correction; the printed one where there is one."""
    found = {}
    for part in sheet.parts:
        if part == "plain":
            continue
        rows = ["Avg"] if "Avg" in sheet.rows(part) else sheet.rows(part)
        for method in sheet.columns(part):
            cells = [one for row in rows if (one := sheet.get(row, method, part))]
            if len(cells) == len(rows):
                found[method, part] = sum(cell.value for cell in cells) / len(cells)
    return found


def _corrections_help(sheet: Sheet) -> Iterator[Finding]:
    """The caption of table 5: both corrections together improve every method; they help on every dataset."""
    for method in sheet.columns("RS+RW"):
        before, after = sheet.get("Avg", method, "None"), sheet.get("Avg", method, "RS+RW")
        if before and after:
            yield from statement(
                after, "claim of table 5: both corrections improve every method", after.value > before.value,
                claim="improves", found=f"{before.text} to {after.text}", note="whatever was rounded",
            )  # fmt: skip
    for row in sheet.rows("RS+RW"):
        pairs = [
            (sheet.get(row, method, "None"), sheet.get(row, method, "RS+RW"))
            for method in sheet.columns("RS+RW")
        ]
        gains = [after.value - before.value for before, after in pairs if before and after]
        if gains and row != "Avg":
            helped = sum(gain > 0 for gain in gains)
            yield from statement(
                pairs[0][1], "claim of table 5: the corrections seem to help on every dataset",
                sum(gains) > 0, claim=f"helps on {row}", assumption=HELP,
                found=f"{helped} of {len(gains)} methods gain, {sum(gains) / len(gains):+.2f} on average",
            )  # fmt: skip


def _batch_size(sheet: Sheet) -> Iterator[Finding]:
    """Table 7: averages over severities, and what appendix N says of SENTRY."""
    similar = []
    for part in sheet.parts:
        columns = [name for name in sheet.columns(part) if name != "Avg"]
        for method in sheet.rows(part):
            yield from mean_of(
                sheet.get(method, "Avg", part), sheet.along(part, method, columns), "severities"
            )
        sentry, fixmatch = (sheet.get(name, "Alpha = None", part) for name in ("SENTRY", "FixMatch"))
        if sentry and fixmatch:
            yield from statement(
                sentry, "claim of appendix N: without shift SENTRY is better than FixMatch",
                sentry.value > fixmatch.value, claim="better", found=f"{sentry.text} against {fixmatch.text}",
            )  # fmt: skip
        average = [sheet.get(name, "Avg", part) for name in ("SENTRY", "RS-FixMatch")]
        if average[0] and average[1]:
            similar.append(average[1].value >= average[0].value - SIMILAR)
        yield from _degrades(sheet, part, columns)
    if similar:
        target: Printed | None = sheet.get("RS-FixMatch", "Avg", sheet.parts[0])
        yield from statement(
            target, "claim of appendix N: RS-FixMatch is similar or better on 3 of 4 targets",
            sum(similar) == 3, claim="3 of 4",
            found=f"{sum(similar)} of {len(similar)} within {SIMILAR:g} % or better",
        )  # fmt: skip


def _degrades(sheet: Sheet, part: str, columns: list[str]) -> list[Finding]:
    cells = [one for one in sheet.along(part, "SENTRY", columns) if one is not None]
    if len(cells) < 2:
        return []
    best = best_of(cells)[0]
    return statement(
        cells[-1], "claim of appendix N: SENTRY degrades as the shift grows",
        cells[-1].value < cells[0].value, claim="worse at the largest shift than without",
        found=f"{cells[0].text} to {cells[-1].text}, best at {best.column}",
    )  # fmt: skip


def _settings(sheet: Sheet, text: Sheet) -> Iterator[Finding]:
    """Table 6: each setting is one of those that it was chosen from; a dataset a row."""
    for row in sheet.rows("chosen"):
        for column in sheet.columns("chosen"):
            chosen = sheet.get(row, column, "chosen")
            searched = [sheet.get(row, name, "searched") for name in sheet.columns("searched")]
            values = [cell for cell in searched if cell and cell.column.startswith(column)]
            if chosen and values:
                is_listed = any(cell.value == chosen.value for cell in values)
                listed = ", ".join(cell.text for cell in values)
                check = "a setting is one of those that it was chosen from"
                yield from statement(chosen, check, is_listed, claim=chosen.text, found=listed)
    number, rows = text.get("datasets", "stated"), sheet.rows("chosen")
    if number and rows:
        is_whole = len(rows) == number.value
        yield from statement(number, "datasets of table 6", is_whole, claim=number.text, found=str(len(rows)))
    yield from same(
        text.get("batch size on Officehome", "stated"), sheet.get("Officehome", "Batch size", "chosen")
    )
