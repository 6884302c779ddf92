"""Predictions in any form, brought to a set's rows in their order and to the dataset's numbers of labels.

They are given by key (a mapping, a table with the column `key`) or in row order; as numbers of labels, names,
or logits for each label; in memory or in a file.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from shiftdata.data.arrays import IntArray, as_ids, as_numbers
from shiftdata.data.format.conditions import number_of
from shiftdata.errors import InputError, IntegrityError, NotFoundError
from shiftdata.evaluation.metrics import align
from shiftdata.evaluation.metrics.records import some
from shiftdata.evaluation.tasks.rows import TaskRows, counts_of, key_array, row_set
from shiftdata.evaluation.tasks.sets import Role
from shiftdata.untrusted.arrays import read_array
from shiftdata.untrusted.parquet import read_footer, read_parquet
from shiftdata.untrusted.texts import read_csv_table

#: The number of "unknown", the class of universal adaptation that no model is trained for.
UNKNOWN = -1
SUFFIXES = (".csv", ".parquet", ".npy")
#: Rows that a file of predictions may have for any set.
FEW_ROWS = 1_000_000
IMAGENET_CLASSES = 1000
#: How a label of CNS-Bench begins: `022_bald eagle` is the output 22.
NUMBERED = re.compile(r"(\d{1,3})(?:_|$)")


def predictions_file(name: str) -> str:
    """Return the file of a set's predictions in the folder of a run."""
    return f"predictions-{name.replace('/', '-')}.parquet"


def imagenet_outputs(task: TaskRows) -> IntArray:
    """Return for each of the 1,000 outputs of an ImageNet model the number of its label in the dataset.

    It is -1 for those that are none of the task's labels, whose numbers their names begin with. All outputs
    compete, as in CNS-Bench's results, or those of the task alone, by its option of a mask:

        outputs = imagenet_outputs(task)
        task.evaluate(logits, outputs=outputs)
        mask = outputs >= 0
        task.evaluate(logits[:, mask], outputs=outputs[mask])
    """
    outputs = np.full(IMAGENET_CLASSES, -1, np.int64)
    for number, label in zip(task.label_ids.tolist(), task.labels, strict=True):
        match = NUMBERED.match(label)
        if match is None or outputs[int(match[1])] >= 0:
            raise InputError(
                f"the label {label!r} of {task.metadata.name} does not begin with the number of an ImageNet "
                "class of its own, such as `022_bald eagle`: make the array yourself, for each output the "
                "number of its label, and -1 for none"
            )
        outputs[int(match[1])] = number
    return outputs


def predicted_rows(
    task: TaskRows, name: str, predictions: Any, *, remap: bool = False, outputs: Any = None
) -> tuple[IntArray, IntArray]:
    """Return the rows of a set, each as often as it was drawn, and the label predicted for each.

    In universal adaptation every label that training does not know is `UNKNOWN`, as is an output without a
    label.
    """
    given = read_predictions(predictions, len(row_set(task, name)))
    keys, role = _of_role(task, name, given.keys)
    labels, rows = _labels(task, given, remap, outputs), task.rows(name, role)
    counts = counts_of(task, name, role)
    if given.keys is not None:
        if len(given.keys) != len(labels):
            raise InputError(
                f"predictions: {len(given.keys):,} keys and {len(labels):,} predictions; give one a key"
            )
        own = key_array(task, name, role)
        # `sd.predict` writes the keys in their order, which is sooner compared than joined.
        if not (isinstance(keys, pa.ChunkedArray) and keys.equals(pa.chunked_array([own]))):
            labels = labels[align(own, keys)]
    elif counts is not None and len(labels) == counts.sum():  # one an example, as a loader gives them
        rows, counts = np.repeat(rows, counts), None
    elif len(labels) != len(rows):
        raise InputError(
            f"predictions: {len(labels):,} for the {len(rows):,} rows of {name}: "
            f"give one a row in the order of task.keys({name!r}), or give them by key"
        )
    labels = _checked(task, labels)
    return (rows, labels) if counts is None else (np.repeat(rows, counts), np.repeat(labels, counts))


