"""Tables of raw datasets, declared: rows are examples themselves, or say what a file shows.

In a declaration a column is named by its header; a name with braces is made of several, such as
"{sex}, {race}", where {row} counts the rows from 0. A table in TOML says more of a column:

    {column = "tumor", names = {0 = "normal", 1 = "tumor"}}           the name of each cell
    {column = "income", from = {low = 0, high = 50_001}}              the last name whose number it reaches
    {column = "when", read = "year", from = {old = 2002, new = 2013}}
    {column = "age", least = 17, most = 99}                           a condition, as names are that are true
    {columns = ["male", "female"], least = 0.5}                       the columns that meet it, by name
    {column = "country", table = "regions.csv", key = "code", value = "region", otherwise = "Other"}
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from string import Formatter
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
from pyarrow import csv as arrow_csv

from builders.albums.folder import ENDINGS
from builders.cells import read_cell
from builders.raw.found import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.records import by_name, decoded
from builders.raw.tree import Tree
from builders.sample import BadItem, Example, Json
from shiftdata.data.format.schema import Feature
from shiftdata.data.metadata.listing import ORDER
from shiftdata.errors import InputError
from shiftdata.stable import content_hash
from shiftdata.untrusted.archives import unpack
from shiftdata.untrusted.texts import CsvReader, read_csv_table

#: Larger than any row: one that lies in two blocks cannot be read.
BLOCK = 1 << 24
FEW = 8  # columns or names that a message lists
DIGITS = 20  # of the hash that is the origin of a text
#: What begins a record of a file such as `books/positive.review`, and a field of it.
RECORD, FIELD = "<review>", re.compile(r"<(\w+)>\n(.*?)\n</\1>", re.DOTALL)

#: What a damaged file raises.
FAULTS = (pa.ArrowException, UnicodeDecodeError, OSError, EOFError, zlib.error)

#: A column: its name, or a table that says more of it.
Column: TypeAlias = str | Mapping[str, Any]
#: The cells of some columns of a table; those of `row` are the number of each row.
Cells: TypeAlias = Mapping[str, Sequence[Any]]


class Unreadable(str):
    """A cell that is not of the type of its feature."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """The rows of one or several tables.

    `files` give the end of a `path`, and more columns that are the same in all rows of it; `columns` name
    those of files without a header. A row is an example by its `text` or its `features`, or names the file
    of one by `picture`. Rows that do not meet the conditions in `where` are left out by the
    words of the condition. A row is in the first of `lists` whose cells it has; with `partly` some rows are
    in none, and the authors' order is list by list. With `complete` every file must be there.
    """

    code_version: ClassVar[int] = 1

    files: Sequence[Mapping[str, Any]]
    says: str
    labels: Sequence[str]
    domains: Sequence[str]
    label: Column
    domain: Column
    picture: str = ""
    text: str = ""
    features: Mapping[str, Feature] = field(default_factory=dict)
    columns: Sequence[str] = ()
    origin: str = ""
    stem: str = ""
    keep: Mapping[str, Column] = field(default_factory=dict)
    where: Mapping[str, Column] = field(default_factory=dict)
    lists: Sequence[Mapping[str, str]] = ()
    partly: bool = False
    complete: bool = True

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every example, and what is left out; at the end, an error for all files that cannot be read."""
        start, lacking, broken = 0, list[str](), list[str]()
        for given in self.files:
            same = {**given}
            path = same.pop("path")
            try:
                if not (file := file_at(tree, path)):
                    lacking.append(path.rpartition("|")[2])
                    continue
                cells = self._cells(tree, file, same)
                yield from self._found(tree, file, cells, start)
                start += len(cells["row"])
            except InputError as error:
                broken.append(str(error))
        if lacking and (self.complete or not start):
            broken.append(not_there(tree, lacking, self.says))
        if broken:
            raise InputError("; ".join(broken))
        yield from (Odd(file=path, why=f"missing: it says {self.says}") for path in lacking)

    def example(self, tree: Tree, file: str, part: int) -> Example:
        """The text or the features of a row."""
        examples = self._examples(tree, file)
        if part >= len(next(iter(examples.values()))):
            raise BadItem("the file has become shorter")
        row = {name: values[part] for name, values in examples.items()}
        return row[self.text] if self.text else row

    def _cells(self, tree: Tree, file: str, same: Mapping[str, str]) -> Cells:
        """The columns that the declaration names, but for those of the examples."""
        used = [self.label, self.domain, self.origin, self.stem, self.picture]
        used += [*self.keep.values(), *self.where.values(), *(name for rule in self.lists for name in rule)]
        names = {name for column in used for name in _names_in(column)} - {"row", "domain", "list", *same}
        table = table_in(tree, file, sorted(names) or list(self._kinds), self.columns)
        cells: dict[str, Sequence[Any]] = {name: table[name].to_pylist() for name in names}
        cells |= {name: [cell] * len(table) for name, cell in same.items()}
        cells["row"] = [str(row) for row in range(len(table))]
        return cells | {"domain": _values(tree, cells, self.domain)}

    def _found(self, tree: Tree, file: str, cells: Cells, start: int) -> Iterator[Found]:
        """The rows of a table, and the pictures that it does not name; `start` rows came before it."""
        folder, _, table = file.rpartition("/")
        # Of equal names the picture next to or below the table.
        pictures = by_name(tree) | by_name(tree, below=folder) if self.picture else {}
        roles = (self.picture, self.stem, self.origin, self.label, self.domain)
        names, stems, origins, labels, domains = (_values(tree, cells, column) for column in roles)
        where = {words: _values(tree, cells, column) for words, column in self.where.items()}
        keep = {name: _values(tree, cells, column) for name, column in self.keep.items()}
        lists, examples = self._lists(cells, start), self._examples(tree, file)
        taken, left_out, faults = set[str](), Counter[str](), list[str]()
        for row, name in enumerate(names):
            example = {column: values[row] for column, values in examples.items()}
            if unmet := next((words for words, met in where.items() if met[row] is not True), ""):
                if name:
                    yield Odd(file=pictures.get(name, name), why=f"left out: {unmet}")
                else:
                    left_out[unmet] += 1
            elif why := self._fault(cells, row, labels[row], example, lists[row], name in taken):
                faults.append(why)
                yield Odd(file=f"{file}, row {row}" + (f" ({name})" if name else ""), why=why)
            elif name and name not in pictures:
                yield Odd(file=name, why=f"{table} lists it, and it is not there")
            else:
                of_text = content_hash(example[self.text])[:DIGITS] if self.text else None
                more = {column: values[row] for column, values in keep.items()}
                yield Row(
                    file=pictures[name] if name else file,
                    part=None if name else row,
                    label=labels[row],
                    nuisance=domains[row],
                    origin=origins[row].strip() or of_text,
                    across=True,
                    stem=stems[row] or None,
                    more={**more, LISTS: lists[row]} if lists[row] else more,
                )
            taken |= {name} - {""}
        for words, count in left_out.items():
            yield Odd(file=f"{file}, {words}: {count:,} rows", why="left out by a filter")
        for name, picture in pictures.items():
            if name.endswith(ENDINGS) and name not in taken:
                yield Odd(file=picture, why=f"no row of {table} names it")
        if 2 * len(faults) > len(names):
            raise InputError(
                f"{len(faults):,} of {len(names):,} rows of {file} in {tree.place} cannot be used "
                f"({faults[-1]}): it is another file, or in another coding"
            )

    def _fault(
        self, cells: Cells, row: int, label: Any, example: Mapping[str, Any], listed: Any, is_taken: bool
    ) -> str:
        """Why a row cannot be used."""
        domain = cells["domain"][row]
        for value, known, column in ((label, self.labels, self.label), (domain, self.domains, self.domain)):
            if value not in known:
                name = min(_names_in(column))
                return f"its {name} is {cells[name][row]!r}, which is none of {_few(known)}"
        for name, cell in example.items():
            if isinstance(cell, Unreadable):
                return f"its {name} is {str(cell)!r}, which is not of the type {self.features[name]}"
            if self.text and not (cell or "").strip():
                return "it has no text"
        if not listed and not self.partly:
            return "it is in none of the lists"
        return "there already, in an earlier row" if is_taken else ""

    def _lists(self, cells: Cells, start: int) -> list[dict[str, Json]]:
        """The place of each row among all rows, and in its list; nothing for a row that is in none."""
        lists, order = list[dict[str, Json]]({} for _ in cells["row"]), list[int]()
        for rule in self.lists or [{}]:
            wanted = [(cells[name], cell) for name, cell in rule.items() if name != "list"]
            met = (row for row in range(len(lists)) if all(column[row] == cell for column, cell in wanted))
            rows = [row for row in met if not lists[row]]
            for place, row in enumerate(rows):
                lists[row] = {ORDER: row, **({rule["list"]: place} if "list" in rule else {})}
            order += rows
        for number, row in enumerate(order if self.partly else sorted(order), start):
            lists[row][ORDER] = number
        return lists

    @property
    def _kinds(self) -> Mapping[str, Feature]:
        return {self.text: "string"} if self.text else self.features

    def _examples(self, tree: Tree, file: str) -> Mapping[str, Sequence[Any]]:
        """The texts or features of a file, a column each: None where a cell is empty or not known."""

        def read() -> dict[str, list[Any]]:
            table = table_in(tree, file, list(self._kinds), self.columns)
            return {
                name: each(table[name].to_pylist(), partial(read_cell, kind))
                for name, kind in self._kinds.items()
            }

        return tree.keep("examples", file, read) if self._kinds else {}


