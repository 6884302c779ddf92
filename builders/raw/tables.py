"""Tables of raw datasets, declared: rows are examples themselves, or say what a file shows.

In a declaration a column is named by its header; a name with braces is made of several, such as
"{sex}, {race}", where {row} counts the rows from 0. A table in TOML says more of a column:

    {column = "tumor", names = {0 = "normal", 1 = "tumor"}}          the name of each cell
    {column = "income", from = {low = 0, high = 50_001}}             the last name whose number it reaches
    {column = "when", read = "year", from = {old = 2002, new = 2013}}
    {column = "age", least = 17, most = 99}, {column = "split", not = "seq"}           a condition
    {columns = ["male", "female"], least = 0.5}                      the columns that meet it, by name
    {column = "country", table = "regions.csv", key = "code", value = "region", otherwise = "Other"}
"""

from __future__ import annotations

import csv
import gzip
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from string import Formatter
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
from pyarrow import csv as arrow_csv

from builders.albums.folder import ENDINGS
from builders.cells import read_cell
from builders.raw.album import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.records import by_name
from builders.raw.tree import Tree
from builders.sample import BadItem, Example
from shiftdata.data.format.schema import Feature
from shiftdata.data.metadata.listing import ORDER
from shiftdata.errors import InputError
from shiftdata.stable import content_hash

#: Larger than any row: one that lies in two blocks cannot be read.
BLOCK = 1 << 24
FEW = 8  # columns or names that a message lists
DIGITS = 20  # of the hash that is the origin of a text
#: What begins a record of a file such as `books/positive.review`, and a field in it.
RECORD, FIELD = "<review>", re.compile(r"<(\w+)>\n(.*?)\n</\1>", re.DOTALL)
#: The value of a cell that is not of the type of its feature.
UNREADABLE = object()

