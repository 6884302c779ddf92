"""An album from a table: texts, or rows of features, out of a CSV, TSV or Parquet file.

Keys and origins come from what a row says, never from where it stands: the order of the file does not matter.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders.albums.folder import DIGITS_OF_MANY, slug
from builders.albums.table_file import ENDINGS, TableFile, read_table_file
from builders.cells import Cell, misfit, read_cell
from builders.sample import BadItem, Example, Item, Json
from builders.terms import check_license
from shiftdata.data.format.schema import Feature
from shiftdata.errors import InputError, not_found
from shiftdata.stable import content_hash

#: What a column can say about an example.
PARTS = ("label", "domain", "key", "origin", "license", "attribution")

#: What the params of a row say besides the columns that are kept.
RESERVED = frozenset({"content", "row"})

LABEL_LENGTH = 48  # of a label in a key: a hash, a number and the name of a style may follow
HASH_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of the file that are used, by name.

    The example is a `text`, or the `features`: each column with its type or the names of its categories, as
    in the recipe's `TableEncoding`. `domain` is what shifts, used as spelled. `key` is a unique name of each
    row; without it, keys are made from label, domain and example. `origin` is what rows come from, such as an
    author: rows of one origin share a split; where it is empty, equal examples have one origin. An empty
    `license` or `attribution` is the album's. The columns to `keep` come along in the `params` of each row.
    """

    label: str
    text: str | None = None
    features: Mapping[str, Feature] = field(default_factory=dict)
    domain: str | None = None
    key: str | None = None
    origin: str | None = None
    license: str | None = None
    attribution: str | None = None
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.features, Mapping):
            raise InputError(
                "features give each column its type or its categories, as the recipe's TableEncoding does: "
                f"features={{'age': 'int64', 'smoker': ('no', 'yes')}}; got {self.features!r}"
            )
        if (self.text is None) == (not self.features):
            raise InputError(
                "name the columns of an example: text='a column', or features={'a column': 'int64', ...}, "
                f"and not both; got text={self.text!r}, features={self.features!r}"
            )
        keep: Any = self.keep
        if isinstance(keep, str) or set(keep) & RESERVED:
            raise InputError(
                f"keep is a tuple of columns, none of them named {' or '.join(sorted(RESERVED))}, which "
                f"params already have; got {self.keep!r}"
            )
        if self.label in self.features:
            raise InputError(f"the label {self.label!r} is one of the features: a model would read it there")


