"""Tables of numbers, with what every number needs to be read: n, seeds, rule, dataset, commit, version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shiftdata.bench.reporting.kinds import Kind, title_of, unit_of
from shiftdata.bench.reporting.scores import Cell, Score, cell_of, rule_label
from shiftdata.bench.selection import rule_of
from shiftdata.metrics.arrays import FloatArray
from shiftdata.papers import Results
from shiftdata.papers.numbers import SCHEMA
from shiftdata.papers.tables import Grid, grids

#: A cell that stands to the right: a number, with a spread or not, an interval, a small p, a dash, nothing.
NUMBER = re.compile(r"[<+-]?[\d,.]*(±[\d.]+)?( to [+-][\d.]+)?|-")
#: Signs of a hash that are shown.
SHORT = 12


@dataclass(frozen=True)
class Table:
    """A table as it is shown: blocks that share a title and notes; `chart` are the numbers that are drawn."""

    title: str
    grids: tuple[Grid, ...]
    notes: tuple[str, ...] = ()
    chart: Results | None = None


@dataclass(frozen=True)
class Section:
    """Tables on one subject, which need not say it again where they stand below it."""

    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    subject: str = ""

    def head(self, table: Table) -> str:
        """The title of one of its tables, below its own."""
        return table.title.removesuffix(f": {self.subject}")


@dataclass(frozen=True)
class Group:
    """The scores of one section: studies of a family of tasks, on a dataset, with a backbone, under a rule.

    `commits` are the code of their runs; `baseline` is the method that others are compared with.
    """

    kind: Kind
    family: str
    dataset: str
    backbone: str
    rule: str
    scores: tuple[Score, ...]
    baseline: str
    code: str

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(one.method for one in self.scores))

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(one.selected.study.task_id for one in self.scores))

    @property
    def title(self) -> str:
        """What its tables are of; the protocol where the kind does not say it."""
        family = (
            "" if self.family in self.kind.protocols[:1] and len(self.kind.protocols) == 1 else self.family
        )
        parts = [self.dataset, family, self.backbone, f"selected by {rule_label(self.rule)}"]
        return ", ".join(part for part in parts if part)

    def notes(self, spread: str) -> tuple[str, ...]:
        """What stands under each of its tables."""
        seeds = sorted({len(one.seeds) for one in self.scores})
        sizes, origins = (sorted({getattr(one, of) for one in self.scores}) for of in ("n", "origins"))
        rows = f"{span(sizes)} test rows" + (
            "" if origins in (sizes, [0]) else f" of {span(origins)} origins"
        )
        models = sorted({one.selected.among for one in self.scores})
        ids = sorted({one.selected.study.content_id[:SHORT] for one in self.scores})
        lines = [
            f"n = {rows} a task; {span(seeds)} seeds a number; {spread}",
            f"Selected by {rule_label(self.rule)}: {rule_of(self.rule).about}, "
            f"among {span(models)} models a study.",
            f"Dataset {self.dataset}, content_id {', '.join(ids)}; {self.code}.",
        ]
        if failed := sum(one.selected.failed for one in self.scores):
            lines.append(f"{failed:,} runs of chosen trials failed: their seeds are not in these numbers.")
        return tuple(lines)


#: What follows ± in a table of seeds, and in one of scenarios.
OVER_SEEDS = (
    "± is the standard error over seeds (SD / √seeds; over tasks where a number is of several draws)."
)
OVER_TASKS = "± is the standard error over seeds (SD / √seeds), in the row of means over scenarios (SEM)."


def span(values: Sequence[int]) -> str:
    """Some sizes in order, by the smallest and the largest."""
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def number(part: str, row: str, column: str, method: str, metric: str, cell: Cell) -> dict[str, Any]:
    """A number with its place, as `Results` has it."""
    return {
        "paper": "", "table": "", "part": part, "row": row, "column": column, "method": method,
        "metric": metric, "value": cell.value,
        "spread": None if cell.spread != cell.spread else cell.spread, "unit": cell.unit,
        "printed": cell.printed, "section": "", "line": None,
    }  # fmt: skip


def laid_out(
    scores: Iterable[Score],
    figure: str,
    *,
    part: Callable[[Score], str] = lambda one: "",
    column: str | Callable[[Score], str],
    values: Callable[[Score], FloatArray | None] | None = None,
) -> list[dict[str, Any]]:
    """Numbers with methods in rows; studies that share a place are averaged."""
    places: dict[tuple[str, str, str], list[Score]] = {}
    for one in scores:
        name = column if isinstance(column, str) else column(one)
        places.setdefault((part(one), one.method, name), []).append(one)
    made = []
    for (block, method, name), some in places.items():
        cell = cell_of(some, values or (lambda one: one.figures.get(figure)), unit_of(figure))
        if cell is not None:
            made.append(number(block, method, name, method, title_of(figure), cell))
    return made


def table_of(
    title: str,
    numbers: Sequence[Mapping[str, Any]],
    notes: tuple[str, ...],
    *,
    corner: Callable[[str], str] = lambda part: part,
    drawn: bool = True,
) -> Table:
    """A table of numbers, in their order; `corner` says what stands over the rows of a part."""
    placed = [dict(one) | {"table": title, "part": corner(one["part"])} for one in numbers]
    results = Results(pa.Table.from_pylist(placed, SCHEMA))
    chart = Results(
        pa.Table.from_pylist([one | {"table": ""} for one in placed], SCHEMA)
    )  # its caption says it
    return Table(title, tuple(grids(results.rows)), notes, chart if drawn and placed else None)


def plain_table(
    title: str, header: Sequence[str], body: Sequence[Sequence[str]], notes: Iterable[str] = ()
) -> Table:
    """A table of text."""
    lines = tuple((row[0], tuple(row[1:])) for row in body)
    return Table(title, (Grid("", title, header[0], tuple(header[1:]), lines),), tuple(notes))


def columns_in_order(numbers: list[dict[str, Any]], order: Sequence[str]) -> list[dict[str, Any]]:
    """The numbers so that a table made of them has its columns in an order, and rows as they come."""
    place = {name: at for at, name in enumerate(order)}
    rows = {name: at for at, name in enumerate(dict.fromkeys(one["row"] for one in numbers))}
    parts = {name: at for at, name in enumerate(dict.fromkeys(one["part"] for one in numbers))}
    return sorted(numbers, key=lambda one: (parts[one["part"]], place[one["column"]], rows[one["row"]]))