#: A column: its name, or a table that says more of it.
Column: TypeAlias = str | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The rows of one or several tables.

    `files` give the end of each path, or of several, and more columns that are the same in all their rows;
    `columns` name those of files without a header. A row is an example by its `text` or its `features`, or
    names the file of one by `picture`. Rows that do not meet the conditions in `where` are left out and
    counted by the words of the condition. A row is in the first of `lists` whose cells it has; with `partly`
    some rows are in none, and the authors' order is list by list. With `complete` every file must be there.
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
        files, odd = self._files(tree)
        yield from odd
        pictures, taken = by_name(tree) if self.picture else {}, set[str]()
        start, broken = 0, list[str]()
        for file, same in files:
            try:
                frame = self._frame(tree, file, same)
                yield from self._found(frame, start, pictures, taken)
                start += frame.size
            except InputError as error:
                broken.append(str(error))
        if broken:
            raise InputError("; ".join(broken))
        for name, file in pictures.items():
            if name.endswith(ENDINGS) and name not in taken:
                yield Odd(file=file, why=f"no row of {files[0][0].rpartition('/')[2]} names it")

    def example(self, tree: Tree, file: str, part: int) -> Example:
        """The text or the features of a row."""
        examples = self._examples(tree, file)
        if part >= len(next(iter(examples.values()))):
            raise BadItem("the file has become shorter")
        row = {name: values[part] for name, values in examples.items()}
        return row[self.text] if self.text else row

    def _files(self, tree: Tree) -> tuple[list[tuple[str, Mapping[str, str]]], list[Odd]]:
        """Each table with the columns that its rows share; what else matches, and what is missing."""
        files, odd, lacking = list[tuple[str, Mapping[str, str]]](), list[Odd](), list[str]()
        for given in self.files:
            paths, same = given["path"], {name: cell for name, cell in given.items() if name != "path"}
            for path in [paths] if isinstance(paths, str) else paths:
                first, *others = matching(tree, path) or [""]
                odd += [Odd(file=file, why=f"a second {path}, beside {first}") for file in others]
                files += [(first, same)] if first else []
                lacking += [] if first else [path]
        if lacking and (self.complete or not files):
            raise not_there(tree, lacking, self.says)
        return files, odd + [Odd(file=path, why=f"missing: it says {self.says}") for path in lacking]

    def _frame(self, tree: Tree, file: str, same: Mapping[str, str]) -> Frame:
        """The columns of a file that the declaration names, but for those of the examples."""
        used = [self.label, self.domain, self.origin, self.stem, self.picture]
        used += [*self.keep.values(), *self.where.values(), *(name for rule in self.lists for name in rule)]
        names = {name for column in used for name in _names_in(column)} - {"row", "domain", "list", *same}
        any_column = names or self._kinds.keys()
        table = table_in(tree, file, sorted(any_column), self.columns)
        frame = Frame(tree, file, {name: table[name].to_pylist() for name in names}, len(table))
        frame.cells |= {name: [cell] * len(table) for name, cell in same.items()}
        frame.cells["row"] = [str(row) for row in range(len(table))]
        frame.cells["domain"] = frame.values(self.domain)
        return frame

    def _found(
        self, frame: Frame, start: int, pictures: Mapping[str, str], taken: set[str]
    ) -> Iterator[Found]:
        """The rows of a table; `start` rows came before it."""
        left, labels, domains = self._left_out(frame), frame.values(self.label), frame.cells["domain"]
        if not self.picture:
            for why, count in Counter(filter(None, left)).items():
                yield Odd(file=f"{frame.file}, {why}: {count:,} rows", why="left out by a filter")
        names, stems, origins = map(frame.values, (self.picture, self.stem, self.origin))
        keep, lists = (
            {name: frame.values(column) for name, column in self.keep.items()},
            self._lists(frame, start),
        )
        examples = self._examples(frame.tree, frame.file)
        faults, why = 0, ""
        for row, name in enumerate(names):
            if left[row]:
                if name:
                    yield Odd(file=pictures.get(name, name), why=f"left out: {left[row]}")
            elif why := (
                _fault(frame, self.label, labels, self.labels, row)
                or _fault(frame, self.domain, domains, self.domains, row)
                or next(
                    (_misfit(name, self._kinds[name], cells[row]) for name, cells in examples.items()), ""
                )
                or ("it is in none of the lists" if lists[row] is None and not self.partly else "")
                or ("there already, in an earlier row" if name and name in taken else "")
            ):
                faults += 1
                yield Odd(file=f"{frame.file}, row {row}" + (f" ({name})" if name else ""), why=why)
            elif name and name not in pictures:
                yield Odd(file=name, why=f"{frame.file.rpartition('/')[2]} lists it, and it is not there")
            else:
                origin = origins[row].strip()
                if self.text and not origin:
                    origin = content_hash(examples[self.text][row])[:DIGITS]
                yield Row(
                    file=pictures[name] if name else frame.file,
                    part=None if name else row,
                    label=labels[row],
                    nuisance=domains[row],
                    origin=origin or None,
                    across=True,
                    stem=stems[row] or None,
                    more={name: values[row] for name, values in keep.items()}
                    | ({LISTS: lists[row]} if lists[row] else {}),
                )
            taken.add(name)
        if 2 * faults > frame.size:
            raise InputError(
                f"{faults:,} of {frame.size:,} rows of {frame.file} in {frame.tree.place} cannot be used "
                f"({why}): it is another file, or has another coding"
            )

    def _left_out(self, frame: Frame) -> list[str]:
        """The first condition that each row does not meet; empty where it meets all."""
        left = [""] * frame.size
        for words, condition in self.where.items():
            left = [
                why or ("" if met else words) for why, met in zip(left, frame.values(condition), strict=True)
            ]
        return left

    def _lists(self, frame: Frame, start: int) -> list[dict[str, int] | None]:
        """The list of each row, with its place in it and among all rows; None where it is in none."""
        rules = [(rule.get("list", ""), {**rule, "list": ""}.items()) for rule in self.lists] or [
            ("", {}.items())
        ]
        cells = frame.cells | {"list": [""] * frame.size}
        rule_of = [
            next((at for at, (_, rule) in enumerate(rules) if all(cells[n][row] == c for n, c in rule)), -1)
            for row in range(frame.size)
        ]
        order = sorted(range(frame.size), key=rule_of.__getitem__) if self.partly else range(frame.size)
        listed = [row for row in order if not self.partly or rule_of[row] >= 0]
        lists, places = list[dict[str, int] | None]([None] * frame.size), Counter[str]()
        for number, row in enumerate(listed, start):
            if rule_of[row] >= 0:
                name = rules[rule_of[row]][0]
                lists[row] = {ORDER: number} | ({name: places[name]} if name else {})
                places[name] += 1
        return lists

    @property
    def _kinds(self) -> Mapping[str, Feature]:
        return {self.text: "string"} if self.text else self.features

    def _examples(self, tree: Tree, file: str) -> Mapping[str, Sequence[Any]]:
        """The texts or features of a file, a column each: None where a cell is empty or not known."""

        def read() -> dict[str, list[Any]]:
            table = table_in(tree, file, tuple(self._kinds), self.columns)
            return {name: each(table[name].to_pylist(), _feature(kind)) for name, kind in self._kinds.items()}

        return tree.keep("examples", file, read) if self._kinds else {}


