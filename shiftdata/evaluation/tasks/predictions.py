"""Predictions in any form, brought to a set's rows in their order and to the dataset's numbers of labels.

They are given by key (a mapping, a Series with keys as index, a table with the column `key`) or in row order;
as numbers of labels, names, or a score for each label; in memory or in a file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shiftdata.data.arrays import IntArray, as_ids, as_numbers
from shiftdata.data.format.conditions import number_of
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.metrics import align
from shiftdata.evaluation.metrics.records import some
from shiftdata.evaluation.tasks.prediction_files import read_prediction_file

if TYPE_CHECKING:
    from shiftdata.evaluation.tasks.sets import Role
    from shiftdata.evaluation.tasks.task import Task

#: What stands for "unknown", the class of universal adaptation that no model is trained for.
UNKNOWN = -1
#: Rows that a file of predictions may have for any set.
FEW_ROWS = 1_000_000


def predicted_rows(
    task: Task, name: str, predictions: Any, *, remap: bool = False, outputs: Any = None
) -> tuple[IntArray, IntArray]:
    """The rows of a set, each as often as it was drawn, and the number of the label predicted for each.

    In universal adaptation every label that training does not know is `UNKNOWN`, as is an output that stands
    for no label.
    """
    given = read_predictions(predictions, len(task.row_set(name)))
    keys, role = _of_role(task, name, given.keys)
    labels, rows = _Reader(task, remap, outputs).labels(given), task.rows(name, role)
    counts = task.counts(name, role)
    if given.keys is not None:
        if len(given.keys) != len(labels):
            raise InputError(
                f"predictions: {len(given.keys):,} keys and {len(labels):,} predictions; give one a key"
            )
        wanted = task.key_array(name, role)
        place = _by_copies(task, rows, wanted.to_pylist(), keys) if len(labels) < len(rows) else None
        labels = labels[align(wanted, keys) if place is None else place]
    elif counts is not None and len(labels) == counts.sum():  # one an example, as a loader gives them
        rows, counts = np.repeat(rows, counts), None
    elif len(labels) < len(rows) and len(labels) == len(first := task.distinct(name, role)):
        pictures = task.metadata.picture[rows]
        order = np.argsort(pictures[first])
        labels = labels[order[np.searchsorted(pictures[first], pictures, sorter=order)]]
    elif len(labels) != len(rows):
        raise InputError(
            f"predictions: {len(labels):,} for the {len(rows):,} rows of {name}: "
            f"give one a row in the order of task.keys({name!r}), or give them by key"
        )
    labels = _checked(task, labels)
    return (rows, labels) if counts is None else (np.repeat(rows, counts), np.repeat(labels, counts))


def _by_copies(task: Task, rows: IntArray, wanted: Sequence[str], keys: Any) -> IntArray | None:
    """For each row the place of the prediction for its picture, which may be given under another key.

    None where a picture has no prediction, or keys are strange or come twice: `align` says what is wrong.
    """
    pictures, given = task.metadata.picture[rows], {str(key): place for place, key in enumerate(keys)}
    place = np.array([given.pop(key, -1) for key in wanted])
    of_picture = dict(zip(pictures[place >= 0].tolist(), place[place >= 0].tolist(), strict=True))
    filled = np.array([of_picture.get(one, -1) for one in pictures.tolist()])
    place = np.where(place < 0, filled, place)
    return None if given or len(keys) != len(set(map(str, keys))) or (place < 0).any() else place


def _of_role(task: Task, name: str, keys: Any) -> tuple[Any, Role | None]:
    """Keys as text, and the role by which they are hashed: in batches without labels they are numbers."""
    if keys is None or "unlabelled" not in task.roles[name]:
        return keys, None
    array = np.asarray(keys)
    if array.dtype.kind in "iu":  # as batches have them
        return [f"{one:016x}" for one in array.astype(np.int64).view(np.uint64).tolist()], "unlabelled"
    hashed = len(array) > 0 and array[0] in set(task.keys(name, "unlabelled"))
    return keys, "unlabelled" if hashed else None


@dataclass(frozen=True)
class Given:
    """Predictions as they were given: one a row, or a row of scores; keys and names of columns, if any."""

    values: Any
    keys: Any = None
    columns: tuple[str, ...] = ()


def read_predictions(predictions: Any, examples: int) -> Given:
    """Take predictions apart: keys if there are any, and a value or a row of scores for each.

    A file may have far more rows than the set has `examples`, so that an error can say what is strange.
    """
    if isinstance(predictions, str | os.PathLike):
        predictions = read_prediction_file(Path(predictions), max(FEW_ROWS, 2 * examples))
    if hasattr(predictions, "to_arrow"):  # polars
        predictions = predictions.to_arrow()
    if isinstance(predictions, Mapping) and not _is_table(predictions):
        return Given(list(predictions.values()), list(predictions))
    names, keys = _column_names(predictions), _text_index(predictions)
    if names is None:
        return Given(predictions, keys)
    if "key" in names:
        keys = predictions["key"]
    if "prediction" in names:
        return Given(predictions["prediction"], keys)
    others = [one for one in names if one != "key"]
    if not others:
        raise InputError("predictions: the table has no column 'prediction', and no column named as a label")
    scores = [as_numbers(f"predictions, column {one!r}", predictions[one]) for one in others]
    named = tuple(map(str, others))
    numbered = named == tuple(map(str, range(len(named))))  # as a plain array is written to a file
    return Given(np.column_stack(scores), keys, () if numbered else named)


def _is_table(given: Mapping[Any, Any]) -> bool:
    """Whether a mapping has columns, and not predictions for examples called `key` and `prediction`."""
    if "prediction" in given:
        return bool(np.ndim(given["prediction"]))
    return "key" in given and np.asarray(given["key"]).dtype.kind in "OUT" and bool(np.ndim(given["key"]))


def _column_names(given: Any) -> list[Any] | None:
    for attribute in ("column_names", "columns"):
        if (names := getattr(given, attribute, None)) is not None:
            return list(names)
    return list(given) if isinstance(given, Mapping) else None


def _text_index(given: Any) -> Any:
    """The keys in the index of a pandas object; None where it only numbers the rows."""
    if not hasattr(given, "iloc"):
        return None
    index = np.asarray(given.index)
    return index if index.dtype.kind in "OUT" else None


@dataclass(frozen=True)
class _Reader:
    """What a task's numbers, names and columns of scores stand for."""

    task: Task
    remap: bool
    meant: Any = None

    @property
    def universal(self) -> bool:
        return "universal" in self.task.metrics

    @property
    def outputs(self) -> IntArray:
        """What the numbers of `task.remapped` stand for: 0 to k - 1, and k for unknown."""
        return np.append(self.task.label_ids, UNKNOWN) if self.universal else self.task.label_ids

    def labels(self, given: Given) -> IntArray:
        if self.meant is not None:
            return self._of_outputs(given)
        if given.columns:
            meant, place = self._named(given.columns), np.asarray(given.values).argmax(axis=1)
        elif (texts := _texts(given.values)) is not None:
            encoded = texts.dictionary_encode()
            meant, place = self._named(encoded.dictionary.to_pylist()), encoded.indices.to_numpy()
        else:
            array = as_numbers("predictions", given.values, ndim=None)
            also = UNKNOWN if self.universal else None
            if array.ndim == 2:
                meant, place = self._columns(array.shape[1]), array.argmax(axis=1)
            elif self.remap:
                meant, place = self.outputs, as_ids("predictions", array, len(self.outputs), also=also)
            else:
                return as_ids("predictions", array, len(self.task.metadata.labels), also=also)
        labels: IntArray = meant[place]
        return labels

    def _of_outputs(self, given: Given) -> IntArray:
        """The labels that the outputs of a model stand for; `UNKNOWN` for none."""
        if self.remap:
            raise InputError("outputs= says what each output stands for: leave remap out")
        meant = as_ids("outputs", self.meant, len(self.task.metadata.labels), also=UNKNOWN)
        array = as_numbers("predictions", given.values, ndim=None)
        if array.ndim == 2 and array.shape[1] != len(meant):
            raise InputError(
                f"predictions: {array.shape[1]} columns of scores, and outputs= names {len(meant)}: give one "
                "column an output"
            )
        labels: IntArray = meant[
            array.argmax(axis=1) if array.ndim == 2 else as_ids("predictions", array, len(meant))
        ]
        return labels

    def _named(self, texts: Sequence[str]) -> IntArray:
        """The numbers of labels by their names; `unknown` in universal adaptation."""
        return np.array([self._number(text) for text in texts], np.int64)

    def _number(self, text: str) -> int:
        labels = self.task.metadata.labels
        if self.universal and text.strip().lower() in ("unknown", "-1") and text not in labels:
            return UNKNOWN
        if self.remap and text.isdigit() and text not in labels and int(text) < len(self.outputs):
            return int(self.outputs[int(text)])
        hint = "Predictions are names or numbers of labels."
        try:
            return number_of("label", text.strip(), labels, hint)
        except InputError:
            unknown = ["unknown"] if self.universal else []
            raise not_found("label", text, [*labels, *unknown], hint) from None

    def _columns(self, count: int) -> IntArray:
        """What the columns of scores stand for, by their number."""
        known, every = self.task.label_ids, np.arange(len(self.task.metadata.labels))
        meanings = {"labels of the task": known, "labels of the dataset": every}
        if self.remap:
            del meanings["labels of the dataset"]
        if self.universal:
            meanings |= {f"{what} and unknown": np.append(ids, UNKNOWN) for what, ids in meanings.items()}
        fits = {tuple(ids.tolist()): what for what, ids in meanings.items() if len(ids) == count}
        if len(fits) == 1:
            return np.array(next(iter(fits)))
        if fits:
            raise InputError(
                f"predictions: {count} columns of scores may be {' or '.join(fits.values())}: give remap="
                "True for those of the task, or a table with the names of labels as columns"
            )
        allowed = ", ".join(f"{len(ids)} ({what})" for what, ids in meanings.items())
        raise InputError(f"predictions: {count} columns of scores; give one a label: {allowed}")