def _of_role(task: TaskRows, name: str, keys: Any) -> tuple[Any, Role | None]:
    """Return keys as text, and the role by which they are hashed: in unlabelled batches they are numbers."""
    if keys is None or "unlabelled" not in task.sets[name].roles:
        return keys, None
    first = np.asarray(keys[:1])
    if first.dtype.kind in "iu":  # as batches have them
        numbers = np.asarray(keys).astype(np.int64).view(np.uint64)
        return [f"{key:016x}" for key in numbers.tolist()], "unlabelled"
    hashed = len(first) > 0 and pc.index(key_array(task, name, "unlabelled"), str(first[0])).as_py() >= 0
    return keys, "unlabelled" if hashed else None


@dataclass(frozen=True)
class Given:
    """Predictions as they were given: one a row, or a row of logits; keys and names of columns, if any."""

    values: Any
    keys: Any = None
    columns: tuple[str, ...] = ()


def read_predictions(predictions: Any, examples: int) -> Given:
    """Take predictions apart: keys if there are any, and a value or a row of logits for each.

    A file may have far more rows than the set has `examples`, so that an error can name the unknown keys.
    """
    if isinstance(predictions, str | os.PathLike):
        predictions = read_prediction_file(Path(predictions), max(FEW_ROWS, 2 * examples))
    if isinstance(predictions, Mapping) and not {"key", "prediction"} & predictions.keys():
        return Given(list(predictions.values()), list(predictions))
    if (names := _column_names(predictions)) is None:
        return Given(predictions)
    keys = predictions["key"] if "key" in names else None
    if "prediction" in names:
        return Given(predictions["prediction"], keys)
    columns = [name for name in names if name != "key"]
    if not columns:
        raise InputError("predictions: the table has no column 'prediction', and no column named as a label")
    logits = [as_numbers(f"predictions, column {name!r}", predictions[name]) for name in columns]
    named = tuple(map(str, columns))
    numbered = named == tuple(map(str, range(len(named))))  # as a plain array is written to a file
    return Given(np.column_stack(logits), keys, () if numbered else named)


def read_prediction_file(path: Path, most_rows: int) -> Any:
    """Read a table or an array from a file of one of the `SUFFIXES`."""
    kind = path.suffix.lower()
    if kind in (*SUFFIXES, "") and not path.exists():
        raise NotFoundError(
            f"there are no predictions at {path}: name a file ({', '.join(SUFFIXES)}) with the columns key "
            "and prediction, or the folder that `shiftdata train ... --folder` wrote"
        )
    if kind not in SUFFIXES:
        raise InputError(f"predictions: {path} ends in {kind!r}; give a file of {', '.join(SUFFIXES)}")
    try:
        if kind == ".parquet":
            names = read_footer(path).schema.to_arrow_schema().names
            wanted = [name for name in ("key", "prediction") if name in names]
            return read_parquet(path, wanted if "prediction" in names else names, most_rows=most_rows)
        if kind == ".npy":
            return read_array(path)
        as_text = csv.ConvertOptions(column_types={"key": pa.string()})  # a hash may look like a number
        return read_csv_table(path, convert_options=as_text)
    except IntegrityError as error:
        hint = "give the columns key and prediction, a row for each example of the set"
        raise InputError(f"predictions: {error}; {hint}") from error
    except (OSError, pa.ArrowException, ValueError, MemoryError) as error:
        raise InputError(f"predictions: {path} cannot be read as {kind[1:]}: {error}") from error


def _column_names(given: Any) -> list[Any] | None:
    for attribute in ("column_names", "columns"):
        if (names := getattr(given, attribute, None)) is not None:
            return list(names)
    return list(given) if isinstance(given, Mapping) else None


