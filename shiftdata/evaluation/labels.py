"""Labels by people: a CSV with the columns `key,label,who,when`, and how far the people agree.

A row is never changed: the last one of a key and a person counts, and one without a label takes it back.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.format.names import line_fault
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.metrics.statistics import Z, wilson
from shiftdata.files import write_text
from shiftdata.tables import aligned, csv_text, from_csv_cell
from shiftdata.untrusted.texts import CsvReader

COLUMNS = ("key", "label", "who", "when")
#: A spreadsheet may separate cells with any of these.
SEPARATORS = ",;\t"
#: Keys with different labels that a text lists.
MOST_LISTED = 20

#: The labels that count, by person and key.
People: TypeAlias = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Label:
    """A row of the table; `label` is empty where it was taken back or is still to be given."""

    key: str
    label: str
    who: str = ""
    when: str = ""


def read_labels(path: Path, allowed: Collection[str] = ()) -> list[Label]:
    """Read a table of labels, as `shiftdata labels import` or a spreadsheet wrote it.

    `allowed` are the labels that it may have. [default: any]
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: save it as CSV in UTF-8") from error
    header = text.partition("\n")[0].strip()
    separator = next((sign for sign in SEPARATORS if sign in header), ",")
    if tuple(header.split(separator)) != COLUMNS:
        raise InputError(
            f"{path} begins with {header[:80]!r}; a table of labels has the columns {','.join(COLUMNS)}"
        )
    reader = CsvReader(io.StringIO(text, newline=""), str(path), separator)
    labels = []
    try:
        for cells in reader:
            if reader.line_num > 1 and any(cells):
                where = f"{path}, line {reader.line_num}"
                labels.append(_label(where, [*map(from_csv_cell, cells)], allowed))
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from error
    return labels


def _label(where: str, cells: list[str], allowed: Collection[str]) -> Label:
    if len(cells) != len(COLUMNS):
        raise InputError(f"{where}: {len(cells)} cells, and the header has {len(COLUMNS)}")
    for name, cell in zip(COLUMNS, cells, strict=True):
        if (cell or name == "key") and (fault := line_fault(cell)):
            raise InputError(f"{where}: the {name} {cell!r:.100} {fault}")
    key, label, who, when = cells
    label = label.strip().lower()
    if label and allowed and label not in allowed:
        raise InputError(f"{where}: the label {label!r:.80} is not one of {', '.join(allowed)}")
    return Label(key, label, who.strip(), when.strip())


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Write a table of labels, of which a spreadsheet runs nothing."""
    write_text(path, csv_text([COLUMNS, *map(astuple, labels)]))


def latest(labels: Iterable[Label]) -> dict[str, dict[str, str]]:
    """Return the labels that count, by person and key."""
    people: dict[str, dict[str, str]] = {}
    for row in labels:
        people.setdefault(row.who, {})[row.key] = row.label
    given = {who: {key: label for key, label in mine.items() if label} for who, mine in people.items()}
    return {who: mine for who, mine in given.items() if mine}


def settled(labels: Iterable[Label]) -> tuple[dict[str, str], list[str]]:
    """Return the label of each key on which all people agree, and the keys on which they differ."""
    given: dict[str, set[str]] = {}
    for mine in latest(labels).values():
        for key, label in mine.items():
            given.setdefault(key, set()).add(label)
    agreed = {key: next(iter(names)) for key, names in given.items() if len(names) == 1}
    return agreed, sorted(given.keys() - agreed.keys())


def kappa(counts: NDArray[np.int64]) -> tuple[float, float, float]:
    """Cohen's kappa of a table of pairs of labels, with its 95 % interval in large samples.

    The interval is that of Fleiss, Cohen and Everitt (1969). All three are nan where both people always gave
    one and the same label.

    >>> [round(value, 3) for value in kappa(np.array([[20, 5], [10, 15]]))]
    [0.4, 0.151, 0.649]
    """
    n = counts.sum()
    shares = counts / max(n, 1)
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    by_chance = float(rows @ columns)
    if not n or by_chance > 1 - 1e-12:
        return math.nan, math.nan, math.nan
    estimate = (float(shares.trace()) - by_chance) / (1 - by_chance)
    # The variance under the observed shares: sum of p_ij (1[i = j] - (p_.i + p_j.) (1 - kappa))^2, centred.
    expected = columns[:, None] + rows[None, :]
    spread = (shares * (np.eye(len(counts)) - expected * (1 - estimate)) ** 2).sum()
    variance = (spread - (estimate - by_chance * (1 - estimate)) ** 2) / n / (1 - by_chance) ** 2
    half = Z * math.sqrt(max(variance, 0.0))
    return estimate, max(-1.0, estimate - half), min(1.0, estimate + half)


def with_interval(estimate: float, low: float, high: float) -> str:
    """Write an estimate with its interval.

    >>> with_interval(0.4, 0.1514, 0.6486)
    '0.400 [0.151, 0.649]'
    """
    return f"{number(estimate, 3)} [{number(low, 3)}, {number(high, 3)}]"


@dataclass(frozen=True, eq=False, kw_only=True)
class Agreement:
    """Two people's labels of the keys that both labelled, which `differ` on some.

    `counts` has a row for each label of the first and a column for each of the second; `share` is that of
    equal labels, with Wilson's interval.
    """

    first: str
    second: str
    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    share: tuple[float, float, float]
    kappa: tuple[float, float, float]
    differ: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        body = [[name, *map(str, row)] for name, row in zip(self.labels, self.counts.tolist(), strict=True)]
        more = len(self.differ) - MOST_LISTED
        return "\n".join(
            [
                f"{self.first} and {self.second}: n = {self.counts.sum():,} labelled by both",
                f"agreement {with_interval(*self.share)}",
                f"Cohen's kappa {with_interval(*self.kappa)}",
                aligned([f"{self.first} (down), {self.second} (across)", *self.labels], body),
                *(f"{key}: {mine}, {theirs}" for key, mine, theirs in self.differ[:MOST_LISTED]),
                *([f"and {more:,} more"] if more > 0 else []),
            ]
        )


def agreements(files: Sequence[tuple[str, People]], labels: Sequence[str]) -> Iterator[Agreement]:
    """Return the agreement of every two people, from the labels by file; who is in two counts twice."""
    names = [who for _, people in files for who in people]
    everybody = [
        (f"{who or 'nobody'} in {file}" if names.count(who) > 1 else who or "nobody", mine)
        for file, people in files
        for who, mine in sorted(people.items())
    ]
    place = {label: at for at, label in enumerate(labels)}
    for (first, mine), (second, theirs) in combinations(everybody, 2):
        both = sorted(mine.keys() & theirs.keys())
        counts = np.zeros((len(labels), len(labels)), np.int64)
        for key in both:
            counts[place[mine[key]], place[theirs[key]]] += 1
        same = int(counts.trace())
        yield Agreement(
            first=first,
            second=second,
            labels=tuple(labels),
            counts=counts,
            share=(same / len(both) if both else math.nan, *wilson(same, len(both))),
            kappa=kappa(counts),
            differ=tuple((key, mine[key], theirs[key]) for key in both if mine[key] != theirs[key]),
        )
