"""Look at a table: which column is the label, the text or the domain, and what type each feature has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from builders.albums.table_file import column_name, read_table_file
from builders.cells import MISSING, Cell, read_cell
from builders.starting.draft import Draft, Missing, few, quoted, wrapped
from builders.starting.shifts import domains_shift
from shiftdata.data.format.names import shown
from shiftdata.data.format.schema import Feature
from shiftdata.errors import InputError, not_found

#: Words in the names of columns that may play a part.
WORDS = {
    "label": "label target class category y outcome sentiment stars rating diagnosis species grade",
    "text": "text review sentence body message content comment abstract description tweet mail email",
    "domain": "domain site hospital clinic center centre source year language lang country region state city "
    "location batch device platform environment cohort scanner",
    "origin": "author reviewer writer user patient subject participant person speaker origin",
}
KEY_WORDS = frozenset(["id", "key", "uuid", "guid", "index", "rowid"])
MOST_LABELS, MOST_DOMAINS = 100, 50
MOST_CATEGORIES = 30
FEWEST_ROWS = 4  # of a value on average, for a label or a domain
LETTERS_OF_TEXT = 20  # on average
FEW_FEATURES = 2  # next to a text, which then is what the table is about


@dataclass(frozen=True, kw_only=True)
class Column:
    """The cells of a column, and what can be said of them."""

    name: str
    cells: Sequence[Cell] = field(repr=False)

    @cached_property
    def counts(self) -> Counter[str]:
        """Count the non-empty cells, as text."""
        every = Counter(map(str, self.cells))
        return Counter({text: n for text, n in every.items() if text.strip().lower() not in MISSING})

    @property
    def words(self) -> set[str]:
        """The words of its name."""
        return set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", self.name).lower()))

    @property
    def whole(self) -> bool:
        """Return True if no cell is empty."""
        return self.counts.total() == len(self.cells)

    @property
    def letters(self) -> float:
        """The average length of a cell."""
        return sum(len(text) * count for text, count in self.counts.items()) / max(1, self.counts.total())

    def reads_as(self, feature: Feature) -> bool:
        """Return True if every cell can be read as a type."""
        try:
            for text in self.counts:
                read_cell(feature, text)
        except ValueError:
            return False
        return True

    @cached_property
    def feature(self) -> Feature | None:
        """The type that fits, or the categories; None for texts."""
        if all(text.strip().lower() in ("true", "false", "yes", "no") for text in self.counts):
            return "bool"
        zeros = any(re.match("[+-]?0[0-9]", text) for text in self.counts)  # as postcodes have
        for kind in ("int64", "float64"):
            if not zeros and self.reads_as(kind):
                return kind
        names = sorted({text.strip() for text in self.counts})
        return names if len(names) <= MOST_CATEGORIES else None

    @property
    def unused(self) -> str:
        """Why it is not a feature; empty where it is one."""
        if not self.counts:
            return "it is empty"
        if len(self.counts) == 1 and self.whole:
            return f"it is {next(iter(self.counts))!r} in every row"
        if len(self.counts) == len(self.cells) and self.words & KEY_WORDS:
            return f"it differs in every row, as a name does: Columns(key={quoted(self.name)}) makes it one"
        if self.feature is None:
            return f"{len(self.counts):,} different texts, too many to be categories"
        return ""


def look_at_table(
    path: Path, path_code: str, *, parts: Mapping[str, str | None], encoding: str | None = None
) -> Draft | Missing:
    """A draft for the rows of a table; or the flags that only its owner can give.

    `parts` are the columns that were named for label, text, domain and origin.
    """
    columns, unused = _columns(path, encoding)
    for name in filter(None, parts.values()):
        if name not in columns:
            raise not_found("column", name, columns, unused.get(name, f"These are the columns of {path}."))
    free = {name: column for name, column in columns.items() if name not in parts.values()}
    chosen = dict(parts)
    for part in WORDS:
        if chosen[part] is None:
            chosen[part] = _guess(part, free)
            free.pop(chosen[part] or "", None)
    unused |= {name: column.unused for name, column in free.items() if column.unused}
    features = [] if chosen["text"] else [column for name, column in free.items() if name not in unused]
    types = {column.name: column.feature or "string" for column in features}
    roles = {name: part for part, name in chosen.items() if name}
    seen = list(_seen(path, columns, roles, types, unused))
    missing = dict[str, tuple[str, str]]()
    for part in ("label", "domain"):
        if not chosen[part]:
            missing[part] = _choices(part, free)
            free.pop(missing[part][1], None)
    if missing:
        return Missing(columns=missing, seen=seen)
    label, domain = columns[str(chosen["label"])], columns[str(chosen["domain"])]
    _check(path, label, domain, types, chosen["text"])
    cells = columns[chosen["text"] or label.name].cells
    rows = sum(cell is not None and bool(str(cell).strip()) for cell in cells)
    encoder = "TextEncoding" if chosen["text"] else "TableEncoding"
    return Draft(
        shift=domains_shift(domain.counts, len(label.counts), column_name(domain.name), labels=True),
        about=f"{rows:,} {'texts' if chosen['text'] else 'rows'} of {len(label.counts)} classes",
        album="RowsAlbum",
        arguments=[
            path_code,
            _columns_code(chosen, types),
            *([f"encoding={quoted(encoding)}"] if encoding else []),
        ],
        encoding="TextEncoding()" if chosen["text"] else "TableEncoding(features=FEATURES)",
        items=rows,
        labels=len(label.counts),
        imports=[
            "builders.albums.rows Columns",
            "builders.albums.rows RowsAlbum",
            f"builders.encode {encoder}",
        ],
        constants=_constants(types),
        seen=seen,
    )


def _columns_code(chosen: Mapping[str, str | None], types: Mapping[str, Feature]) -> str:
    """The part of each column, in code."""
    arguments = [f"{part}={quoted(name)}" for part, name in chosen.items() if name]
    arguments += ["features=FEATURES"] if types else []
    return f"Columns({', '.join(arguments)})"


def _columns(path: Path, encoding: str | None) -> tuple[dict[str, Column], dict[str, str]]:
    """The columns that can be used, and why the others cannot."""
    try:
        file = read_table_file(path, None, encoding)
    except InputError as error:
        raise InputError(
            re.sub(r"RowsAlbum\(\.\.\., encoding=(.*?)\)", r"--encoding \1", str(error))
        ) from error
    columns, odd = {}, {}
    for name, cells in file.columns.items():
        if not name.strip():
            odd[name] = "it has no name"
        elif pa.types.is_nested(cells.type) or pa.types.is_binary(cells.type):
            odd[name] = f"it has the type {cells.type}, which is not a number, a boolean or a text"
        else:
            columns[name] = Column(name=name, cells=cells.to_pylist())
    if not columns or not next(iter(columns.values())).cells:
        raise InputError(f"{path} has no row: give it a header and rows")
    return columns, odd


def _guess(part: str, columns: Mapping[str, Column]) -> str | None:
    """The column that plays a part by its name and its cells, the likeliest first."""
    fitting = [column for column in columns.values() if _may_be(part, column)]
    words = WORDS[part].split()
    if part == "text" and sum(not column.unused for column in columns.values()) <= FEW_FEATURES:
        return max(fitting, key=lambda column: column.letters).name if fitting else None
    ranked = [
        (min(map(words.index, matches)), column.name)
        for column in fitting
        if (matches := column.words & {*words})
    ]
    return min(ranked)[1] if ranked else None


def _may_be(part: str, column: Column) -> bool:
    """Return True if the cells of a column could play a part."""
    distinct, rows = len(column.counts), len(column.cells)
    if part == "text":
        return column.feature is None and column.letters >= LETTERS_OF_TEXT
    if part == "origin":
        return MOST_CATEGORIES <= distinct < rows
    most = MOST_LABELS if part == "label" else MOST_DOMAINS
    return column.whole and 2 <= distinct <= min(most, rows // FEWEST_ROWS) and column.feature != "float64"


def _choices(part: str, columns: Mapping[str, Column]) -> tuple[str, str]:
    """Explain the flag of a part with the columns that could play it; return one of them too."""
    names = [name for name, column in columns.items() if _may_be(part, column)]
    meaning = {
        "label": "what is to be predicted",
        "domain": "what shifts: a site, a source, a year, a language",
    }
    options = few(list(map(quoted, names)))
    choice = f"one of {options}" if names else "none of the other columns has 2 to 50 values: add one"
    return f"the column of {meaning[part]}; {choice}", names[0] if names else "a_column"


def _check(path: Path, label: Column, domain: Column, types: Mapping[str, Feature], text: str | None) -> None:
    for part, column, most in (("label", label, MOST_LABELS), ("domain", domain, MOST_DOMAINS)):
        if not 2 <= len(column.counts) <= most:
            raise InputError(
                f"the column {column.name!r} of {path} has {len(column.counts):,} different values: a {part} "
                f"has 2 to {most}. Cut numbers into a few ranges in a column of their own"
            )
    if not types and not text:
        raise InputError(f"no column of {path} is left for a text or a feature: name one by --text")


def _seen(
    path: Path,
    columns: Mapping[str, Column],
    roles: Mapping[str, str],
    types: Mapping[str, Feature],
    unused: Mapping[str, str],
) -> Iterator[str]:
    yield f"{shown(str(path))}: {len(next(iter(columns.values())).cells):,} rows, {len(columns)} columns"
    for name, column in columns.items():
        kind = types.get(name, "")
        if name in roles:
            values = few([f"{shown(text)} {count:,}" for text, count in sorted(column.counts.items())])
            use = roles[name] + (f" ({values})" if roles[name] in ("label", "domain") else "")
        elif kind:
            use = f"feature ({kind})" if isinstance(kind, str) else f"feature (categories {', '.join(kind)})"
        else:
            use = f"not used: {unused.get(name, 'the text is')}"
        yield f"  {shown(name)}: {use}"
    for name in sorted(set(unused) - set(columns)):
        yield f"  {shown(name) if name else '(a column)'}: not used: {unused[name]}"


def _constants(types: Mapping[str, Feature]) -> list[str]:
    """The code of the features, a line each."""
    if not types:
        return []
    lines = ["# A type (int64, float64, bool, string) or the names of categories.", "FEATURES = {"]
    for name, kind in types.items():
        key = f"{quoted(column_name(name))}: "
        lines.append(
            f"    {key}{quoted(kind)}," if isinstance(kind, str) else wrapped(key, kind, ",", "    ")
        )
    return [*lines, "}"]
