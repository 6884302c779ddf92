"""A submission: one file of predictions by key for the test sets of tasks of a dataset, and a method card.

The card is its authors' statement of the method, and names the tasks: JSON in the file, TOML in an editor.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.baselines.pretrained.registry import Pretraining, lookup
from shiftdata.bench.selection import RULES
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.names import PATH_PART, line_fault
from shiftdata.data.format.typed import record
from shiftdata.errors import InputError, IntegrityError, not_found
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.predictions import UNKNOWN
from shiftdata.files import whole_file
from shiftdata.untrusted.pages import UnreadableError
from shiftdata.untrusted.parquet import ParquetReader
from shiftdata.untrusted.texts import read_json, read_toml

#: Limits: bytes of a card, characters of a text of it, rows of a file.
MOST_CARD, MOST_TEXT, MOST_ROWS = 64_000, 1_000, 20_000_000
#: The key of the card in the file's metadata.
CARD = b"shiftdata-submission"
#: The prefix of a selection rule of your own.
OTHER = "other: "
TEMPLATE = Path(__file__).parents[1] / "templates" / "card.toml"
SCHEMA = pa.schema(
    {
        "task_id": pa.string(),
        "set": pa.string(),
        "seed": pa.int32(),
        "key": pa.string(),
        "prediction": pa.string(),  # the name of a label
    }
)


@dataclass(frozen=True, kw_only=True)
class TaskName:
    """The protocol of a task, and the set that methods also saw without labels."""

    protocol: str
    unlabelled: str = ""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weights that a training began with, and what their users state of them; all empty: none."""

    weights: str
    sha256: str
    supervision: Literal["", "labels", "text", "none"]
    corpora: tuple[str, ...]

    @property
    def pretraining(self) -> Pretraining:
        """The registry's entry for them, or else the statement."""
        found = lookup(self.weights, self.sha256)
        if found.known or not self.supervision:
            return found
        return replace(found, corpora=self.corpora, supervision=self.supervision, by="statement")

    def check(self) -> None:
        """Refuse a hash that is none, and half a statement."""
        is_hash = not self.sha256 or re.fullmatch("[0-9a-fA-F]{64}", self.sha256)
        _check(is_hash, f"the card's sha256 is {self.sha256!r:.100}: give 64 hexadecimal digits, or none")
        whole = bool(self.supervision) == bool(self.corpora) and (self.weights or not self.corpora)
        _check(
            whole, "the card states a part of its pretraining: give weights, supervision and corpora, or none"
        )


@dataclass(frozen=True, kw_only=True)
class Card:
    """The fields of a method card; `tasks` names each task by its hash."""

    method: str
    authors: str
    url: str
    code: str
    backbone: str
    pretraining: Weights
    trained_on: str
    rule: str
    trials: int
    dataset: str
    base: str
    content_id: str
    tasks: Mapping[str, TaskName]

    @property
    def oracle(self) -> bool:
        """True if its rule selects by the test set."""
        return self.rule in RULES and RULES[self.rule].oracle

    def check(self) -> Card:
        """Refuse a card that could mislead the readers of a page."""
        for text in _texts(asdict(self)):
            fault = line_fault(text)
            if len(text) > MOST_TEXT:
                fault = f"has {len(text):,} characters, more than {MOST_TEXT:,}"
            _check(not fault, f"the card's text {text!a:.40} {fault}: give one line of text")
        for name in ("method", "backbone", "trained_on"):
            _check(getattr(self, name).strip(), f"the card's {name} is empty: give it, or none")
        url = not self.url or re.fullmatch(r"https?://[^\s\"'<>\\]+", self.url)
        _check(url, f"the card's url is {self.url!r:.100}: give https://..., or leave it empty")
        _check(self.trials >= 1, f"the card's trials are {self.trials}: give 1 or more that were tried")
        for name in ("dataset", "base"):
            text = getattr(self, name)
            _check(PATH_PART.fullmatch(text), f"the card's {name} is {text!r:.100}: give the name, no path")
        self.pretraining.check()
        if self.rule not in RULES and not (self.rule.startswith(OTHER) and self.rule[len(OTHER) :].strip()):
            raise not_found("selection rule", self.rule, RULES, f"Or describe your own: {OTHER!r}...")
        return self


def _texts(value: Any) -> Iterator[str]:
    """Every non-empty text in a card, keys included."""
    if isinstance(value, dict | tuple):
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from _texts(item)
    elif isinstance(value, str) and value:
        yield value


def _check(valid: object, message: str) -> None:
    if not valid:
        raise InputError(message)


def read_card(text: str | bytes) -> Card:
    """Read the card in a submission's file."""
    _check(len(text) <= MOST_CARD, f"the card has {len(text):,} bytes: give at most {MOST_CARD:,}")
    try:
        return record(Card, read_json(text)).check()
    except InputError:
        raise
    except ValueError as error:
        hint = "`shiftdata submit --card-template` prints one with every field"
        raise InputError(f"the card cannot be read: {error}; {hint}") from error


def read_card_file(path: Path) -> dict[str, Any]:
    """Read the fields of a card in TOML."""
    try:
        return read_toml(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a card in TOML ({error}): see --card-template") from error


def template() -> str:
    """Return a card to fill in."""
    return TEMPLATE.read_text(encoding="utf-8").replace("{rules}", ", ".join(RULES))


class Part(NamedTuple):
    """The model and the test set of some predictions."""

    task_id: str
    set: str
    seed: int


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
            with ParquetReader(path) as file:
                text = (file.footer.metadata or {}).get(CARD)
                if text is None:
                    raise InputError("it has no method card: write it with `shiftdata submit`")
                card, names = read_card(text), file.schema.names
                if not file.rows:
                    raise InputError("it has no rows: give a prediction for each key of the tests")
                if sorted(names) != sorted(SCHEMA.names):
                    raise InputError(f"its columns are {names!a:.200}; give {', '.join(SCHEMA.names)}")
                return cls(card, _typed(file.read(SCHEMA.names, most_rows=MOST_ROWS)))
        except UnreadableError as error:
            raise InputError(f"it is not a file of predictions: {error}") from error
        except IntegrityError as error:
            raise InputError(f"{error}; give it in several files") from error
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"it cannot be read as a Parquet file of predictions: {error}") from error

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        text = json.dumps(asdict(self.card), sort_keys=True)
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
        kind, nulls = rows[field.name].type, rows[field.name].null_count
        is_text = field.type == pa.string()
        if not (kind in (pa.string(), pa.large_string()) if is_text else pa.types.is_integer(kind)) or nulls:
            wanted = "a text" if is_text else "a whole number"
            raise InputError(
                f"its column {field.name} has {kind} and lacks {nulls:,} values: give each row {wanted}"
            )
    return rows.select(SCHEMA.names).cast(SCHEMA)


def tests_of(task: Task) -> list[str]:
    """The test sets of a submission: all but an oracle's set, which only selects."""
    return [
        name for name, rows in task.sets.items() if rows.role == "test" and len(rows) and name != "oracle"
    ]
