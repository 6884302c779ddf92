"""An album from a table: texts, or rows of features, out of a CSV, TSV or Parquet file.

Keys and origins come from what a row says, never from where it stands: the order of the file does not matter.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from builders.albums.folder import DIGITS_OF_MANY, slug
from builders.sample import Example, Item
from builders.terms import check_license
from shiftdata.errors import InputError, not_found
from shiftdata.stable import content_hash

SEPARATORS = {".csv": ",", ".tsv": "\t", ".parquet": None}

#: What a column can say about an example.
PARTS = ("label", "domain", "key", "origin", "license", "attribution")

#: How a CSV file writes that a number or a boolean is not known; in texts, only an empty cell means that.
MISSING = pa.array(["", "#N/A", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"], pa.large_string())

#: Types of Parquet, beside numbers, whose values are plain in Python.
PLAIN = ("bool", "null", "string", "large_string", "string_view")

LABEL_LENGTH = 48  # of a label in a key: a hash, a number and the name of a style may follow
HASH_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of the file that are used, by name.

    The example is a `text`, or a dict of `features`: numbers, booleans, texts. `domain` is what shifts, used
    as spelled. `key` is a unique name of each row; without it, keys are made from label, domain and example.
    `origin` is what rows come from, such as an author: rows of one origin and label share a split; where it
    is empty, equal examples of a label have one origin. An empty `license` or `attribution` is the album's.
    """

    label: str
    text: str | None = None
    features: tuple[str, ...] = ()
    domain: str | None = None
    key: str | None = None
    origin: str | None = None
    license: str | None = None
    attribution: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.features, str) or (self.text is None) == (not self.features):
            raise InputError(
                "name the columns of an example: text='a column', or features=('a column', ...), and not "
                f"both; got text={self.text!r}, features={self.features!r}"
            )
        if len(set(self.features)) < len(self.features) or self.label in self.features:
            raise InputError(f"features are named once, without the label {self.label!r}: {self.features!r}")


@dataclass(frozen=True)
class RowsAlbum:
    """The rows of a CSV, TSV or Parquet file, known by its ending; `columns` says what is where.

    CSV and TSV have a header, are in UTF-8 and quote as spreadsheets do. There, a feature is whole numbers,
    numbers or booleans if all its cells are, else texts. `allowed` fixes the allowed labels and their order;
    without it they are those of the rows, sorted.

    A row without a text is named in `left_out` and changes nothing: no fold, no identity. A feature that is
    empty or NaN is None; one that does not fit the recipe's encoding drops its row later: it keeps its place.
    A row without a label, or with an empty cell for its domain or key, is an error. Equal rows share their
    origin, and have a number behind their key.
    """

    code_version: ClassVar[int] = 1

    path: Path
    columns: Columns
    license: str
    attribution: str
    allowed: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.path.suffix.lower() not in SEPARATORS:
            raise InputError(f"{self.path} is not a table: its name must end in {', '.join(SEPARATORS)}")
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
        values = {name: column[row].as_py() for name, column in self._examples.items()}
        return values if self.columns.text is None else str(values[self.columns.text])

    def place(self, item: Item) -> str:
        return f"row {self._number(self._rows[item.key])}"

    @property
    def left_out(self) -> Mapping[str, str]:
        return {f"row {row + 1}": "no text" for row in np.flatnonzero(self._blank).tolist()}

    def fingerprint(self) -> str:
        """A hash of labels, items and examples; neither the path, the format nor the order of rows counts."""
        parts = [str(len(self.labels)), *self.labels, *sorted(self.columns.features)]
        for item in self._items:
            parts += (item.key, item.label, item.origin, item.license, item.attribution, item.nuisance or "")
            parts += (str(item.source.get("row", "")), self._digests[self._rows[item.key]])
        return content_hash(*parts)

    @cached_property
    def _items(self) -> tuple[Item, ...]:
        return tuple(self._item(key, row) for key, row in sorted(self._rows.items()))

    def _item(self, key: str, row: int) -> Item:
        parts = {part: values[row] for part, values in self._parts.items()}
        own = self._digests[row][:HASH_DIGITS]  # shared by equal examples, so that they share a split
        unit = slug(parts["origin"], digits=DIGITS_OF_MANY) if parts["origin"] else own
        return Item(
            key=key,
            label=parts["label"],
            origin=f"{self._heads[parts['label']]}/{unit}",
            license=parts["license"] or self.license,
            attribution=parts["attribution"] or self.attribution,
            nuisance=parts["domain"] or None,
            source={"row": parts["key"]} if parts["key"] else {},
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
                    f"rows {self._number(rows[key])} and {self._number(row)} of {self.path} have the key "
                    f"{key!r}: keys must differ in more than case and signs; mend them, or name no key column"
                )
            rows[key if times[key] == 1 else f"{key}-{times[key]}"] = row
        return rows

    @cached_property
    def _heads(self) -> dict[str, str]:
        """What stands for each label, sorted, in keys and origins: +1 and -1 would both be 1."""
        slugs = {label: slug(label, LABEL_LENGTH) for label in sorted(set(self._parts["label"]))}
        times = Counter(slugs.values())
        return {
            label: name if times[name] == 1 else f"{name}-{content_hash(label)[:DIGITS_OF_MANY]}"
            for label, name in slugs.items()
        }

    @cached_property
    def _digests(self) -> list[str]:
        """A hash of each example, equal for equal ones: the order of the features does not count."""
        examples = [self._examples[name].to_pylist() for name in sorted(self._examples)]
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
                    f"row {self._number(parts[part].index(''))} of {self.path} has no {part}: "
                    f"its column {name!r} is empty; fill it in, or take the row out"
                )
        for terms in sorted(set(parts["license"]) - {""}):
            check_license(terms, f"row {self._number(parts['license'].index(terms))} of {self.path}")
        for label in sorted(set(parts["label"]) - set(self.allowed or parts["label"])):
            row = self._number(parts["label"].index(label))
            raise not_found("label", label, self.allowed or (), f"It is in row {row} of {self.path}.")
        return parts

    @cached_property
    def _examples(self) -> dict[str, pa.ChunkedArray]:
        """The columns of the example: one of texts, or features whose values are plain in Python."""
        text = self.columns.text
        if text is not None:
            return {text: _as_texts(self.path, text, self._table[text])}
        return {name: _feature(self.path, name, self._table[name]) for name in self.columns.features}

    def _number(self, row: int) -> int:
        return int(np.flatnonzero(~self._blank)[row]) + 1

    @cached_property
    def _table(self) -> dict[str, pa.ChunkedArray]:
        rows = pa.array(~self._blank)
        return {name: column.filter(rows) for name, column in self._file.items()}

    @cached_property
    def _blank(self) -> NDArray[np.bool_]:
        if self.columns.text is None:
            return np.zeros(len(self._file[self.columns.label]), dtype=bool)
        texts = _as_texts(self.path, self.columns.text, self._file[self.columns.text])
        return np.array([not (text or "").strip() for text in texts.to_pylist()], dtype=bool)

    @cached_property
    def _file(self) -> dict[str, pa.ChunkedArray]:
        parts = [getattr(self.columns, part) for part in (*PARTS, "text")]
        names = list(dict.fromkeys(name for name in (*parts, *self.columns.features) if name is not None))
        between = SEPARATORS[self.path.suffix.lower()]
        table = _read_csv(self.path, names, between) if between else _read_parquet(self.path, names)
        if not len(table[self.columns.label]):
            raise InputError(f"{self.path} has no row: give it content")
        return table


