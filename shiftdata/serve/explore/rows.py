"""The table that is explored: a line for each row of a base, by the names that filters have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.evaluation import true_labels
from shiftdata.evaluation.tasks.predictions import predicted_rows
from shiftdata.serve.explore.neighbours import RowMap
from shiftdata.serve.explore.selection import UNTOUCHED
from shiftdata.serve.pages.rows import Rows

#: The number of a row, by which pictures are asked for and neighbours are named.
ROW = "row"
#: A place on the map and the neighbours; the view shows no column that begins like this.
X, Y, NEAR = "__x", "__y", "__neighbours"
#: Texts of examples are cut to this many characters: a table is to be looked at.
MOST_TEXT = 2000
#: Columns of a table dataset that become columns of their own.
MOST_FEATURES = 200


@dataclass(frozen=True)
class Predicted:
    """Predictions of a run for one set of a task, under the run's name; `words` name the task."""

    name: str
    words: str
    task: Task
    set: str
    given: Any


def explored(metadata: Metadata, placed: RowMap | None, predicted: Sequence[Predicted] = ()) -> pa.Table:
    """Return the rows of a base with names for numbers, their places on the map, and predictions.

    A run has the columns `<name>` (the predicted label) and `<name> is` ("right" or "wrong"), empty where the
    set that it predicts has no such row; a task has the column `set of <task>`.
    """
    every, numbers = np.arange(len(metadata)), metadata.columns
    severity, nuisance = numbers["severity"], metadata.nuisance_column
    columns: dict[str, Any] = {
        ROW: pa.array(every.astype(np.int32)),
        "key": metadata.keys(every),
        "label": named(metadata.labels, metadata.label),
        nuisance: named(
            metadata.nuisances, metadata.nuisance, None if nuisance in metadata.hidden else UNTOUCHED
        ),
        "split": named(list(SPLITS), numbers["split"]),
        "group": named(*_groups(metadata)),
    }
    if len(np.unique(severity[~np.isnan(severity)])) > 1:
        columns["severity"] = pa.array(severity, from_pandas=True)
    known = metadata.take([name for name in ("license", "origin") if name in metadata.names])
    columns |= {name: known[name].cast(pa.large_string()) for name in known.column_names}
    columns["quantile"] = pa.array(numbers["quantile"], from_pandas=True)
    examples = _examples(metadata)
    if "text" in examples and len(examples) == 1:
        columns = {ROW: columns.pop(ROW), "text": examples.pop("text"), **columns}  # what is read comes first
    for name, values in examples.items():
        columns[f"feature {name}" if name in columns else name] = values
    for run in predicted:
        columns |= _predictions(metadata, run, columns)
    if placed is not None:
        columns |= {X: pa.array(placed.xy[:, 0]), Y: pa.array(placed.xy[:, 1]), NEAR: _neighbours(placed)}
    return pa.table(columns)


def named(names: Sequence[str], codes: IntArray, none: str | None = None) -> pa.Array:
    """Return the name of each code; of those below 0 `none`."""
    values = pa.array([*names, none], pa.string())
    return values.take(pa.array(np.where(codes < 0, len(names), codes)))


def _groups(metadata: Metadata) -> tuple[list[str], IntArray]:
    of = len(metadata.nuisances)
    present, codes = np.unique(
        metadata.label.astype(np.int64) * (of + 1) + metadata.nuisance + 1, return_inverse=True
    )
    names = [
        f"{metadata.labels[code // (of + 1)]} / {[UNTOUCHED, *metadata.nuisances][code % (of + 1)]}"
        for code in present.tolist()
    ]
    return names, np.where(metadata.label < 0, -1, codes)


def _examples(metadata: Metadata) -> dict[str, Any]:
    """Return the texts of a text dataset, or the columns of a table; pictures are asked for one by one."""
    dataset = metadata.dataset
    if dataset is None or not dataset.manifest.pixels_included or dataset.manifest.roles.modality == "image":
        return {}
    rows = Rows.of(dataset, metadata.base)
    records = rows.texts(np.arange(len(metadata)))
    if rows.modality == "text":
        return {"text": pa.array([text[:MOST_TEXT] for text in records], pa.large_string())}
    names = list(dataset.manifest.roles.example)[:MOST_FEATURES]
    return {name: pa.array([record[name] for record in records]) for name in names}


def _predictions(metadata: Metadata, run: Predicted, known: Mapping[str, Any]) -> dict[str, Any]:
    if run.task.metadata.base != metadata.base or run.task.metadata.name != metadata.name:
        of = f"{run.task.metadata.name}/{run.task.metadata.base}"
        raise InputError(
            f"{run.name} predicts rows of {of}, and these are of {metadata.name}/{metadata.base}"
        )
    if run.name in known:
        raise InputError(f"{run.name} is a column already: give the run another name, as in NAME=PLACE")
    at, labels = predicted_rows(run.task, run.set, run.given)
    codes, right = np.full(len(metadata), -1), np.full(len(metadata), -1)
    unknown = len(metadata.labels)
    codes[at] = np.where(labels < 0, unknown, labels)
    hidden = metadata.label[at] < 0  # nobody but the publisher can say
    right[at] = np.where(hidden, -1, labels == true_labels(run.task, at))
    columns = {
        run.name: named([*metadata.labels, "unknown"], codes),
        f"{run.name} is": named(["wrong", "right"], right),
    }
    sets = f"set of {run.words}"
    if sets not in known:
        member, names = np.full(len(metadata), -1), list(run.task.sets)
        for number, name in enumerate(names):
            member[run.task.rows(name)] = number
        columns[sets] = named(names, member)
    return columns


def _neighbours(placed: RowMap) -> pa.Array:
    count, k = placed.neighbours.shape
    offsets = pa.array(np.arange(0, (count + 1) * k, k, dtype=np.int32))
    lists = {
        "ids": pa.ListArray.from_arrays(offsets, pa.array(placed.neighbours.reshape(-1))),
        "distances": pa.ListArray.from_arrays(offsets, pa.array(placed.distances.reshape(-1))),
    }
    return pa.StructArray.from_arrays(list(lists.values()), list(lists))