@dataclass(frozen=True)
class Frame:
    """Some columns of a table."""

    tree: Tree
    file: str
    cells: dict[str, list[Any]]
    size: int

    def values(self, column: Column) -> list[Any]:
        """A column as it is declared; None where it says nothing of a cell."""
        if isinstance(column, str):
            if "{" not in column:
                return self.cells[column] if column else [""] * self.size
            names = _names_in(column)
            parts = zip(*([cell.strip() for cell in self.cells[name]] for name in names), strict=True)
            return [column.format_map(dict(zip(names, row, strict=True))) for row in parts]
        read = self._reader(column)
        if "columns" in column:
            met = {name: each(self.cells[name], read) for name in column["columns"]}
            return [[name for name in met if met[name][row]] for row in range(self.size)]
        return each(self.values(column["column"]), read)

    def _reader(self, column: Mapping[str, Any]) -> Callable[[str], Any]:
        """Return what reads a cell of a column."""
        number = _year if column.get("read") == "year" else _number
        if names := column.get("names"):
            return lambda cell: names.get(cell.strip())
        if "not" in column:
            return lambda cell: cell.strip() != column["not"]
        if "from" in column:
            return lambda cell: _reached(column["from"], number(cell))
        if "least" in column:
            return lambda cell: _within(column["least"], number(cell), column.get("most", math.inf))
        if "table" in column:
            file = next(iter(matching(self.tree, column["table"])), "")
            if not file:
                raise not_there(
                    self.tree, [column["table"]], f"the {column['value']} of each {column['column']}"
                )
            table = table_in(self.tree, file, (column["key"], column["value"]))
            known = dict(zip(*(table[column[name]].to_pylist() for name in ("key", "value")), strict=True))
            return lambda cell: known.get(cell) or column["otherwise"]
        return number


def each(cells: Sequence[str], read: Callable[[str], Any]) -> list[Any]:
    """Read every cell; equal ones once."""
    values = {cell: read(cell) for cell in dict.fromkeys(cells)}
    return [values[cell] for cell in cells]


def _names_in(column: Column) -> set[str]:
    """The names of the columns that a declared column is made of."""
    if not isinstance(column, str):
        return set().union(*map(_names_in, column.get("columns", [column.get("column", "")])))
    return {name for _, name, _, _ in Formatter().parse(column) if name} if "{" in column else {column} - {""}


def _fault(frame: Frame, column: Column, values: Sequence[Any], known: Sequence[str], row: int) -> str:
    """Why the label or the domain of a row is not known."""
    if values[row] in known:
        return ""
    declared = column if isinstance(column, Mapping) else {}
    name = str(declared.get("column", column))
    wanted = "a time" if declared.get("read") else "such a number" if "from" in declared else ""
    names = list(declared.get("names", known))
    wanted = wanted or "one of " + ", ".join(names[:FEW]) + (
        f", .. ({len(names)})" if len(names) > FEW else ""
    )
    return f"its {name} is {frame.values(name)[row]!r}, not {wanted}"