@dataclass(frozen=True)
class RowsAlbum:
    """The rows of a CSV, TSV or Parquet file, known by its ending; `columns` says what is where.

    CSV has a header and quotes as spreadsheets do; its separator (comma, semicolon, tab or bar) is the one
    under which the header has the columns. It is in UTF-8, or UTF-16 with its mark, else `encoding` names
    what it is in. `decimal=","` reads numbers with a decimal comma. `allowed` fixes the allowed labels and
    their order; without it they are those of the rows, sorted.

    A row without a text is named in `left_out` and changes nothing: no fold, no identity. A feature is read
    as its type by `builders.cells.read_cell`; a row with one that cannot be is dropped later: it keeps its
    place. A row with an empty cell for its label, domain or key is an
    error. Equal rows share their origin, and have a number
    behind their key.
    """

    code_version: ClassVar[int] = 4

    path: Path
    columns: Columns
    license: str
    attribution: str
    allowed: tuple[str, ...] | None = None
    encoding: str | None = None
    decimal: Literal[".", ","] = "."

    def __post_init__(self) -> None:
        if self.path.suffix.lower() not in ENDINGS:
            raise InputError(
                f"{self.path} is not a table: its name must end in {', '.join(ENDINGS)}. Save a spreadsheet "
                "as CSV, and unpack a compressed file"
            )
        if self.decimal not in (".", ","):
            raise InputError(f"decimal must be '.' or ',', got {self.decimal!r}")
        if not self.path.is_file():
            raise InputError(f"there is no file {self.path}: give the table with the rows")
        check_license(self.license, f"the album {self.path}")

    @property
    def labels(self) -> tuple[str, ...]:
        return self.allowed or tuple(self._heads)

    def items(self) -> tuple[Item, ...]:
        return self._items

    def load(self, item: Item) -> Example:
        row = self._rows.get(item.key)
        if row is None:
            raise InputError(f"{self.path} has no row {item.key}: it changed while it was used, run again")
        if row in self._unreadable:
            raise BadItem(self._unreadable[row])
        values = {name: column[row] for name, column in self._examples.items()}
        return values if self.columns.text is None else str(values[self.columns.text])

    def place(self, item: Item) -> str:
        return self._place(self._rows[item.key])

    def digests(self) -> Mapping[str, str]:
        return {key: self._digests[row] for key, row in self._rows.items() if row not in self._unreadable}

    @property
    def left_out(self) -> Mapping[str, str]:
        return {self._file.place(row): "no text" for row in np.flatnonzero(self._blank).tolist()}

    def fingerprint(self) -> str:
        """A hash of labels, items and examples; neither the path, the format nor the order of rows counts."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        parts = [str(len(self.labels)), *self.labels, *sorted(self.columns.features)]
        for item in self._items:
            parts += (item.key, item.label, item.origin, item.license, item.attribution, item.nuisance or "")
            parts += (json.dumps(dict(item.source), sort_keys=True), self._digests[self._rows[item.key]])
        return content_hash(*parts)

    @cached_property
    def _items(self) -> tuple[Item, ...]:
        return tuple(self._item(key, row) for key, row in sorted(self._rows.items()))

    def _item(self, key: str, row: int) -> Item:
        parts = {part: values[row] for part, values in self._parts.items()}
        unit, label = self._digests[row][:HASH_DIGITS], parts["label"]
        if given := parts["origin"]:
            unit = slug(given, digits=DIGITS_OF_MANY)
            label = self._first_labels[unit]
        return Item(
            key=key,
            label=parts["label"],
            origin=f"{self._heads[label]}/{unit}",
            license=parts["license"] or self.license,
            attribution=parts["attribution"] or self.attribution,
            nuisance=parts["domain"] or None,
            source=({"row": parts["key"]} if parts["key"] else {}) | self._kept[row],
        )

    @cached_property
    def _rows(self) -> dict[str, int]:
        parts, given = self._parts, self.columns.key is not None
        if given:
            keys = [slug(name, digits=DIGITS_OF_MANY) for name in parts["key"]]
        else:
            named = zip(parts["label"], parts["domain"], self._digests, strict=True)
            keys = [f"{self._heads[name[0]]}_{content_hash(*name)[:HASH_DIGITS]}" for name in named]
        # Equal rows are numbered by all their other parts, so that their order does not matter.
        whole = list(zip(*parts.values(), strict=True))
        rows: dict[str, int] = {}
        times: Counter[str] = Counter()
        for row in sorted(range(len(keys)), key=whole.__getitem__):
            key = keys[row]
            times[key] += 1
            if given and key in rows:
                raise InputError(
                    f"{self._place(rows[key])} and {self._place(row)} of {self.path} have the key "
                    f"{key!r}: keys must differ in more than case and signs; mend them, or name no key column"
                )
            rows[key if times[key] == 1 else f"{key}-{times[key]}"] = row
        return rows

    @cached_property
    def _heads(self) -> dict[str, str]:
        """Return the slug of each label, sorted, for keys and origins: +1 and -1 would both be 1."""
        slugs = {label: slug(label, LABEL_LENGTH) for label in sorted(set(self._parts["label"]))}
        times = Counter(slugs.values())
        return {
            label: name if times[name] == 1 else f"{name}-{content_hash(label)[:DIGITS_OF_MANY]}"
            for label, name in slugs.items()
        }

    @cached_property
    def _kept(self) -> Sequence[dict[str, Json]]:
        columns = [_cells(self.path, name, self._table[name]) for name in self.columns.keep]
        if not columns:
            return [{}] * len(self._parts["label"])
        return [dict(zip(self.columns.keep, cells, strict=True)) for cells in zip(*columns, strict=True)]

    @cached_property
    def _first_labels(self) -> dict[str, str]:
        """The first label of each given origin, by its slug, so that an author of several labels is one."""
        units = [slug(given, digits=DIGITS_OF_MANY) for given in self._parts["origin"]]
        return dict(sorted(zip(units, self._parts["label"], strict=True), reverse=True))

    @cached_property
    def _digests(self) -> list[str]:
        """A hash of each example, equal for equal ones: the order of the features does not count."""
        examples = [self._examples[name] for name in sorted(self._examples)]
        return [content_hash(ascii(values)) for values in zip(*examples, strict=True)]

    @cached_property
    def _parts(self) -> dict[str, list[str]]:
        """Each part of each row; empty where its cell is empty or it has no column."""
        parts = {part: [""] * len(self._table[self.columns.label]) for part in PARTS}
        for part in PARTS:
            name = getattr(self.columns, part)
            if name is not None:
                parts[part] = [
                    text or "" for text in _as_texts(self.path, name, self._table[name]).to_pylist()
                ]
            if name is not None and part in ("label", "domain", "key") and "" in parts[part]:
                raise InputError(
                    f"{self._place(parts[part].index(''))} of {self.path} has no {part}: "
                    f"its column {name!r} is empty; fill it in, or take the row out"
                )
        for terms in sorted(set(parts["license"]) - {""}):
            check_license(terms, f"{self._place(parts['license'].index(terms))} of {self.path}")
        for label in sorted(set(parts["label"]) - set(self.allowed or parts["label"])):
            place = self._place(parts["label"].index(label))
            raise not_found("label", label, self.allowed or (), f"It is in {place} of {self.path}.")
        return parts

    @property
    def _examples(self) -> dict[str, list[Cell]]:
        return self._read[0]

    @property
    def _unreadable(self) -> dict[int, str]:
        """Why a row has to be dropped; one reason a column, whatever its cells are."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[dict[str, list[Cell]], dict[int, str]]:
        """The columns of the example, with cells that cannot be read as they are."""
        text = self.columns.text
        if text is not None:
            return {text: _as_texts(self.path, text, self._table[text]).to_pylist()}, {}
        examples, reasons = dict[str, list[Cell]](), dict[int, str]()
        for name, feature in self.columns.features.items():
            cells = _cells(self.path, name, self._table[name])
            values, wrong = self._values(feature, cells)
            examples[name] = [values[cell] for cell in cells]
            if wrong:
                reason = misfit(name, feature, list(map(str, wrong)))
                for row in [row for row, cell in enumerate(cells) if cell in wrong]:
                    reasons.setdefault(row, reason)
        return examples, reasons

    def _values(self, feature: Feature, cells: list[Cell]) -> tuple[dict[Cell, Cell], dict[Cell, int]]:
        """Return each distinct cell's value, and the cells that cannot be read, the most frequent first."""
        values, wrong = dict[Cell, Cell](), dict[Cell, int]()
        for cell, count in Counter(cells).items():
            try:
                values[cell] = read_cell(feature, cell, decimal=self.decimal)
            except ValueError:
                values[cell], wrong[cell] = cell, count
        return values, dict(sorted(wrong.items(), key=lambda one: (-one[1], str(one[0]))))

    def _place(self, row: int) -> str:
        return self._file.place(int(np.flatnonzero(~self._blank)[row]))

    @cached_property
    def _table(self) -> dict[str, pa.ChunkedArray]:
        rows = pa.array(~self._blank)
        return {name: column.filter(rows) for name, column in self._file.columns.items()}

    @cached_property
    def _blank(self) -> NDArray[np.bool_]:
        """The mask of the rows without a text; a row of features always has some."""
        if self.columns.text is None:
            return np.zeros(len(self._file.columns[self.columns.label]), dtype=bool)
        texts = _as_texts(self.path, self.columns.text, self._file.columns[self.columns.text])
        return np.array([not (text or "").strip() for text in texts.to_pylist()], dtype=bool)

    @cached_property
    def _file(self) -> TableFile:
        parts = [getattr(self.columns, part) for part in (*PARTS, "text")]
        used = (*parts, *self.columns.features, *self.columns.keep)
        names = list(dict.fromkeys(name for name in used if name is not None))
        file = read_table_file(self.path, names, self.encoding)
        if not len(file.columns[self.columns.label]):
            raise InputError(f"{self.path} has a header and no row: give it content")
        return file


def _as_texts(path: Path, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as texts: numbers are written out, and NaN is null."""
    try:
        return _without_nan(column).cast(pa.large_string())
    except pa.ArrowException as error:
        raise InputError(
            f"the column {name!r} of {path} has the type {column.type}: make it numbers, booleans or texts"
        ) from error


def _cells(path: Path, name: str, column: pa.ChunkedArray) -> list[Cell]:
    """The cells of a feature: numbers and booleans as they are, all else as texts."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        column = _without_nan(column.cast(pa.float64()))
    elif not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        column = _as_texts(path, name, column)
    cells: list[Cell] = column.to_pylist()
    return cells


def _without_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column
