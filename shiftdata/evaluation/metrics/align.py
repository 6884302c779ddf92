"""Bring predictions into a task's row order by key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.metadata.texts import positions
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import some


def align(task_keys: Any, keys: Any) -> NDArray[np.int64]:
    """The position of each task key among the keys of predictions: `predictions[align(task_keys, keys)]`.

    Unknown, missing and repeated keys are refused.

    >>> align(["dove_1", "dove_2"], ["dove_2", "dove_1"]).tolist()
    [1, 0]
    """
    wanted, keys = _keys("task_keys", task_keys), _keys("predictions", keys)
    at = positions(wanted, keys)
    # Where every position occurs exactly once, no key is unknown, missing or repeated.
    fits = len(keys) == len(wanted) and at.min() >= 0
    if fits and np.bincount(at, minlength=len(at)).max() == 1:
        return at
    if len(repeated := _repeated(wanted)):
        raise InputError(f"task_keys: {_listed('repeated', repeated)}; give the key of each row once")
    problems = {
        "unknown": keys.filter(pc.is_null(pc.index_in(keys, value_set=wanted))),
        "missing": wanted.filter(pa.array(at < 0)),
        "repeated": _repeated(keys),
    }
    listed = "; ".join(_listed(problem, names) for problem, names in problems.items() if len(names))
    raise InputError(
        f"predictions do not fit the task's {len(wanted):,} keys: {listed}. "
        "Give exactly one prediction for each key of the task"
    )


def _keys(name: str, keys: Any) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        keys = (keys.cast(pa.large_string()) if pa.types.is_string(keys.type) else keys).combine_chunks()
    try:
        array = keys if isinstance(keys, pa.Array) else pa.array(keys)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise InputError(f"{name}: keys are text, and these are not ({error})") from error
    if len(array) == 0:
        raise InputError(f"{name}: empty; give at least one key")
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        raise InputError(f"{name}: {array.null_count:,} keys are missing (null); give the key of each row")
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise InputError(f"{name}: keys are text, got {array.type}")
    return array.cast(pa.large_string())


def _repeated(keys: pa.Array) -> pa.Array:
    counts = pc.value_counts(keys)
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def _listed(problem: str, keys: pa.Array) -> str:
    return f"{len(keys):,} {problem} ({some(sorted(keys.to_pylist()))})"
