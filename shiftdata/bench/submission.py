"""A submission: predictions by key for the tests of some tasks of one dataset, and a card, in one file.

Rows of a set that tests are what is judged, a part a seed. Rows of a set to select by are those of every
candidate, so that the selection can be repeated; a set called fit lists the keys that were trained on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.bench.card import MOST_CARD, Card, read_card
from shiftdata.errors import InputError, IntegrityError, ShiftdataError
from shiftdata.files import open_regular, whole_file
from shiftdata.format.bounds import flat_rows
from shiftdata.metrics.arrays import IntArray
from shiftdata.tasks import Task
from shiftdata.tasks.predictions import UNKNOWN

CARD = b"shiftdata-submission"
#: The set of keys that were trained on.
FIT = "fit"
MOST_ROWS = 20_000_000

_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("task_id", _NAME),
        ("set", _NAME),
        ("seed", pa.int32()),
        ("trial", pa.int32()),  # null where the card alone says what was tried
        ("step", pa.int32()),
        ("key", pa.string()),
        ("prediction", _NAME),  # the name of a label; null for keys that were trained on
    ]
)


class Part(NamedTuple):
    """Whose predictions some rows are."""

    task_id: str
    set: str
    seed: int
    trial: int | None = None
    step: int | None = None


@dataclass(frozen=True, eq=False)
class Submission:
    """A card and the rows of `SCHEMA`, in any order."""

    card: Card
    rows: pa.Table

    @classmethod
    def of(cls, card: Mapping[str, Any], parts: Iterable[pa.Table]) -> Submission:
        """A submission of what `rows_of` and `fit_rows` give."""
        tables = list(parts)
        return cls(read_card(json.dumps(dict(card))), _typed(pa.concat_tables(tables)))

    @classmethod
    def read(cls, path: Path) -> Submission:
        """The submission in a file from anywhere: none of it is run, its size is checked first."""
        try:
            with open_regular(path) as stream:
                footer = pq.read_metadata(stream)
                text = (footer.metadata or {}).get(CARD)
                if text is None:
                    raise InputError("it has no method card: write it with `shiftdata submit`")
                return cls(read_card(text), _typed(_read_rows(stream, footer)))
        except IntegrityError as error:
            raise InputError(f"it {error}; give it in several files") from error
        except ShiftdataError:
            raise
        except (OSError, pa.ArrowException, ValueError, TypeError, OverflowError, MemoryError) as error:
            raise InputError(f"it cannot be read as a Parquet file of predictions: {error}") from error

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        text = json.dumps(asdict(self.card), sort_keys=True)
        if len(text) > MOST_CARD:
            raise InputError(f"the card has {len(text):,} bytes: give at most {MOST_CARD:,}")
        with whole_file(path) as temporary:
            table = self.rows.replace_schema_metadata({CARD: text})
            pq.write_table(table, temporary, compression="zstd")

    @cached_property
    def parts(self) -> Mapping[Part, pa.Table]:
        """The keys and predictions of each part."""
        codes, values = zip(*(_coded(self.rows[name]) for name in Part._fields), strict=True)
        shape = [max(1, len(one)) for one in values]
        if np.prod(np.array(shape, np.float64)) > 2**62:
            raise InputError(
                "it has too many tasks, sets, seeds, trials and steps: give those that were trained"
            )
        joined: IntArray = np.asarray(np.ravel_multi_index(codes, shape), np.int64)
        order = np.argsort(joined, kind="stable")
        joined = joined[order]
        begins = np.flatnonzero(np.diff(joined, prepend=-1))
        named = self.rows.select(["key", "prediction"]).take(pa.array(order))
        made = {}
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
            at = np.unravel_index(joined[begin], shape)
            made[Part(*(one[place] for one, place in zip(values, at, strict=True)))] = named.slice(
                begin, end - begin
            )
        return made


def rows_of(part: Part, task: Task, rows: IntArray, predicted: IntArray) -> pa.Table:
    """The rows of a submission for rows of a task's set, and the number of the label predicted for each."""
    labels = pa.array([*task.metadata.labels, "unknown"])
    numbers = np.where(predicted == UNKNOWN, len(task.metadata.labels), predicted).astype(np.int32)
    names = pa.DictionaryArray.from_arrays(pa.array(numbers), labels)
    return _table(part, task.metadata.keys(rows).cast(pa.string()), names)


def fit_rows(task_id: str, keys: Sequence[str]) -> pa.Table:
    """The rows of a submission that list the keys that were trained on."""
    return _table(Part(task_id, FIT, 0), pa.array(keys, pa.string()), pa.nulls(len(keys), pa.string()))


def _table(part: Part, keys: pa.Array, names: pa.Array) -> pa.Table:
    same = {
        name: pa.repeat(pa.scalar(value, _plain(name)), len(keys)) for name, value in part._asdict().items()
    }
    columns = [*same.values(), keys, names]
    typed = [
        column if column.type == of.type else column.dictionary_encode() if of.type == _NAME else column
        for column, of in zip(columns, SCHEMA, strict=True)
    ]
    return pa.table(typed, SCHEMA)


def _plain(name: str) -> pa.DataType:
    kind = SCHEMA.field(name).type
    return pa.string() if kind == _NAME else kind


def _read_rows(stream: BinaryIO, footer: pq.FileMetaData) -> pa.Table:
    """The rows of `SCHEMA`, however large the texts are that a file has once."""
    schema = footer.schema.to_arrow_schema()
    if not footer.num_rows:
        raise InputError("it has no rows: give a prediction for each key of the tests")
    if sorted(schema.names) != sorted(SCHEMA.names):
        raise InputError(f"its columns are {', '.join(schema.names)!a:.200}; give {', '.join(SCHEMA.names)}")
    return flat_rows(stream, SCHEMA.names, most_rows=MOST_ROWS)


def _typed(rows: pa.Table) -> pa.Table:
    """The rows with the types of `SCHEMA`: a text stays the text that it is, a number must be whole."""
    columns = []
    for field in SCHEMA:
        column = rows[field.name]
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        text, nulls = _plain(field.name) == pa.string(), column.null_count
        fits = (
            pa.types.is_string(kind) or pa.types.is_large_string(kind) if text else pa.types.is_integer(kind)
        )
        if not fits and nulls < len(column):
            raise InputError(
                f"its column {field.name} has {kind}: give {'texts' if text else 'whole numbers'}"
            )
        if nulls and field.name in ("task_id", "set", "seed", "key"):
            raise InputError(
                f"its column {field.name} lacks {nulls:,} of {len(column):,} values: give each row one"
            )
        columns.append(column.cast(_plain(field.name)))
    return pa.table(columns, names=SCHEMA.names)


def _coded(column: pa.ChunkedArray) -> tuple[IntArray, list[Any]]:
    """A number for each row, and the value that each number stands for; null is one too."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def tests_of(task: Task) -> list[str]:
    """The sets whose predictions a submission has: all that test, but for an oracle's, which only selects."""
    return [name for name, one in task.sets.items() if one.role == "test" and len(one) and name != "oracle"]


def candidates_of(submission: Submission, task: Task, task_id: str) -> Iterator[tuple[Part, pa.Table]]:
    """The parts that belong to a set to select by."""
    for part, table in submission.parts.items():
        if part.task_id == task_id and part.set in task.sets and task.sets[part.set].role == "select":
            yield part, table