def _values(tree: Tree, cells: Cells, column: Column) -> Sequence[Any]:
    """A column as it is declared; None, or `Unreadable`, where a cell says nothing."""
    rows = range(len(cells["row"]))
    if isinstance(column, str):
        if "{" not in column:
            return cells[column] if column else [""] * len(rows)
        names = _names_in(column)
        return [column.format(**{name: cells[name][row].strip() for name in names}) for row in rows]
    read = _reader(tree, column)
    if "columns" not in column:
        return each(_values(tree, cells, column["column"]), read)
    met = {name: each(cells[name], read) for name in column["columns"]}
    return [[name for name in met if met[name][row] is True] for row in rows]


def _reader(tree: Tree, column: Mapping[str, Any]) -> Callable[[str], Any]:
    """Return what reads a cell of a column."""
    read = _year if column.get("read") == "year" else _number
    if names := column.get("names"):
        return lambda cell: names.get(cell.strip())
    if least := column.get("from"):
        return lambda cell: next((name for name in reversed(least) if read(cell) >= least[name]), None)
    if "least" in column:
        return lambda cell: column["least"] <= read(cell) <= column.get("most", math.inf)
    if "table" not in column:
        return read
    if not (file := file_at(tree, column["table"])):
        raise InputError(not_there(tree, [column["table"]], f"the {column['value']} of each row"))
    table = table_in(tree, file, [column["key"], column["value"]])
    known = dict(zip(*(table[column[part]].to_pylist() for part in ("key", "value")), strict=True))
    return lambda cell: known.get(cell) or column["otherwise"]