def _misfit(name: str, kind: Feature, value: Any) -> str:
    """Why a text or a feature cannot be used."""
    if value is UNREADABLE:
        return f"its {name} is not {f'of the type {kind}' if isinstance(kind, str) else f'one of {kind}'}"
    return "it has no text" if kind == "string" and not (value or "").strip() else ""


def _reached(names: Mapping[str, float], number: float | None) -> str | None:
    return next((name for name in reversed(names) if number is not None and number >= names[name]), None)


def _within(least: float, number: float | None, most: float) -> bool:
    return number is not None and least <= number <= most


def _feature(kind: Feature) -> Callable[[str], Any]:
    """Return what reads a cell as the type of a feature."""

    def read(cell: str) -> Any:
        try:
            return read_cell(kind, cell)
        except ValueError:
            return UNREADABLE

    return read


def _number(cell: str) -> float | None:
    value = _feature("float64")(cell)
    return value if isinstance(value, float) else None


def _year(time: str) -> int | None:
    """The year of a time, in UTC.

    >>> _year("2012-12-31T22:30:00-05:00"), _year("2009-02-14T09:04:33Z"), _year("soon")
    (2013, 2009, None)
    """
    try:
        when = datetime.fromisoformat(time)
    except ValueError:
        return None
    return (when if when.tzinfo is None else when.astimezone(UTC)).year


def matching(tree: Tree, path: str) -> list[str]:
    """The files whose path ends as given, whatever their case; a `*` stands for anything.

    A compressed one may have .gz behind its name.
    """
    ends = [f"*/{path}{packed}".lower() for packed in ("", ".gz")]
    return sorted(file for file in tree.files if any(fnmatchcase(f"/{file}".lower(), end) for end in ends))


def not_there(tree: Tree, paths: Sequence[str], says: str) -> InputError:
    """The error for files that must be there."""
    return InputError(
        f"{tree.place} has no {', '.join(paths)}, which says {says}: put it there, packed or not"
    )


def table_in(tree: Tree, file: str, names: Sequence[str], columns: Sequence[str] = ()) -> pa.Table:
    """Some columns of a file as texts; of equal names in a header the first counts.

    A quoted cell may have several lines. `columns` are those of a file without a header; one that has a
    header all the same is read by `columns` too. A line that begins with | is a comment.
    """
    data = _unpacked(tree, file)
    try:
        if RECORD.encode() in data[: FEW * 100]:
            records = [dict(FIELD.findall(record)) for record in data.decode().split(RECORD)[1:]]
            cells = {name: [record.get(name, "") for record in records] for name in names}
            return pa.table({name: pa.array(column, pa.large_string()) for name, column in cells.items()})
        if data.startswith(b"|"):
            data = data[data.find(b"\n") + 1 :]
        first = next(csv.reader([data[: data.find(b"\n") + 1 or None].decode("utf-8-sig")]), [])
        header = list(columns or first)
        if lacking := [name for name in names if name not in header]:
            shown = ", ".join(header[:FEW]) + (", .." if len(header) > FEW else "")
            raise InputError(
                f"{file} in {tree.place} has no column {' and '.join(lacking)}; it begins with the columns "
                f"{shown or 'none'}: it is another file, or another version"
            )
        skipped = not columns or first[0] == columns[0]
        unique = [name if header.index(name) == at else f"{name} {at}" for at, name in enumerate(header)]
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(
                block_size=BLOCK, use_threads=False, column_names=unique, skip_rows=int(skipped)
            ),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(names), column_types=dict.fromkeys(names, pa.large_string())
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{file} in {tree.place} is not a whole CSV file ({error}): get it again") from error


def _unpacked(tree: Tree, file: str) -> bytes:
    """The bytes of a file, unpacked where it is one .gz file."""
    data = tree.read(file)
    try:
        return gzip.decompress(data) if file.lower().endswith(".gz") else data
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file} in {tree.place} is not a whole .gz file ({error}): get it again") from error
