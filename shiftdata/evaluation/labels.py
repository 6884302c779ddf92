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

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.names import line_fault
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import Interval, bootstrap_rows
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import Z, wilson
from shiftdata.files import write_text
from shiftdata.tables import aligned, csv_text, from_csv_cell

COLUMNS = ("key", "label", "who", "when")
#: A spreadsheet may separate cells with any of these.
SEPARATORS = ",;\t"
#: Keys with different labels that a text lists.
MOST_LISTED = 20

Floats: TypeAlias = NDArray[np.float64]
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
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
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


@dataclass(frozen=True)
class Kappa(Record):
    """Cohen's kappa with its 95 % interval in large samples (Fleiss, Cohen and Everitt 1969).

    Undefined (nan) where both people always gave one and the same label.
    """

    kappa: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.kappa, 3)} [{number(self.low, 3)}, {number(self.high, 3)}]"


def kappa(counts: NDArray[np.int64], weights: Floats | None = None) -> Kappa:
    """Cohen's kappa of a table of pairs of labels; `weights` is 1 where labels agree and less where not.

    >>> print(kappa(np.array([[20, 5], [10, 15]])))
    0.400 [0.151, 0.649]
    """
    weights = np.eye(len(counts)) if weights is None else weights
    n = counts.sum()
    if not n:
        return Kappa(math.nan, math.nan, math.nan)
    shares = counts / n
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    by_chance = float(rows @ weights @ columns)
    if by_chance > 1 - 1e-12:
        return Kappa(math.nan, math.nan, math.nan)
    estimate = (float((weights * shares).sum()) - by_chance) / (1 - by_chance)
    # The variance under the observed shares: sum of p_ij (w_ij - (w_i. + w_.j) (1 - kappa))^2, centred.
    expected = (weights @ columns)[:, None] + (rows @ weights)[None, :]
    spread = (shares * (weights - expected * (1 - estimate)) ** 2).sum()
    variance = (spread - (estimate - by_chance * (1 - estimate)) ** 2) / n / (1 - by_chance) ** 2
    half = Z * math.sqrt(max(variance, 0.0))
    return Kappa(estimate, max(-1.0, estimate - half), min(1.0, estimate + half))


def linear_weights(labels: int) -> Floats:
    """Agreement that falls evenly from 1 to 0 along an order of labels.

    >>> linear_weights(3).tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    steps = np.arange(labels)
    weights: Floats = 1 - np.abs(steps[:, None] - steps[None, :]) / (labels - 1)
    return weights


def alpha(people: People) -> Interval | None:
    """Krippendorff's alpha (2004) of labels as names, 1 - D_o / D_e, whoever labelled a key.

    With n_uk labels k of key u, m_u of it and n in all, keys with one label left out: D_o = the sum over u of
    (m_u^2 - sum of n_uk^2) / (m_u - 1) / n, and D_e = (n^2 - sum of n_k^2) / (n (n - 1)). The interval draws
    keys. None without keys that have two labels, or where all their labels are the same.
    """
    given: dict[str, list[str]] = {}
    for labels in people.values():
        for key, label in labels.items():
            given.setdefault(key, []).append(label)
    several = [labels for labels in given.values() if len(labels) > 1]
    names = sorted({label for labels in several for label in labels})
    if len(names) < 2:
        return None
    counts = np.array([[labels.count(name) for name in names] for labels in several])

    def statistic(rows: IntArray) -> float:
        drawn = counts[rows]
        sizes, totals = drawn.sum(axis=1), drawn.sum(axis=0)
        n = totals.sum()
        observed = ((sizes**2 - (drawn**2).sum(axis=1)) / (sizes - 1)).sum() / n
        expected = (n**2 - (totals**2).sum()) / (n * (n - 1))
        return float(1 - observed / expected) if expected else 1.0  # a draw in which all agree on one label

    return bootstrap_rows(statistic, len(counts))


@dataclass(frozen=True, eq=False, kw_only=True)
class Agreement(Record):
    """Two people's labels of the keys that both labelled.

    `counts` has a row for each label of the first and a column for each of the second; `weighted` is None
    where labels have no order.
    """

    first: str
    second: str
    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    n: int
    raw: tuple[float, float, float]
    kappa: Kappa
    weighted: Kappa | None
    differ: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        share, low, high = self.raw
        body = [[name, *map(str, row)] for name, row in zip(self.labels, self.counts.tolist(), strict=True)]
        more = len(self.differ) - MOST_LISTED
        return "\n".join(
            [
                f"{self.first} and {self.second}: n = {self.n:,} labelled by both",
                f"agreement {number(share, 3)} [{number(low, 3)}, {number(high, 3)}]",
                f"Cohen's kappa {self.kappa}",
                *([f"linearly weighted kappa {self.weighted}"] if self.weighted else []),
                aligned([f"{self.first} (down), {self.second} (across)", *self.labels], body),
                *(f"{key}: {mine}, {theirs}" for key, mine, theirs in self.differ[:MOST_LISTED]),
                *([f"and {more:,} more"] if more > 0 else []),
            ]
        )


def compare(
    first: tuple[str, Mapping[str, str]],
    second: tuple[str, Mapping[str, str]],
    labels: Sequence[str],
    *,
    ordered: bool = False,
) -> Agreement:
    """Return the agreement of two people, each a name with labels; of `ordered` labels weighted too."""
    (name, mine), (partner, theirs) = first, second
    both = sorted(mine.keys() & theirs.keys())
    place = {label: at for at, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), np.int64)
    for key in both:
        counts[place[mine[key]], place[theirs[key]]] += 1
    same, n = int(counts.trace()), len(both)
    return Agreement(
        first=name,
        second=partner,
        labels=tuple(labels),
        counts=counts,
        n=n,
        raw=(same / n if n else math.nan, *wilson(same, n)),
        kappa=kappa(counts),
        weighted=kappa(counts, linear_weights(len(labels))) if ordered else None,
        differ=tuple((key, mine[key], theirs[key]) for key in both if mine[key] != theirs[key]),
    )


def agreements(
    files: Sequence[tuple[str, People]], labels: Sequence[str], *, ordered: bool = False
) -> Iterator[Agreement]:
    """Return the agreement of every two people, from the labels by file; who is in two counts twice."""
    names = [who for _, people in files for who in people]
    everybody = [
        (f"{who or 'nobody'} in {file}" if names.count(who) > 1 else who or "nobody", mine)
        for file, people in files
        for who, mine in sorted(people.items())
    ]
    for first, second in combinations(everybody, 2):
        yield compare(first, second, labels, ordered=ordered)