def each(cells: Sequence[str], read: Callable[[str], Any]) -> list[Any]:
    """Read every cell, equal ones once; one that cannot be read is `Unreadable`."""
    values = dict[str, Any]()
    for cell in dict.fromkeys(cells):
        try:
            values[cell] = read(cell)
        except ValueError:
            values[cell] = Unreadable(cell)
    return [values[cell] for cell in cells]


def _few(names: Sequence[str]) -> str:
    """The words for some of many names."""
    return ", ".join(names[:FEW]) + ", .." * (len(names) > FEW)


def _names_in(column: Column) -> set[str]:
    """The names of the columns that a declared column is made of."""
    if not isinstance(column, str):
        return set().union(*map(_names_in, column.get("columns", [column.get("column", "")])))
    return {name for _, name, *_ in Formatter().parse(column) if name} if "{" in column else {column} - {""}


def _number(cell: str) -> float:
    """A cell as a number; NaN, which no bound holds for, where it is not known."""
    number = read_cell("float64", cell)
    return number if isinstance(number, float) else math.nan


def _year(time: str) -> int:
    """The year of a time, in UTC.

    >>> _year("2012-12-31T22:30:00-05:00"), _year("2009-02-14T09:04:33Z")
    (2013, 2009)
    """
    when = datetime.fromisoformat(time)
    return (when if when.tzinfo is None else when.astimezone(UTC)).year