def _texts(values: Any) -> pa.Array | None:
    """The names among predictions; None where these are numbers."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if not isinstance(values, pa.Array):
        try:
            raw = np.asarray(values)
        except (TypeError, ValueError, RuntimeError):
            return None  # `as_numbers` says what is wrong
        if raw.dtype.kind == "O" and any(isinstance(one, str) for one in raw.flat):
            values = pa.array([None if one is None or one != one else str(one) for one in raw.tolist()])
        elif raw.dtype.kind in "UT":
            values = pa.array(raw.tolist())
    if not isinstance(values, pa.Array) or not (
        pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    ):
        return None
    if values.null_count:
        row = values.is_null().index(True).as_py()
        raise InputError(
            f"predictions: {values.null_count:,} are missing (first in row {row}); give each row one"
        )
    return values


def _checked(task: Task, labels: IntArray) -> IntArray:
    """Labels, in universal adaptation those that training does not know as unknown.

    Labels that the task does not have are a sign of numbers that mean something else: some warn, only such
    are refused.
    """
    remapped = task.remapped
    counts = np.bincount(labels + 1, minlength=len(remapped) + 1)[1:]
    outside = np.flatnonzero((remapped < 0) & (counts > 0)).tolist()
    if outside:
        names = [task.metadata.labels[one] for one in outside]
        text = (
            f"{int(counts[outside].sum()):,} of {len(labels):,} predictions are labels that the task does "
            f"not have ({some(names)}); it has {some(task.labels)}. Numbers are those of the dataset's "
            f"labels: if yours count task.labels from 0 to {len(task.labels) - 1}, give remap=True"
        )
        if counts[outside].sum() == len(labels):
            raise InputError(text)
        warnings.warn(text, stacklevel=5)
    if "universal" not in task.metrics:
        return labels
    number = np.where(remapped == len(task.label_ids), UNKNOWN, np.arange(len(remapped)))
    return np.append(number, UNKNOWN)[labels]
