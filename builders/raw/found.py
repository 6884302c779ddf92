"""The results of a layout: the examples in a tree, and files that are none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from builders.sample import Json

#: Rows that are Python objects at once.
AT_ONCE = 10_000
#: Texts that occur again and again.
TEXTS = pa.dictionary(pa.int32(), pa.string())
#: Rows as they are kept: a path as its folder, which it shares with others, and its name.
KEPT = pa.schema(
    {
        "folder": TEXTS,
        "name": pa.string(),
        "label": TEXTS,
        "part": pa.int64(),
        "nuisance": TEXTS,
        "severity": pa.float64(),
        "origin": pa.string(),
        "across": pa.bool_(),
        "stem": pa.string(),
        "bases": TEXTS,
        "more": pa.string(),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A file that a layout knows: what it shows, and `origin`, what it was made from.

    Pictures of a label share an origin in all domains; with `across` those of other labels share it too, such
    as what one camera saw. `stem` is what the key and an origin of its own are made of; by default the name
    of the file. An example that is only a part of its file, such as a picture in an array or the row of a
    table, has a `part`: its number there, from 0.
    """

    file: str
    label: str
    part: int | None = None
    nuisance: str | None = None
    severity: float | None = None
    origin: str | None = None
    across: bool = False
    stem: str | None = None
    bases: tuple[str, ...] = ()
    more: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Odd:
    """A file that is not what it should be, or that is not there, and why it is left out."""

    file: str
    why: str


Found: TypeAlias = Row | Odd


class Results:
    """Rows, read as often as needed and kept in some fifty bytes each, and why other files are none."""

    def __init__(self, found: Iterable[Found]) -> None:
        self.odd: dict[str, str] = {}
        rows, pieces = list[Row](), list[pa.Table]()
        for result in found:
            if isinstance(result, Odd):
                self.odd[result.file] = result.why
                continue
            rows.append(result)
            if len(rows) == AT_ONCE:
                pieces.append(_table(rows))
                rows.clear()
        self._table = pa.concat_tables([KEPT.empty_table(), *pieces, _table(rows)])

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Row]:
        for batch in self._table.to_batches():
            yield from _rows(batch)

    def files(self) -> Iterator[pa.Array]:
        """The paths of rows, some at a time."""
        for batch in self._table.select(["folder", "name"]).to_batches():
            yield _paths(batch)


def _table(rows: list[Row]) -> pa.Table:
    paths = [row.file.rpartition("/") for row in rows]
    columns: dict[str, list[Any]] = {
        # A file at the top has no folder; one of "/name" has an empty one.
        "folder": [folder if slash else None for folder, slash, _ in paths],
        "name": [name for _, _, name in paths],
        "bases": [" ".join(row.bases) for row in rows],
        "more": [json.dumps(dict(row.more)) if row.more else None for row in rows],
    }
    columns |= {name: [getattr(row, name) for row in rows] for name in KEPT.names if name not in columns}
    return pa.table({name: pa.array(columns[name], KEPT.field(name).type) for name in KEPT.names})


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    columns = {
        name: (batch[name].cast(pa.string()) if KEPT.field(name).type == TEXTS else batch[name]).to_pylist()
        for name in KEPT.names[2:]
    }
    columns["bases"] = [tuple(text.split()) for text in columns["bases"]]
    columns["more"] = [{} if text is None else json.loads(text) for text in columns["more"]]  # noqa: TID251  # written by `_table`
    for file, values in zip(_paths(batch).to_pylist(), zip(*columns.values(), strict=True), strict=True):
        yield Row(file=file, **dict(zip(columns, values, strict=True)))


def _paths(batch: pa.RecordBatch) -> pa.Array:
    joined = pc.binary_join_element_wise(batch["folder"].cast(pa.string()), batch["name"], "/")
    return pc.coalesce(joined, batch["name"])