def file_at(tree: Tree, paths: str) -> str:
    """The file whose path ends as given, in any case, or with .gz behind it; a `*` stands for anything.

    Of several paths, between bars, the first that some file has. Without a file it is "".
    """
    for path in paths.lower().split("|"):
        ends = (f"*/{path}", f"*/{path}.gz")
        files = [file for file in tree.files if any(fnmatchcase(f"/{file.lower()}", end) for end in ends)]
        files = [file for file in files if file[:-3] not in files]  # unpacked next to its .gz
        if len({tree.files[file] for file in files}) > 1:
            raise InputError(f"{tree.place} has {', '.join(files)}: give the folder of one of them alone")
        if files:
            return files[0]
    return ""


def not_there(tree: Tree, paths: Sequence[str], says: str) -> str:
    """The words for files that must be there."""
    return f"{tree.place} has no {', '.join(paths)}, which says {says}: put it there, packed or unpacked"


def table_in(tree: Tree, file: str, names: Sequence[str], columns: Sequence[str] = ()) -> pa.Table:
    """Some columns of a file as texts; of columns with one name the first.

    A quoted cell may have several lines. `columns` are those of a file without a header, which some copies
    have all the same. A first line that begins with | is a comment.
    """
    data = tree.read(file)
    try:
        data = unpack(data, file) if file.lower().endswith(".gz") else data
        if RECORD.encode() in data[: data.find(b">") + len(RECORD) + 2]:
            return _records(data, names)
        start = data.find(b"\n") + 1 if data.startswith(b"|") else 0
        end = data.find(b"\n", start) + 1 or len(data)
        first = next(CsvReader([data[start:end].decode("utf-8-sig")], file, strict=False), [])
        header = list(columns or first)
        if lacking := [name for name in names if name not in header]:
            raise InputError(
                f"{file} in {tree.place} has no column {' and '.join(lacking)}; it begins with the columns "
                f"{_few(header) or 'none'}: it is another file, or another version"
            )
        return read_csv_table(
            data[end if first[:1] == header[:1] else start :],
            file,
            read_options=arrow_csv.ReadOptions(
                block_size=BLOCK,
                use_threads=False,
                column_names=[n if n not in header[:at] else f"{n} {at}" for at, n in enumerate(header)],
            ),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(names), column_types=dict.fromkeys(names, pa.large_string())
            ),
        )
    except FAULTS as error:
        raise InputError(f"{file} in {tree.place} is not a whole table ({error}): get it again") from error


def _records(data: bytes, names: Sequence[str]) -> pa.Table:
    """Some fields of records as columns; a field that a record lacks is empty."""
    text = decoded(data).replace("\r\n", "\n")
    records = [dict(FIELD.findall(record)) for record in text.split(RECORD)[1:]]
    columns = {name: [record.get(name, "") for record in records] for name in names}
    return pa.table({name: pa.array(cells, pa.large_string()) for name, cells in columns.items()})
