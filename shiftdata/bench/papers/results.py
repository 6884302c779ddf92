"""Results: published numbers and your own, in one format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.bench.papers.numbers import (
    KEY,
    PAPERS,
    SCHEMA,
    citation,
    numbers,
    published_tables,
    read_number,
    read_numbers,
)
from shiftdata.data.format.conditions import chosen_rows
from shiftdata.errors import InputError
from shiftdata.notebook import plain
from shiftdata.tables import Cell, Cells, Table, csv_text

if TYPE_CHECKING:
    from PIL import Image

#: The columns of `Results.where`.
CHOICES = ("paper", "table", "part", "row", "column", "method", "metric", "unit")


class Results:
    """Numbers with their places, in the columns of `numbers.SCHEMA`.

    >>> moco = published("domainbed-v2", 5, part="MoCo-v2 ResNet-50")
    >>> print(moco.where(method=["ERM", "SWAD"], column=["PACS", "Ranking"]))
    domainbed-v2, table 5: Leaderboards of supervised and self-supervised pretraining
    <BLANKLINE>
    MoCo-v2 ResNet-50      PACS  Ranking
    ERM                84.1±0.3        6
    SWAD               86.2±0.6        1
    """

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """Read a file of `save`, or any Parquet file with the same columns."""
        return cls(read_numbers(path))

    @classmethod
    def of(
        cls, records: Iterable[Mapping[str, Any]], *, paper: str = "own", table: str = "run", **same: Any
    ) -> Results:
        """Your own results: a mapping for each number; fields that all share are given by name.

        A record needs `method`, `column`, `metric` and `value`; `spread`, `row` (the method), `part`, `unit`
        (%) and `section` may be left out.

        >>> mine = Results.of(
        ...     [{"method": "ERM", "column": "PACS", "value": 84.9, "spread": 0.4}],
        ...     table="2026-11-21", metric="accuracy", part="MoCo-v2 ResNet-50",
        ... )
        >>> mine.rows["printed"].to_pylist()
        ['84.9±0.4']
        """
        return cls(
            pa.Table.from_pylist([_row(paper, table, same | dict(record)) for record in records], SCHEMA)
        )

    def where(self, **chosen: str | int | Iterable[str]) -> Results:
        """Choose numbers by paper, table, part, row, column, method, metric or unit."""
        return Results(chosen_rows(self.rows, chosen, CHOICES))

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows.to_pylist())

    def __add__(self, other: Results) -> Results:
        return Results(pa.concat_tables([self.rows, other.rows]))

    def save(self, path: str | Path) -> None:
        """Write the numbers as Parquet, for `read`."""
        pq.write_table(self.rows, path, compression="zstd")

    def tables(self) -> list[Table]:
        """Each table as printed, with a block for each part."""
        tables: dict[tuple[str, str], Cells] = {}
        for row in self:
            cells = tables.setdefault((row["paper"], row["table"]), {})
            cells[row["part"], row["row"], row["column"]] = Cell(row["printed"], row["metric"], row["unit"])
        return [Table.of(_title(*place), cells, drawn=place[1] != "text") for place, cells in tables.items()]

    def __str__(self) -> str:
        return "\n\n".join(table.text() for table in self.tables()) or "no numbers"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return plain("\n".join(table.html() for table in self.tables()))

    def to_csv(self) -> str:
        return csv_text([SCHEMA.names, *(row.values() for row in self)])

    def to_markdown(self) -> str:
        return "\n\n".join(table.markdown() for table in self.tables()) + "\n"

    def picture(self) -> Image.Image:
        """A chart of each block: bars with their spread, lines along a scale, or a heat map of counts."""
        from shiftdata.evaluation.charts import chart, drawn_figure

        papers = set(self.rows["paper"].to_pylist()) & set(PAPERS)
        return drawn_figure(chart(self.tables(), cited="\n".join(sorted(map(citation, papers)))))


def _title(paper: str, table: str) -> str:
    """The name of a table, and its title if it is published."""
    if paper not in PAPERS:
        return ", ".join(name for name in (paper, table) if name)
    name = table if table.startswith(("figure", "text")) else f"table {table}"
    titles = [of.title for of in published_tables(paper) if of.table == table]
    return f"{paper}, {name}" + (f": {titles[0]}" if titles else "")


def published(
    paper: str | None = None, table: str | int | None = None, **chosen: str | Iterable[str]
) -> Results:
    """The numbers that the five papers print, or those of one paper, table, part, row, column ...

    Places that the conversion to text damaged are left out and listed in `published_tables()`.

    >>> len(published("nico++", 3)), len(published("sma", metric="H-score", method="UniOT"))
    (36, 130)
    """
    results = Results(pa.concat_tables([numbers(name) for name in ([paper] if paper else PAPERS)]))
    return results.where(**({} if table is None else {"table": table}), **chosen)


def _row(paper: str, table: str, given: Mapping[str, Any]) -> dict[str, Any]:
    unknown, missing = set(given) - set(SCHEMA.names), {"column", "metric", "value"} - set(given)
    if unknown or missing:
        fault = f"lacks {', '.join(sorted(missing))}" if missing else f"has {', '.join(sorted(unknown))}"
        raise InputError(f"a result {fault}; it may have {', '.join(SCHEMA.names)}")
    if not (given.get("row") or given.get("method")):
        raise InputError("a result needs the method (or the row) that it belongs to")
    printed = f"{given['value']}"
    if given.get("spread") is not None:
        printed += f"±{given['spread']}"
    defaults = {"paper": paper, "table": table, "part": "", "unit": "%", "section": "", "printed": printed}
    row: dict[str, Any] = defaults | {"row": given.get("method")} | dict(given)
    value, spread = read_number(row["printed"])
    if (value, spread) != (float(row["value"]), None if spread is None else float(given["spread"])):
        raise InputError(f"printed {row['printed']!r} is not the value {row['value']}")
    return {name: row.get(name) for name in SCHEMA.names} | {name: str(row[name]) for name in KEY}