def _labels(task: TaskRows, given: Given, remap: bool, outputs: Any) -> IntArray:
    """Return the labels that numbers, names and columns of logits mean: `meaning` has one for each place."""
    universal, count = "universal" in task.history.metrics, len(task.metadata.labels)
    also, values = UNKNOWN if universal else None, given.values
    if outputs is not None:
        if remap:
            raise InputError("outputs= gives the label of each output: leave remap out")
        meaning, also = as_ids("outputs", outputs, count, also=UNKNOWN), None
    elif given.columns:
        meaning = np.array([_number(task, name) for name in given.columns])
    elif (texts := _texts(values)) is not None:
        encoded = texts.dictionary_encode()
        values = encoded.indices.to_numpy()
        meaning = np.array([_number(task, text) for text in encoded.dictionary.to_pylist()])
    elif remap:  # the numbers of `task.remapped`: 0 to k - 1, and k for unknown
        meaning = np.append(task.label_ids, UNKNOWN) if universal else task.label_ids
    else:
        meaning = np.arange(count)
    array = as_numbers("predictions", values, ndim=None)
    if array.ndim == 1:
        # With `also`, -1 is the last of the meanings that are extended by it.
        meaning = meaning if also is None else np.append(meaning, also)
        place = as_ids("predictions", array, len(meaning) - (also is not None), also=also)
    else:
        place = array.argmax(axis=1)
        if outputs is None and not given.columns:
            meaning = _columns(task, array.shape[1], remap, universal)
        elif array.shape[1] != len(meaning):
            raise InputError(
                f"predictions: {array.shape[1]} columns of logits, and outputs= names {len(meaning)}: give "
                "one column an output"
            )
    labels: IntArray = meaning[place]
    return labels


def _number(task: TaskRows, text: str) -> int:
    """Return the number of a label by its name; of `unknown` that of no label."""
    labels = task.metadata.labels
    if text.strip().lower() in ("unknown", "-1") and text not in labels:
        return UNKNOWN
    return number_of("label", text.strip(), labels, "Predictions are names or numbers of labels.")


def _columns(task: TaskRows, count: int, remap: bool, universal: bool) -> IntArray:
    """Return the labels of the columns of logits, by their number."""
    meanings = {"labels of the task": task.label_ids}
    if not remap:
        meanings["labels of the dataset"] = np.arange(len(task.metadata.labels))
    if universal:
        meanings |= {f"{about} and unknown": np.append(ids, UNKNOWN) for about, ids in meanings.items()}
    fits = {tuple(ids.tolist()): about for about, ids in meanings.items() if len(ids) == count}
    if len(fits) == 1:
        return np.array(next(iter(fits)))
    if fits:
        raise InputError(
            f"predictions: {count} columns of logits may be {' or '.join(fits.values())}: give remap="
            "True for those of the task, or a table with the names of labels as columns"
        )
    allowed = ", ".join(f"{len(ids)} ({about})" for about, ids in meanings.items())
    raise InputError(f"predictions: {count} columns of logits; give one a label: {allowed}")


def _texts(values: Any) -> pa.Array | None:
    """Return the names among predictions; None where these are numbers."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if not isinstance(values, pa.Array):
        try:
            raw = np.asarray(values)
        except (TypeError, ValueError, RuntimeError):
            return None  # `as_numbers` says what is wrong
        if raw.dtype.kind not in "OUT" or not any(isinstance(value, str) for value in raw.flat):
            return None
        values = pa.array([None if value is None or value != value else str(value) for value in raw.tolist()])
    if values.type not in (pa.string(), pa.large_string()):
        return None
    if values.null_count:
        row = values.is_null().index(True).as_py()
        raise InputError(
            f"predictions: {values.null_count:,} are missing (first in row {row}); give each row one"
        )
    return values


def _checked(task: TaskRows, labels: IntArray) -> IntArray:
    """Return the labels, in universal adaptation those that training does not know as unknown.

    Labels that the task does not have are a sign of numbers that mean something else: some of them warn, and
    predictions that have no others are refused.
    """
    remapped = task.remapped
    counts = np.bincount(labels + 1, minlength=len(remapped) + 1)[1:]
    outside = np.flatnonzero((remapped < 0) & (counts > 0)).tolist()
    if outside:
        names = [task.metadata.labels[number] for number in outside]
        text = (
            f"{int(counts[outside].sum()):,} of {len(labels):,} predictions are labels that the task does "
            f"not have ({some(names)}); it has {some(task.labels)}. Numbers are those of the dataset's "
            f"labels: if yours count task.labels from 0 to {len(task.labels) - 1}, give remap=True"
        )
        if counts[outside].sum() == len(labels):
            raise InputError(text)
        warnings.warn(text, stacklevel=5)
    if "universal" not in task.history.metrics:
        return labels
    number = np.where(remapped == len(task.label_ids), UNKNOWN, np.arange(len(remapped)))
    return np.append(number, UNKNOWN)[labels]
