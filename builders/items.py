"""The items of an album as columns: a table in memory, or in a file that is mapped and sorted on disk."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol, TypeAlias, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders.sample import Item
from shiftdata.data.arrays import IntArray
from shiftdata.data.metadata.folds import hashes64
from shiftdata.errors import InputError
from shiftdata.files import clear_when_full

#: The columns whose texts come again and again: a number a row, and the texts once.
REPEATED = ("label", "nuisance", "license", "attribution", "bases")
COLUMNS = pa.schema(
    {
        "key": pa.string(),
        "origin": pa.string(),
        **{name: pa.dictionary(pa.int32(), pa.string()) for name in REPEATED},
        "severity": pa.float64(),
        "source": pa.string(),
        # Of a raw file that was read: the hash of its bytes, and where their copy lies.
        "digest": pa.binary(),
        "stretch": pa.int32(),
        "at": pa.int64(),
        "size": pa.int64(),
    }
)
OF_FILE = ("digest", "stretch", "at", "size")
#: Items that are objects at once, and those that are sorted in memory: about 200 MB.
AT_ONCE, ROWS_OF_RUN = 10_000, 200_000
#: Rows of a record batch of the file.
ROWS_OF_BATCH = 50_000

Codes: TypeAlias = NDArray[np.int32]


class Copy(NamedTuple):
    """The place of a raw file's copy, and the hash of its bytes."""

    stretch: int
    at: int
    size: int
    digest: bytes


class Known(Protocol):
    """The results of reading the raw files of items."""

    @property
    def known(self) -> pa.Table:
        """A row for each file, with the columns of `OF_FILE`."""

    def rows_of(self, names: pa.Array, /) -> IntArray:
        """The row of each file."""


