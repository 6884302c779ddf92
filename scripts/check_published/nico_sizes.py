"""Overall accuracies of NICO++: what they say of the sizes of the test domains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np

from check_published.cells import Book, Printed
from check_published.judging import Finding, box, judge, statement
from shiftdata.metrics.arrays import FloatArray

PAPER = "nico++"
CLASSIC = (2, 5, 7, 9)
AVERAGES = ("Ova.", "Avg.", "Std")
SIZES_FIT = 0.02  # what fitted sizes leave open; rows that agree are within 0.01
FEWEST_ROWS = 9  # to fit three shares, and to see which rows are out of line
#: How headers abbreviate the domains of table 10.
DOMAINS = {
    "G": "grass", "Wa": "water", "R": "rock", "A": "autumn", "I": "indoor", "Di": "dim", "S": "sand",
    "Wi": "winter", "O": "outdoor", "Da": "dark",
}  # fmt: skip


def overall(book: Book) -> Iterator[Finding]:
    """Overall accuracy weighs the domains by their size, the same for every method, backbone and table.

    The sizes of the test sets are not printed. Those that fit most rows give each row's overall accuracy.
    """
    for part in dict.fromkeys(part for table in CLASSIC for part in book(PAPER, table).parts):
        rows = _rows_of(book, part)
        if len(rows) < FEWEST_ROWS:
            continue
        accuracy = np.array([[cell.value for cell in cells] for _, cells in rows])
        overall = np.array([target.value for target, _ in rows])
        shares = _shares(accuracy, overall)
        for target, cells in rows:
            yield from judge(
                target,
                box(shares.dot),
                cells,
                "overall accuracy, with the domain sizes that fit most rows",
                half=target.half + SIZES_FIT,
            )
        yield from _whose_sizes(book, part, accuracy, overall, rows[0][1])


def _rows_of(book: Book, part: str) -> list[tuple[Printed, list[Printed]]]:
    """The overall accuracy and the accuracies of a split's test domains, each row of each table."""
    found = []
    for sheet in (book(PAPER, table) for table in CLASSIC):
        domains = [name for name in sheet.columns(part) if name not in AVERAGES]
        for row in sheet.rows(part):
            cells = [one for one in sheet.along(part, row, domains) if one is not None]
            target = sheet.get(row, "Ova.", part)
            if target is not None and len(cells) == len(domains) == 4:
                found.append((target, cells))
    return found


def _whose_sizes(
    book: Book, part: str, accuracy: FloatArray, overall: FloatArray, header: Sequence[Printed]
) -> list[Finding]:
    """Which four domains of table 10, in which order, have the sizes that overall accuracies speak for."""
    counts = book(PAPER, 10)
    sizes = {
        short: sum(cell.value for row in counts.rows() if (cell := counts.get(row, name)))
        for short, name in DOMAINS.items()
    }
    if not all(sizes.values()):
        return []
    chosen = list(permutations(DOMAINS, len(header)))
    weights = np.array([[sizes[name] for name in names] for names in chosen])
    weights /= weights.sum(axis=1, keepdims=True)
    errors = dict(
        zip(chosen, np.median(np.abs(accuracy @ weights.T - overall[:, None]), axis=0), strict=True)
    )
    printed = tuple(cell.column for cell in header)
    best = min(errors, key=lambda names: errors[names])
    return statement(
        header[0],
        "test domains of the header, by their sizes in table 10",
        bool(errors[printed] <= SIZES_FIT),
        claim=", ".join(printed),
        found=f"{', '.join(best)} fits best of {len(chosen):,}",
        note=f"median error of {len(overall)} rows {errors[best]:.3f}; header: {errors[printed]:.3f}",
    )


def _shares(accuracy: FloatArray, overall: FloatArray) -> FloatArray:
    """Shares of the domains, with sum 1, of the least absolute error; few wrong rows do not move them."""
    weights = np.ones(len(overall))
    last = accuracy.shape[1] - 1
    design, target = accuracy[:, :last] - accuracy[:, last:], overall - accuracy[:, last]
    for _ in range(50):
        root = np.sqrt(weights)
        free = np.linalg.lstsq(design * root[:, None], target * root, rcond=None)[0]
        weights = 1 / np.maximum(np.abs(design @ free - target), 1e-3)
    return np.append(free, 1 - free.sum())
