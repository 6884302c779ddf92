"""Checks of every table: possible values, ranks, and identical rows in different places."""

from __future__ import annotations

from collections.abc import Iterator

from check_published.cells import Book, Printed, Sheet
from check_published.judging import Finding, statement

#: Rows of fewer numbers, or of numbers with fewer digits, may be equal by chance.
FEWEST_NUMBERS, FEWEST_DIGITS = 4, 3
KNOWS_ITS_OWN = "domainbed-v2"  # it prints some experiments twice
RANGES = {"%": (-100.0, 100.0), "share": (-1.0, 1.0), "1": (-1.0, 1.0), "shift": (0.0, 1.0)}


def checks(book: Book) -> Iterator[Finding]:
    """What no table may contain; a table without a fault has no finding here."""
    for sheet in book:
        for cell in sheet.values.values():
            yield from _possible(cell)
        for cell in sheet.spreads.values():
            if cell.value < 0:
                yield from statement(
                    cell, "a spread is not negative", False, claim=cell.text, found="negative"
                )
        yield from _ranks(sheet)
    for paper in dict.fromkeys(sheet.paper for sheet in book):
        yield from _identical(book, paper)


def _possible(cell: Printed) -> list[Finding]:
    low, high = RANGES.get(cell.unit, (float("-inf"), float("inf")))
    if low <= cell.value <= high:
        return []
    return statement(cell, "a possible value", False, claim=cell.text, found=f"allowed: {low:g} to {high:g}")


def _ranks(sheet: Sheet) -> Iterator[Finding]:
    """Ranks of one block are 1 to n, each once."""
    for part in sheet.parts:
        listed = [cell for (one, _, _), cell in sheet.values.items() if one == part and cell.unit == "rank"]
        if sorted(cell.value for cell in listed) != list(range(1, len(listed) + 1)):
            found = ", ".join(cell.text for cell in listed)
            yield from statement(listed[0], "ranks 1 to n, each once", False, claim="ranks", found=found)


def _identical(book: Book, paper: str) -> Iterator[Finding]:
    if paper == KNOWS_ITS_OWN:
        return
    for first, second in identical_rows(sheet for sheet in book if sheet.paper == paper):
        found = f"table {first[0].table}, {first[0].part}, {first[0].row}"
        yield from statement(
            second[0], "identical rows in different places", False, claim="own numbers", found=found
        )


def identical_rows(sheets: Iterator[Sheet]) -> list[tuple[list[Printed], list[Printed]]]:
    """Pairs of rows with the same numbers and spreads, of one paper."""
    seen: dict[tuple[str, ...], list[Printed]] = {}
    pairs = []
    for sheet in sheets:
        for part, row in sheet.lines():
            cells = [cell for (one, name, _), cell in sheet.values.items() if (one, name) == (part, row)]
            texts = [_with_spread(sheet, cell) for cell in cells]
            digits = min(len(cell.text.replace(".", "").lstrip("-0")) for cell in cells)
            if len(cells) < FEWEST_NUMBERS or digits < FEWEST_DIGITS:
                continue
            key = (sheet.paper, *texts)
            if key in seen:
                pairs.append((seen[key], cells))
            else:
                seen[key] = cells
    return pairs


def _with_spread(sheet: Sheet, cell: Printed) -> str:
    spread = sheet.spread(cell.row, cell.column, cell.part)
    return f"{cell.text}±{spread.text}" if spread else cell.text