class ItemTable(Sequence[Item]):
    """Items sorted by key. A row is an `Item` when it is asked for; whole columns are Arrow arrays.

    Pickled, a table takes its rows along, and no file: pickle a `take` of the rows that are needed.
    """

    def __init__(self, columns: pa.Table) -> None:
        self.columns = columns

    @classmethod
    def of(cls, items: Iterable[Item], folder: Path | None = None, reads: Known | None = None) -> ItemTable:
        """Make a table of items in any order; with a `folder`, in a file there, whatever their number.

        They are sorted in pieces that fit into memory. The file is mapped and has no name: it goes with the
        process. `reads` are of the items' raw files.
        """
        if isinstance(items, ItemTable):
            return items
        names = {name: dict[str | None, int]() for name in REPEATED}
        given, size = iter(items), ROWS_OF_RUN if folder else AT_ONCE
        runs = (_run(few, names, reads) for few in iter(lambda: list(islice(given, size)), []))
        if folder is None:
            rows = pa.concat_tables([_empty(), *runs]).combine_chunks()
            return cls(_named(rows.take(pc.sort_indices(rows["key"])), names))
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder, prefix=".items-", ignore_cleanup_errors=True) as scratch:
            path = Path(scratch) / "items.arrow"
            _write_sorted(runs, path, names)
            return cls(mapped(path))

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | Sequence[Item]:
        if isinstance(at, slice):
            return self.take(np.arange(len(self))[at])
        if not -len(self) <= at < len(self):
            raise IndexError(f"there is no item {at} of {len(self)}")
        return _items(self.columns.slice(at % len(self), 1))[0]

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, len(self), AT_ONCE):
            yield from _items(self.columns.slice(start, AT_ONCE))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ItemTable | tuple) and [*self] == [*other]

    def __repr__(self) -> str:
        return f"{len(self):,} items" + (f" from {self[0].key} to {self[-1].key}" if len(self) else "")

    def __reduce__(self) -> tuple[Any, ...]:
        # Whole dictionaries would travel with each handful of rows.
        plain = {
            name: self.columns[name].cast(pa.string()).combine_chunks().dictionary_encode()
            for name in REPEATED
        }
        columns = {name: plain.get(name, self.columns[name]) for name in COLUMNS.names}
        return ItemTable, (pa.table(columns).combine_chunks(),)

    def take(self, rows: IntArray) -> ItemTable:
        """The items of some rows, in this order and in memory."""
        return ItemTable(taken(self.columns, rows))

    def digests(self) -> Iterator[bytes | None]:
        """The hash of each item's raw file, if it was read."""
        for chunk in self.columns["digest"].chunks:
            yield from chunk.to_pylist()

    def copies(self) -> list[Copy | None]:
        """The place of the copy of each item's raw file."""
        columns = (self.columns[name].to_pylist() for name in Copy._fields)
        return [None if place[0] is None else Copy(*place) for place in zip(*columns, strict=True)]

    def text(self, name: str) -> pa.ChunkedArray:
        """A column of texts as it is stored, or the names behind numbers."""
        column = self.columns[name]
        return column.cast(pa.string()) if name in REPEATED else column

    def names(self, name: str) -> list[str]:
        """The values of a repeated column that any row has, sorted."""
        coded = self.columns[name].unify_dictionaries()
        if not coded.num_chunks:
            return []
        used = np.unique(self.codes(name))
        values = coded.chunk(0).dictionary.to_pylist()
        return sorted(values[code] for code in used.tolist() if code >= 0)

    def codes(self, name: str, names: Sequence[str] | None = None) -> Codes:
        """The number of each row's value among `names`, by default among all in the table; -1 for none."""
        coded = self.columns[name].unify_dictionaries()
        if not coded.num_chunks:
            return np.empty(0, np.int32)
        codes = np.concatenate(
            [pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in coded.chunks]
        ).astype(np.int32, copy=False)
        if names is None:
            return codes
        number = {value: at for at, value in enumerate(names)}
        values = coded.chunk(0).dictionary.to_pylist()
        return np.array([*(number.get(value, -1) for value in values), -1], np.int32)[codes]

    def terms(self) -> dict[tuple[str, str], int]:
        """Count the items of each licence and attribution."""
        names = ["license", "attribution"]
        known = {name: self.names(name) for name in names}
        codes = pa.table({name: self.codes(name, known[name]) for name in names})
        counted = codes.group_by(names).aggregate([([], "count_all")])
        return {
            (known["license"][row["license"]], known["attribution"][row["attribution"]]): row["count_all"]
            for row in counted.to_pylist()
        }

    @cached_property
    def severity(self) -> NDArray[np.float64]:
        """The severity of each row; nan where its album gives none."""
        values: NDArray[np.float64] = pc.fill_null(self.columns["severity"], np.nan).to_numpy()
        return values

    @cached_property
    def origins(self) -> tuple[IntArray, IntArray]:
        """The number of each row's origin, and a row of each origin.

        Hashes of their names distinguish them: a table of the names would take gigabytes.
        """
        hashes = hashes64(self.columns["origin"], "origin")
        order = np.argsort(hashes, kind="stable")
        is_first = np.ones(len(order), bool)
        is_first[1:] = np.diff(hashes[order].view(np.int64)) != 0
        firsts = order[is_first]
        number = np.empty(len(order), np.int64)
        number[order] = np.cumsum(is_first) - 1
        again = order[~is_first]
        for start in range(0, len(again), ROWS_OF_BATCH):
            rows = again[start : start + ROWS_OF_BATCH]
            if not self._origins_of(rows).equals(self._origins_of(firsts[number[rows]])):
                # Two names with one hash: of 14 million, one time in a hundred thousand.
                coded = self.columns["origin"].combine_chunks().dictionary_encode()
                number = coded.indices.to_numpy().astype(np.int64)
                return number, np.unique(number, return_index=True)[1]
        return number, firsts

    def _origins_of(self, rows: IntArray) -> pa.Array:
        return taken(self.columns.select(["origin"]), rows)["origin"].combine_chunks()

    def rows_of(self, keys: pa.Array | pa.ChunkedArray) -> IntArray:
        """The row of each key, which some item has."""
        rows = self.find(keys)
        if len(lost := np.flatnonzero(rows < 0)):
            key = keys[int(lost[0])].as_py()
            raise InputError(f"the album has no item {key}: it changed while it was used, run again")
        return rows

    def find(self, keys: pa.Array | pa.ChunkedArray) -> IntArray:
        """The row of each key; -1 for one that no item has."""
        return self._index.find(keys)

    @cached_property
    def _index(self) -> TextIndex:
        return TextIndex(self.columns["key"])

    def with_column(self, name: str, values: pa.Array | pa.ChunkedArray) -> ItemTable:
        """The same items with another column."""
        at = self.columns.schema.get_field_index(name)
        return ItemTable(self.columns.set_column(at, COLUMNS.field(name), values))


class TextIndex:
    """Finds the rows of texts in a column of different ones, by hashes: 16 bytes a row."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = pa.table({"text": column})
        hashes = hashes64(column, "index")
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def find(self, texts: pa.Array | pa.ChunkedArray) -> IntArray:
        """The row of each text; -1 for one that is not there, or whose hash another text has too."""
        if not len(self._order):
            return np.full(len(texts), -1)
        places = np.searchsorted(self._hashes, hashes64(texts, "index"))
        rows = self._order[np.minimum(places, len(self._order) - 1)]
        found = taken(self._column, rows)["text"].cast(pa.string())
        is_same = pc.equal(found, texts.cast(pa.string())).to_numpy(zero_copy_only=False)
        return np.where(is_same, rows, -1)


def taken(table: pa.Table, rows: IntArray) -> pa.Table:
    """Some rows of a table, at the cost of these rows.

    `Table.take` joins all chunks of a column of texts first, for a handful of rows too.
    """
    order = None if (rows[1:] >= rows[:-1]).all() else np.argsort(rows, kind="stable")
    ascending = rows if order is None else rows[order]
    cuts = np.flatnonzero(np.diff(ascending // ROWS_OF_BATCH)) + 1
    parts = [
        table.slice(of[0], of[-1] - of[0] + 1).take(pa.array(of - of[0]))
        for of in np.split(ascending, cuts)
        if len(of)
    ]
    found = pa.concat_tables([table.slice(0, 0), *parts]).combine_chunks()
    return found if order is None else found.take(pa.array(np.argsort(order)))


def mapped(path: Path) -> pa.Table:
    """Open an Arrow file: its pages are in memory when they are used."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        return reader.read_all()