def _read_csv(path: Path, names: Sequence[str], separator: str) -> dict[str, pa.ChunkedArray]:
    """Some columns as texts.

    By Python's reader: at a quote that nobody closes, Arrow's takes all that follows for one text, silently.
    """
    columns: dict[str, list[str]] = {name: [] for name in names}
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream, delimiter=separator, strict=True)
        try:
            header = next(reader, [])
            _check_names(path, names, header)
            places = [(columns[name], header.index(name)) for name in names]
            for cells in filter(None, reader):  # an empty line is not a row
                if len(cells) != len(header):
                    raise csv.Error(f"{len(cells)} cells under a header of {len(header)}")
                for column, place in places:
                    column.append(cells[place])
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}, near line {reader.line_num}: {error}. The file must be in UTF-8, and cells that "
                "contain a quote, a separator or a line break in quotes; mend it, or save it as Parquet"
            ) from error
    return {name: pa.chunked_array([cells], pa.large_string()) for name, cells in columns.items()}


def _read_parquet(path: Path, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    try:
        with pq.ParquetFile(path) as file:  # `read_table` would add columns that the folders' names spell
            _check_names(path, names, file.schema_arrow.names)
            table = file.read(columns=list(names))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error
    return {name: table[name] for name in names}


def _check_names(path: Path, names: Sequence[str], header: Sequence[str]) -> None:
    for name in names:
        if name not in header:
            raise not_found("column", name, header, f"These are the columns of {path}.")
        if header.count(name) > 1:
            raise InputError(f"{path} has {header.count(name)} columns named {name!r}: rename all but one")


def _as_texts(path: Path, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as texts: numbers are written out, and NaN is null."""
    """A column as texts: numbers are written out, and NaN is null."""
    try:
        return _without_nan(column).cast(pa.large_string())
    except pa.ArrowException as error:
        kind = column.type
        raise InputError(f"the column {name!r} of {path} has the type {kind}: make it texts") from error


def _feature(path: Path, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if path.suffix.lower() != ".parquet":
        return _inferred(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _feature(path, name, column.cast(kind.value_type))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _without_nan(column.cast(pa.float64()))
    if not pa.types.is_integer(kind) and str(kind) not in PLAIN:
        raise InputError(
            f"the column {name!r} of {path} has the type {kind}: make it numbers, booleans or texts"
        )
    return column


def _inferred(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers, numbers or booleans if all texts are; a leading zero, as in a postcode, is for texts."""
    trimmed = pc.utf8_trim_whitespace(texts)
    present = pc.if_else(pc.is_in(trimmed, MISSING), None, trimmed)
    if not pc.any(pc.match_substring_regex(present, "^[+-]?0[0-9xX]")).as_py():
        for kind in (pa.int64(), pa.float64(), pa.bool_()):
            try:
                return _without_nan(present.cast(kind))
            except pa.ArrowInvalid:
                continue
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _without_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column
