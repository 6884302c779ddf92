"""Tables of labels, CSV: `key,label,who,when`, and for pairs `key,other,label,who,when`.

A row is never changed: the last one of a key and a person counts, and one without a label takes it back.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from shiftdata.data.format.names import line_fault
from shiftdata.errors import InputError
from shiftdata.tables import csv_text, from_csv_cell

COLUMNS = ("key", "label", "who", "when")
PAIR_COLUMNS = ("key", "other", "label", "who", "when")
#: What a spreadsheet may separate cells with.
SEPARATORS = ",;\t"
LONGEST_CELL = 2000

#: What a label is about: a key, or two of them.
Key: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A label, without one where it was taken back or is still to be given; `line` is where it stands."""

    key: Key
    label: str
    who: str
    when: str
    line: int = 0


def columns_for(pairs: bool) -> tuple[str, ...]:
    """The header of a table."""
    return PAIR_COLUMNS if pairs else COLUMNS


def line_of(row: Row) -> str:
    """A row as it stands in a file."""
    return csv_text([(*row.key, row.label, row.who, row.when)])


def read_labels(path: Path, allowed: Collection[str], *, pairs: bool = False) -> list[Row]:
    """The rows of a table, as `shiftdata label` or a spreadsheet wrote it.

    A last line that a killed process left without who or label is left out.
    """
    rows = read_rows(path)
    if pairs != any(len(one.key) == 2 for one in rows) and rows:
        wanted, given = columns_for(pairs), columns_for(not pairs)
        raise InputError(f"{path} has the columns {','.join(given)}; here it needs {','.join(wanted)}")
    for one in rows:
        if one.label and one.label not in allowed:
            raise InputError(
                f"{path}, line {one.line}: the label {one.label!r:.80} is not one of {', '.join(allowed)}"
            )
    return rows


def read_rows(path: Path) -> list[Row]:
    """The rows of a table, whatever their labels are for."""
    text = _text(path)
    first = text.partition("\n")[0].strip()
    separator = next((one for one in SEPARATORS if one in first), SEPARATORS[0])
    header = tuple(first.split(separator))
    if header not in (COLUMNS, PAIR_COLUMNS):
        raise InputError(
            f"{path} begins with {first[:80]!r}; a table of labels has the columns {','.join(COLUMNS)}, "
            f"of pairs {','.join(PAIR_COLUMNS)}"
        )
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    next(reader)
    rows, begins, whole = list[Row](), 2, text.endswith("\n")
    try:
        for cells in reader:
            is_last = not whole and reader.line_num > text.count("\n")
            if any(cells) and not (is_last and len(cells) < len(header)):
                rows.append(_row(path, begins, header, [*map(from_csv_cell, cells)]))
            begins = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {begins}: {error}") from error
    return rows


def _text(path: Path) -> str:
    """The text of a file, whose last line may end within a letter."""
    lines, end, last = path.read_bytes().rpartition(b"\n")
    try:
        return (lines + end).decode("utf-8-sig") + last.decode(errors="replace")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: save it as CSV in UTF-8") from error


def _row(path: Path, line: int, header: tuple[str, ...], cells: list[str]) -> Row:
    if len(cells) != len(header):
        raise InputError(f"{path}, line {line}: {len(cells)} cells, and the header has {len(header)}")
    for name, cell in zip(header, cells, strict=True):
        fault = line_fault(cell) if cell or name in ("key", "other") else None
        if fault or len(cell) > LONGEST_CELL:
            raise InputError(f"{path}, line {line}: the {name} {cell!r:.100} {fault or 'is too long'}")
    *key, label, who, when = cells
    return Row(tuple(key), label.strip().lower(), who.strip(), when.strip(), line)


def latest(rows: Iterable[Row]) -> dict[str, dict[Key, str]]:
    """The labels that count: of each person by key."""
    labels: dict[str, dict[Key, str]] = {}
    for one in rows:
        mine = labels.setdefault(one.who, {})
        mine.pop(one.key, None)
        if one.label:
            mine[one.key] = one.label
    return {who: mine for who, mine in labels.items() if mine}


def settled(rows: Iterable[Row]) -> tuple[dict[Key, str], list[Key]]:
    """The label of each key on which all agree who labelled it, and the keys on which people differ."""
    given: dict[Key, set[str]] = {}
    for mine in latest(rows).values():
        for key, label in mine.items():
            given.setdefault(key, set()).add(label)
    return (
        {key: next(iter(labels)) for key, labels in given.items() if len(labels) == 1},
        sorted(key for key, labels in given.items() if len(labels) > 1),
    )