def _empty() -> pa.Table:
    return pa.table({name: pa.array([], _stored(name)) for name in COLUMNS.names})


def _stored(name: str) -> pa.DataType:
    """The type of a column before all names are known."""
    return pa.int32() if name in REPEATED else COLUMNS.field(name).type


def _run(items: Sequence[Item], names: dict[str, dict[str | None, int]], reads: Known | None) -> pa.Table:
    """Some items as a table, sorted by key; repeated texts as their numbers among `names`."""
    values: dict[str, list[Any]] = {
        "key": [item.key for item in items],
        "origin": [item.origin for item in items],
        "severity": [item.severity for item in items],
        "source": [json.dumps(dict(item.source)) for item in items],
    }
    for name in REPEATED:
        known = names[name]
        texts = [" ".join(item.bases) or None if name == "bases" else getattr(item, name) for item in items]
        values[name] = [None if text is None else known.setdefault(text, len(known)) for text in texts]
    if reads is None:
        values |= {name: [None] * len(items) for name in OF_FILE}
    else:
        files = pa.array([str(item.source["file"]) for item in items], pa.string())
        known = taken(reads.known.select(list(OF_FILE)), reads.rows_of(files))
        values |= {name: known[name].combine_chunks() for name in OF_FILE}
    columns = {name: pa.array(values[name]).cast(_stored(name)) for name in COLUMNS.names}
    rows = pa.table(columns)
    return rows.take(pc.sort_indices(rows["key"])).combine_chunks()


def _named(rows: pa.Table, names: dict[str, dict[str | None, int]]) -> pa.Table:
    """The rows with the texts behind their numbers."""
    columns = {
        name: pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays(chunk, pa.array(list(names[name]), pa.string()))
                for chunk in rows[name].chunks
            ],
            COLUMNS.field(name).type,
        )
        for name in REPEATED
    }
    return pa.table({name: columns.get(name, rows[name]) for name in COLUMNS.names}, schema=COLUMNS)


def _items(rows: pa.Table) -> list[Item]:
    # A value of a dictionary becomes a Python text ten times slower.
    plain = {name: rows[name].cast(pa.string()) if name in REPEATED else rows[name] for name in COLUMNS.names}
    columns = {name: column.to_pylist() for name, column in plain.items() if name not in OF_FILE}
    columns["bases"] = [tuple(text.split(" ")) if text else () for text in columns["bases"]]
    columns["source"] = list(map(json.loads, columns["source"]))  # noqa: TID251  # written by `_run`
    return [Item(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def _write_sorted(runs: Iterable[pa.Table], path: Path, names: dict[str, dict[str | None, int]]) -> None:
    """Merge sorted runs into one sorted file; they lie next to it meanwhile."""
    with ExitStack() as stack:
        stack.enter_context(clear_when_full(path))
        parts: list[pa.Table] = []
        for number, run in enumerate(runs):
            place = str(path.with_name(f"{number}.run"))
            with pa.OSFile(place, "wb") as file, pa.ipc.new_file(file, run.schema) as writer:
                writer.write_table(run)
            mapped = stack.enter_context(pa.memory_map(place))
            parts.append(pa.ipc.open_file(mapped).read_all())
        sink = stack.enter_context(pa.OSFile(str(path), "wb"))
        # All batches share one dictionary, which is known only now.
        writer = stack.enter_context(pa.ipc.new_file(sink, COLUMNS))
        for piece in _merged(parts):
            writer.write_table(_named(piece, names), max_chunksize=ROWS_OF_BATCH)


def _merged(parts: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """The rows of sorted tables in one order, a stretch of keys at a time."""
    keys = [Texts(part["key"]) for part in parts]
    marks = sorted(of[at] for of in keys for at in range(0, len(of), ROWS_OF_BATCH))
    starts = [0] * len(parts)
    for mark in [*marks[1:], None]:
        ends = [len(of) if mark is None else bisect_left(of, mark) for of in keys]
        cut = [part.slice(start, end - start) for part, start, end in zip(parts, starts, ends, strict=True)]
        rows = pa.concat_tables([_empty(), *cut]).combine_chunks()
        if len(rows):
            yield rows.take(pc.sort_indices(rows["key"])).combine_chunks()
        starts = ends


class Texts(Sequence[bytes]):
    """A sorted column of texts in UTF-8, for a binary search."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        texts = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        _, bounds, data = texts.buffers()
        self._bounds = memoryview(bounds or b"").cast("i")[texts.offset :][: len(texts) + 1]
        self._data = memoryview(data or b"")

    def __len__(self) -> int:
        return max(0, len(self._bounds) - 1)

    def __getitem__(self, at: Any) -> Any:
        return bytes(self._data[self._bounds[at] : self._bounds[at + 1]])
