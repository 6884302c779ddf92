"""A submission: predictions by key for the tests of some tasks of one dataset, and a card, in one file.

Rows of a test set are judged, one part per seed. Rows of a validation set are those of every candidate, so
that the selection can be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.bench.leaderboard.card import MOST_CARD, Card, read_card
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.bounds import flat_rows
from shiftdata.errors import InputError, IntegrityError, ShiftdataError
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.predictions import UNKNOWN
from shiftdata.files import open_regular, whole_file

CARD = b"shiftdata-submission"
MOST_ROWS = 20_000_000
SCHEMA = pa.schema(
    {
        "task_id": pa.string(),
        "set": pa.string(),
        "seed": pa.int32(),
        "trial": pa.int32(),  # null without candidates
        "step": pa.int32(),
        "key": pa.string(),
        "prediction": pa.string(),  # the name of a label
    }
)


class Part(NamedTuple):
    """The model and the set of some predictions."""

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
        """A submission of tables from `rows_of`."""
        return cls(read_card(json.dumps(dict(card), default=str)), pa.concat_tables(parts))

    @classmethod
    def read(cls, path: Path) -> Submission:
        """Read a file from anywhere: nothing in it is run, and its size is checked first."""
        try:
            with open_regular(path) as stream:
                footer = pq.read_metadata(stream)
                text = (footer.metadata or {}).get(CARD)
                if text is None:
                    raise InputError("it has no method card: write it with `shiftdata submit`")
                card, names = read_card(text), footer.schema.to_arrow_schema().names
                if not footer.num_rows:
                    raise InputError("it has no rows: give a prediction for each key of the tests")
                if sorted(names) != sorted(SCHEMA.names):
                    raise InputError(f"its columns are {names!a:.200}; give {', '.join(SCHEMA.names)}")
                return cls(card, _typed(flat_rows(stream, SCHEMA.names, most_rows=MOST_ROWS)))
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
            pq.write_table(self.rows.replace_schema_metadata({CARD: text}), temporary, compression="zstd")

    @cached_property
    def parts(self) -> Mapping[Part, pa.Table]:
        """The keys and predictions of each part."""
        grouped = self.rows.group_by(list(Part._fields), use_threads=False).aggregate(
            [("key", "list"), ("prediction", "list")]
        )
        parts = map(Part, *(grouped[name].to_pylist() for name in Part._fields))
        lists = zip(grouped["key_list"], grouped["prediction_list"], strict=True)
        return {
            part: pa.table({"key": keys.values, "prediction": labels.values})
            for part, (keys, labels) in zip(parts, lists, strict=True)
        }


def rows_of(part: Part, task: Task, rows: IntArray, predicted: IntArray) -> pa.Table:
    """The submission's rows for rows of a set, with the id of the label predicted for each."""
    labels = pa.array([*task.metadata.labels, "unknown"])
    numbers = np.where(predicted == UNKNOWN, len(task.metadata.labels), predicted)
    keys = task.metadata.keys(rows).cast(pa.string())
    columns = zip(part, SCHEMA, strict=False)
    same = [pa.repeat(pa.scalar(value, field.type), len(keys)) for value, field in columns]
    return pa.table([*same, keys, labels.take(pa.array(numbers))], SCHEMA)


def _typed(rows: pa.Table) -> pa.Table:
    """Cast to the types of `SCHEMA`; refuse other types than text and whole numbers."""
    for field in SCHEMA:
        column = rows[field.name]
        kind, nulls, text = column.type, column.null_count, field.type == pa.string()
        fits = (
            pa.types.is_string(kind) or pa.types.is_large_string(kind) if text else pa.types.is_integer(kind)
        )
        if not fits and nulls < len(column):
            wanted = "texts" if text else "whole numbers"
            raise InputError(f"its column {field.name} has {kind}: give {wanted}")
        if nulls and field.name in ("task_id", "set", "seed", "key"):
            raise InputError(f"its column {field.name} lacks {nulls:,} values: give each row one")
    return rows.select(SCHEMA.names).cast(SCHEMA)


def tests_of(task: Task) -> list[str]:
    """The test sets of a submission: all but an oracle's set, which only selects."""
    return [name for name, of in task.sets.items() if of.role == "test" and len(of) and name != "oracle"]
