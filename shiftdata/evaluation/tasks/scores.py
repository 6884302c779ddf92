"""The scores that a saved run or prediction keeps next to its predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import align
from shiftdata.evaluation.metrics.calibration import Calibration, measure_calibration
from shiftdata.evaluation.metrics.records import some
from shiftdata.evaluation.tasks.predictions import UNKNOWN
from shiftdata.evaluation.tasks.rows import TaskRows, counts_of, key_array
from shiftdata.untrusted.parquet import read_footer, read_parquet
from shiftdata.untrusted.texts import read_json


def saved_scores(path: Path) -> tuple[Any, FloatArray, Sequence[str]]:
    """Return keys, scores (rows x outputs) and the names of the outputs, of a file of predictions.

    The names are in the run.json next to it.
    """
    hint = "name the folder of `shiftdata train --folder` or `predict --folder`, or its predictions"
    about = path.parent / "run.json"
    if path.suffix != ".parquet" or "scores" not in read_footer(path).schema.to_arrow_schema().names:
        raise InputError(f"{path} has no scores, and calibration needs them: {hint}")
    outputs = read_json(about).get("outputs") if about.is_file() else None
    if not isinstance(outputs, list) or not all(isinstance(name, str) for name in outputs):
        raise InputError(f"{about} does not name the outputs of the scores: {hint}")
    table = read_parquet(path, ["key", "scores"])
    kind = table.schema.field("scores").type
    if not pa.types.is_fixed_size_list(kind) or kind.list_size != len(outputs):
        raise InputError(f"{path}: scores are {kind}, and run.json names {len(outputs)} outputs")
    values = table["scores"].combine_chunks()
    flat = values.flatten()
    if values.null_count or flat.null_count:
        raise InputError(f"{path}: scores are missing (null) in some rows")
    return table["key"], flat.to_numpy().astype(np.float64).reshape(len(table), -1), outputs


def calibrated(task: TaskRows, path: str | Path, name: str | None = None) -> Calibration:
    """Measure the calibration of saved predictions on a set, with intervals over origins."""
    name = task.set_of("test") if name is None else name
    keys, scores, outputs = saved_scores(Path(path))
    rows, counts = task.rows(name), counts_of(task, name)
    scores = scores[align(key_array(task, name, None), keys)]
    if counts is not None:
        rows, scores = np.repeat(rows, counts), np.repeat(scores, counts, axis=0)
    place = _places(task, outputs)[task.metadata.label[rows]]
    if (place < 0).any():
        lost = sorted({task.metadata.labels[label] for label in task.metadata.label[rows[place < 0]]})
        raise InputError(f"labels of {name} are no outputs of the model ({some(lost)}): none is right there")
    return measure_calibration(scores, place, origins=task.metadata.origin[rows])


def _places(task: TaskRows, outputs: Sequence[str]) -> IntArray:
    """The output of each label of the dataset; in universal adaptation "unknown" is that of new labels."""
    new = UNKNOWN
    if "universal" in task.history.metrics and "unknown" in outputs:
        new = outputs.index("unknown")
    known = set(task.labels) if new != UNKNOWN else set(task.metadata.labels)
    numbers = {output: place for place, output in enumerate(outputs)}
    labels = task.metadata.labels
    return np.array([numbers.get(label, UNKNOWN) if label in known else new for label in labels], np.int64)
