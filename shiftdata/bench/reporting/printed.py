"""Records in the form of a paper's table: its rows, columns, order, digits and units, next to its numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from shiftdata.bench.papers import Results, published, ranking
from shiftdata.bench.papers.numbers import SCHEMA, published_tables
from shiftdata.bench.records import Records
from shiftdata.bench.reporting.forms import FEWEST_RANKED
from shiftdata.bench.reporting.layouts import (
    OWN,
    STAND_IN,
    Layout,
    Total,
    is_named,
    layout_of,
)
from shiftdata.bench.reporting.points import METHODS, Point, protocols_of
from shiftdata.bench.reporting.scores import (
    OVER_SEEDS,
    Group,
    Score,
    Section,
    clean,
    rule_label,
    standard_error,
)
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import ranks
from shiftdata.tables import Block, Table

#: A row and a column; and the values of a place by seed.
Place: TypeAlias = tuple[str, str]
Values: TypeAlias = dict[int, float]
#: The two sides of a block.
Axis: TypeAlias = Literal["row", "column"]
AXES: tuple[Axis, Axis] = ("row", "column")
PRINTED = "paper"
#: A block of a table.
Grid: TypeAlias = Mapping[Place, Values]


def _merged(points: Sequence[Mapping[int, float]], over: str = "seeds") -> Values:
    """Average over points, seed by seed for the seeds that all have; over "tasks" return the mean of each."""
    if over == "tasks":
        return {place: float(np.mean([*of.values()])) for place, of in enumerate(points)}
    shared = sorted(set.intersection(*map(set, points)))
    if not shared:
        return {0: float(np.mean([np.mean([*of.values()]) for of in points]))}
    return {seed: float(np.mean([of[seed] for of in points])) for seed in shared}


def _mean(values: Values) -> float:
    return float(np.mean([*values.values()]))


def _average(grid: Grid, total: Total, rows: Sequence[str], columns: Sequence[str]) -> dict[Place, Values]:
    """The mean over columns of rows that have all; or over the rows that all columns have."""
    whole = [row for row in rows if all((row, column) in grid for column in columns)]
    if total.axis == "column":
        return {(row, total.name): _merged([grid[row, column] for column in columns]) for row in whole}
    whole = [row for row in rows if all((row, column) in grid for column in columns)]
    return {
        (total.name, column): _merged([grid[row, column] for row in whole]) for column in columns if whole
    }


def _deviation(grid: Grid, total: Total, rows: Sequence[str], columns: Sequence[str]) -> dict[Place, Values]:
    """The SD over columns, divided by their number as in the tables of NICO++."""
    whole = [row for row in rows if all((row, column) in grid for column in columns)]
    return {
        (row, total.name): {0: float(np.std([_mean(grid[row, column]) for column in columns]))}
        for row in whole
    }


def _rank(grid: Grid, total: Total, rows: Sequence[str], columns: Sequence[str]) -> dict[Place, Values]:
    averages = {row: _mean(grid[row, "Average"]) for row in rows if (row, "Average") in grid}
    order = ranks([*averages.values()]).tolist() if averages else []
    return {(row, total.name): {0: rank} for row, rank in zip(averages, order, strict=True)}


def _gap(grid: Grid, total: Total, rows: Sequence[str], columns: Sequence[str]) -> dict[Place, Values]:
    """(LP - FT) / FT: DomainBed-v2, table 2."""
    whole = [column for column in columns if {("LP", column), ("FT", column)} <= grid.keys()]
    means = {place: _mean(values) for place, values in grid.items()}
    return {(total.name, column): {0: means["LP", column] / means["FT", column] - 1} for column in whole}


def _gain(grid: Grid, total: Total, rows: Sequence[str], columns: Sequence[str]) -> dict[Place, Values]:
    """Return the gain of an average over that of IID selection."""
    averages = {row: _mean(grid[row, "Avg"]) for row in rows if (row, "Avg") in grid}
    return {(row, total.name): {0: mean - averages["IID"]} for row, mean in averages.items()}


def _change(grid: Grid, total: Total, rows: Sequence[str], columns: Sequence[str]) -> dict[Place, Values]:
    """Return by how much less leaks than with one test domain, in per cent."""
    gains = {row: _mean(grid[row, "leakage"]) for row in rows if (row, "leakage") in grid}
    first = gains.get("Oracle, K=1", 0.0)
    oracles = {row: gain for row, gain in gains.items() if row != "IID" and first > 0}
    return {(row, total.name): {0: 100 * (gain / first - 1)} for row, gain in oracles.items()}


TOTALS: Mapping[str, Callable[[Grid, Total, Sequence[str], Sequence[str]], dict[Place, Values]]] = {
    "mean": _average, "sd": _deviation, "rank": _rank, "gap": _gap, "gain": _gain, "change": _change,
}  # fmt: skip


def _at(name: str | None, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def paper_section(
    records: Records, groups: Sequence[Group], name: str, rules: Sequence[str] = ()
) -> tuple[Section, list[dict[str, Any]]]:
    """Fill a table of a paper, "nico++ 2", from the groups of its kind; also return its numbers as lines.

    A table of one rule is made for each of `rules`, by default for the first that the sweeps name.
    """
    layout, number = layout_of(name)
    mine = [group for group in groups if group.kind.name == layout.kind]
    if layout.column == "rule":
        mine = [group for group in mine if group.rule in layout.renamed] or mine
    if not mine:
        kinds = ", ".join(dict.fromkeys(group.kind.name for group in groups))
        raise InputError(
            f"{name} is a table of {layout.kind}, these records are of {kinds}: name another table"
        )
    chosen = list(dict.fromkeys(group.rule for group in mine))
    several = [chosen] if layout.column == "rule" else [[rule] for rule in chosen]
    tables, numbers = [], list[dict[str, Any]]()
    for of in several if rules else several[:1]:
        filled = Filled(layout, number, records, [group for group in mine if group.rule in of])
        tables.append(filled.table(", ".join(map(rule_label, of))))
        numbers += filled.numbers()
    return Section(f"{name}: {Filled.title_of(layout, number)}", tuple(tables)), numbers


@dataclass(frozen=True)
class Filled:
    """A layout with the points of some groups."""

    layout: Layout
    number: str
    records: Records
    groups: Sequence[Group]

    @staticmethod
    def title_of(layout: Layout, number: str) -> str:
        titles = [of.title for of in published_tables(layout.paper) if of.table == number]
        return titles[0] if titles else layout.title

    @cached_property
    def printed(self) -> list[dict[str, Any]]:
        return [row for row in published(self.layout.paper) if row["table"] == self.number]

    @cached_property
    def scores(self) -> list[Score]:
        """The scores of the protocols that the table is of."""
        protocols = set(self.layout.protocols)
        scores = (score for group in self.groups for score in group.scores)
        return [score for score in scores if not protocols or protocols & protocols_of(score)]

    @cached_property
    def points(self) -> list[Point]:
        layout = self.layout
        every = list(layout.points(self.records, self.scores))
        chosen = [
            point
            for point in every
            if not (layout.only and point["method"] not in layout.only)
            and (point["figure"] != "Ova." or "Ova." in layout.last)
        ]
        if not chosen:
            methods = ", ".join(dict.fromkeys(point["method"] for point in every)) or "none"
            only = f" of {', '.join(layout.only)}" if layout.only else ""
            raise InputError(
                f"{layout.paper} {self.number} needs results{only} on "
                f"{' or '.join(layout.protocols) or layout.kind}; these records have methods: {methods}"
            )
        return chosen

    def is_real(self, dataset: str) -> bool:
        """True if the paper's own numbers in this table are of a dataset."""
        if "dataset" not in self.layout.axes:
            return dataset == OWN[self.layout.paper]
        axis = (
            "row" if self.layout.row == "dataset" else "column" if self.layout.column == "dataset" else "part"
        )
        return any(is_named("dataset", dataset, row[axis].partition(", ")[0]) for row in self.printed)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The axes of the blocks: those of the paper, and others along which these records differ."""
        part = list(self.layout.part)
        varies = {
            axis
            for axis in ("dataset", "weights", "tuning")
            if len({point[axis] for point in self.points}) > 1
        }
        if "dataset" not in self.layout.axes and (
            "dataset" in varies or not self.is_real(self.points[0]["dataset"])
        ):
            part.append("dataset")
        if "tuning" not in self.layout.axes and "tuning" in varies:
            part.append("tuning")
        if len({point["base"] for point in self.points}) > len({point["dataset"] for point in self.points}):
            part.append("base")
        if "weights" in varies and not {"weights", "model"} & set(self.layout.axes):
            part.append("weights")
        return tuple(part)

    def paper_part(self, point: Point) -> str | None:
        """The paper's block that a point belongs to, if its dataset is the paper's."""
        axes, names = self.layout.part, dict.fromkeys(row["part"] for row in self.printed)
        for name in names if self.is_real(point["dataset"]) else ():
            pieces = name.split(", ", len(axes) - 1) if len(axes) > 1 else [name]
            if not axes or (
                len(pieces) == len(axes)
                and all(
                    is_named(axis, self.shown(axis, point), piece)
                    for axis, piece in zip(axes, pieces, strict=True)
                )
            ):
                return str(name)
        return None

    def shown(self, axis: str, point: Point) -> str:
        return self.layout.renamed.get(point[axis], point[axis])

    def part_of(self, point: Point) -> str:
        known = self.paper_part(point)
        more = [axis for axis in self.parts if known is None or axis not in self.layout.part]
        names = [] if known is None else [known]
        for axis in more:
            stands_in = axis == "dataset" and not self.is_real(point["dataset"])
            names.append(self.shown(axis, point) + f" ({STAND_IN})" * stands_in)
        return ", ".join(filter(None, names))

    def name(self, axis: Axis, point: Point) -> str:
        """The paper's name for a point's row or column; ours where it has none, or is of another dataset."""
        of = getattr(self.layout, axis)
        ours, real = self.shown(of, point), self.is_real(point["dataset"])
        part = self.paper_part(point)
        for row in self.printed:
            own = of in METHODS or (real and part in (None, row["part"]))
            if row[axis] == ours or (own and is_named(of, ours, row[axis])):
                return str(row[axis])
        return ours + f" ({STAND_IN})" * (of == "dataset" and not real)

    @cached_property
    def blocks(self) -> dict[str, dict[Place, Values]]:
        """The values of each place of each block, in the order of the paper, with totals last."""
        gathered: dict[str, dict[Place, list[Mapping[int, float]]]] = {}
        for point in self.points:
            place = self.name("row", point), self.name("column", point)
            gathered.setdefault(self.part_of(point), {}).setdefault(place, []).append(point.by_seed)
        known = {self.part_of(point): self.paper_part(point) for point in self.points}
        order = list(dict.fromkeys(row["part"] for row in self.printed))
        blocks = {}
        for part in sorted(gathered, key=lambda part: _at(known[part], order)):
            block = {place: _merged(of, self.layout.over) for place, of in gathered[part].items()}
            for total in self.layout.totals:
                if total.of not in TOTALS:
                    continue
                block |= TOTALS[total.of](
                    block, total, self.regular(part, block, "row"), self.regular(part, block, "column")
                )
            blocks[part] = block
        first = next(iter(blocks.values()))
        for part, block in (
            [*blocks.items()][1:] if "moved" in (total.of for total in self.layout.totals) else ()
        ):
            for row in self.regular(part, block, "row"):
                if (row, "Ranking") in first and (row, "Ranking") in block:
                    moved = _mean(first[row, "Ranking"]) - _mean(block[row, "Ranking"])
                    block[row, "Rank change"] = {0: moved}
        return blocks

    @cached_property
    def seen(self) -> dict[str, list[str]]:
        """The names of rows and of columns, as the points come."""
        return {axis: list(dict.fromkeys(self.name(axis, point) for point in self.points)) for axis in AXES}

    def regular(self, part: str, block: Grid, axis: Axis) -> list[str]:
        """The names of rows or columns but totals, in the order of the paper's block; others come last."""
        last = [*self.layout.last, *(total.name for total in self.layout.totals)]
        names = dict.fromkeys(place[axis == "column"] for place in block)
        own = [row[axis] for row in self.printed if row["part"] == self.paper_parts[part]]
        order = [*own, *(row[axis] for row in self.printed), *self.seen[axis]]
        return sorted((name for name in names if name not in last), key=order.index)

    def every(self, part: str, axis: Axis) -> list[str]:
        """The names of all rows or columns of a block, without hidden ones."""
        block, hidden = self.blocks[part], set(self.layout.hidden)
        last = [*self.layout.last, *(total.name for total in self.layout.totals if total.axis == axis)]
        present = {place[axis == "column"] for place in block}
        names = [*self.regular(part, block, axis), *(name for name in last if name in present)]
        shown = {row[axis] for row in self.printed if row["part"] == part.partition(", ")[0]}
        if self.layout.exact and axis == "column" and shown:
            hidden |= set(names) - shown
        return [name for name in names if name not in hidden]

    @cached_property
    def printed_at(self) -> dict[tuple[str, str, str], Mapping[str, Any]]:
        return {(row["part"], row["row"], row["column"]): row for row in self.printed}

    @cached_property
    def paper_parts(self) -> dict[str, str | None]:
        return {self.part_of(point): self.paper_part(point) for point in self.points}

    def text(self, row: str, column: str, values: Values) -> str:
        """A number with the paper's digits, and its error over seeds if the paper prints one."""
        numbers, total = np.array(list(values.values())), self._is_total(row)
        alike = [row for row in self.printed if row["column"] == column] or self.printed
        alike = [row for row in alike if self._is_total(row["row"]) == total] or alike
        digits = max((len(row["printed"].partition("±")[0].partition(".")[2]) for row in alike), default=2)
        text = f"{round(float(numbers.mean()), digits) + 0.0:.{digits}f}"
        error = standard_error(numbers)
        has_error = any(row["spread"] is not None for row in alike) and np.isfinite(error)
        return text + (f"±{error:.{digits}f}" if has_error else "")

    def table(self, rules: str) -> Table:
        """The table, a line of the paper's numbers under each of ours that it has."""
        blocks, drawn = [], []
        for part, block in self.blocks.items():
            rows, columns = self.every(part, "row"), self.every(part, "column")
            ours = {
                row: [
                    self.text(row, column, block[row, column]) if (row, column) in block else ""
                    for column in columns
                ]
                for row in rows
            }
            body: list[tuple[str, ...]] = []
            for row in rows:
                theirs = [self.paper_at(part, row, column).get("printed", "") for column in columns]
                body += [(row, *ours[row])] + [(f"{row}, {PRINTED}", *theirs)] * any(theirs)
            blocks.append(Block((part, *columns), tuple(body)))
            plain = [columns.index(name) for name in self.regular(part, block, "column") if name in columns]
            lines = [
                (row, *(ours[row][place] for place in plain))
                for row in self.regular(part, block, "row")
                if row in ours
            ]
            drawn.append(Block((part, *(columns[place] for place in plain)), tuple(lines)))
        form = self.layout.title or f"The form of {self.layout.paper}, table {self.number}"
        title = f"{form}; selected by {rules}"
        return Table(title, tuple(blocks), self.notes(), tuple(drawn))

    def notes(self) -> tuple[str, ...]:
        datasets = list(dict.fromkeys(score.dataset for score in self.scores))
        whole = replace(self.groups[0], scores=tuple(self.scores), dataset=", ".join(datasets))
        has_error = any(row["spread"] is not None for row in self.printed)
        notes = list(whole.notes(OVER_SEEDS if has_error else "numbers are their means."))
        if self.layout.column == "rule":
            del notes[1]  # of one rule
        stand_ins = [dataset for dataset in datasets if not self.is_real(dataset.partition("/")[0])]
        if stand_ins:
            notes.append(
                f"Stand-ins for the paper's data: {', '.join(stand_ins)}. Compare ranks, not values."
            )
        backbones = ", ".join(dict.fromkeys(clean(score.selected.study.backbone) for score in self.scores))
        notes.append(f"Backbone: {backbones}.")
        return (*notes, *self.agreements(), *self.lacking())

    def lacking(self) -> list[str]:
        """The paper's methods that these records do not have."""
        axis = next((axis for axis in AXES if getattr(self.layout, axis) in METHODS), None)
        if axis is None:
            return []
        mine = {name for part, block in self.blocks.items() for name in self.regular(part, block, axis)}
        theirs = dict.fromkeys(row[axis] for row in self.printed)
        names = [name for name in theirs if name not in mine and not self._is_total(name)]
        return [f"In the paper and not here: {', '.join(names)}."] if names else []

    def _is_total(self, name: str) -> bool:
        return name in (*self.layout.last, *(total.name for total in self.layout.totals))

    def agreements(self) -> list[str]:
        """Return the agreement of the methods' ranks with the paper's, over the numbers that all have."""
        axis = self.layout.ranked
        across = "column" if axis == "row" else "row"
        notes = []
        for part, block in self.blocks.items() if axis else ():
            at = axis == "column"
            numbers = [
                {"method": place[at], "column": place[not at], "value": float(np.mean([*values.values()]))}
                for place, values in block.items()
                if not any(map(self._is_total, place))
            ]
            parts = {row["part"] for row in self.printed}
            chosen = {self.paper_parts[part], part.partition(", ")[0]} & parts or parts
            theirs = [
                row | {"method": row[axis], "row": row[axis], "column": row[across], "metric": "value"}
                for row in self.printed
                if row["part"] in chosen and not any(map(self._is_total, (row["row"], row["column"])))
            ]
            shared = sorted({row["method"] for row in theirs} & {row["method"] for row in numbers})
            if len(shared) < FEWEST_RANKED:
                continue
            sets = Results(pa.Table.from_pylist(theirs, SCHEMA)), Results.of(numbers, metric="value")
            try:
                ranked = ranking(*(results.where(method=shared) for results in sets), names=["paper", "here"])
            except InputError:  # no place that all methods have
                continue
            where = f" ({part})" * bool(part)
            notes.append(f"Ranks of {len(shared)} here{where} and in the paper: {ranked.agreement['here']}.")
        return notes

    def numbers(self) -> list[dict[str, Any]]:
        """A line for each number, with the paper's where its dataset is the paper's."""
        rules = ", ".join(dict.fromkeys(group.rule for group in self.groups))
        about = {"paper": self.layout.paper, "table": self.number, "rule": rules}
        lines = []
        for part, block in self.blocks.items():
            for row, column in itertools.product(self.every(part, "row"), self.every(part, "column")):
                if (row, column) in block:
                    values, paper = np.array([*block[row, column].values()]), self.paper_at(part, row, column)
                    lines.append(
                        about
                        | {"part": part, "row": row, "column": column, "value": float(values.mean())}
                        | {"standard_error": standard_error(values), "seeds": len(values)}
                        | {"metric": paper.get("metric", ""), "printed": paper.get("printed", "")}
                    )
        return lines

    def paper_at(self, part: str, row: str, column: str) -> Mapping[str, Any]:
        """The paper's number in a place of ours; empty if it has none, or is of other data."""
        known = self.paper_parts[part]
        if known is None or not self._is_whole(part, known, row, column):
            return {}
        return self.printed_at.get((known, row, column), {})

    def _is_whole(self, part: str, known: str, row: str, column: str) -> bool:
        """False for a total of fewer rows or columns than the paper's."""
        theirs = [
            place for name, *place in self.printed_at if name == known and not any(map(self._is_total, place))
        ]
        across = [place for place in theirs if self._is_total(column) and place[0] == row]
        down = [place for place in theirs if self._is_total(row) and place[1] == column]
        return all(tuple(place) in self.blocks[part] for place in (*across, *down))
