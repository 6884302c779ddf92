"""Brings predictions into a task's row order by key, and refuses any that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import as_numbers

_SHOWN = 3


def align(task_keys: Any, predictions: Any) -> NDArray[Any]:
    """The predictions (class ids, or rows of class scores) in the order of the task's keys.

    `predictions` map each key to one, or are a table with the columns `key` and `prediction`: Arrow, pandas,
    or a mapping of these two names to columns. Unknown, missing and repeated keys are refused.

    >>> align(["dove_1", "dove_2"], {"dove_2": 7, "dove_1": 3}).tolist()
    [3, 7]
    """
    wanted = _keys("task_keys", task_keys)
    keys, values = _columns(predictions)
    if len(keys) != len(values):
        raise InputError(f"predictions: {len(keys):,} keys and {len(values):,} predictions; give one a key")
    at = pc.index_in(wanted, value_set=keys)
    # Where every position occurs exactly once, no key is unknown, missing or repeated.
    if (
        len(keys) != len(wanted)
        or at.null_count
        or (np.bincount(at.to_numpy(), minlength=len(at)) != 1).any()
    ):
        _refuse(wanted, keys, at)
    ordered: NDArray[Any] = values[at.to_numpy()]
    return ordered


def _refuse(wanted: pa.Array, keys: pa.Array, at: pa.Array) -> None:
    if len(repeated := _repeated(wanted)):
        raise InputError(f"task_keys: {_listed('repeated', repeated)}; give the key of each row once")
    problems = {
        "unknown": keys.filter(pc.is_null(pc.index_in(keys, value_set=wanted))),
        "missing": wanted.filter(pc.is_null(at)),
        "repeated": _repeated(keys),
    }
    listed = "; ".join(_listed(what, some) for what, some in problems.items() if len(some))
    raise InputError(
        f"predictions do not fit the task's {len(wanted):,} keys: {listed}. "
        "Give exactly one prediction for each key of the task"
    )


def _columns(predictions: Any) -> tuple[pa.Array, NDArray[Any]]:
    if isinstance(predictions, Mapping) and not _is_table(predictions):
        keys, values = list(predictions.keys()), list(predictions.values())
    else:
        try:
            keys, values = predictions["key"], predictions["prediction"]
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise InputError(
                "predictions: give a mapping from key to prediction, or a table with the columns "
                f"'key' and 'prediction'; got {type(predictions).__name__}"
            ) from error
    names, array = _keys("predictions", keys), as_numbers("predictions", values, ndim=None)
    if array.ndim == 1 and array.dtype.kind == "f" and (array == np.floor(array)).all():
        array = array.astype(np.int64)  # Arrow and pandas make floats of ids
    return names, array


def _is_table(predictions: Mapping[Any, Any]) -> bool:
    """Whether a mapping has two columns, not predictions for images called `key` and `prediction`."""
    return set(predictions) == {"key", "prediction"} and not isinstance(predictions["key"], (int, np.integer))


def _keys(name: str, keys: Any) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
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


def _listed(what: str, keys: pa.Array) -> str:
    first = sorted(keys.to_pylist())[:_SHOWN]
    return f"{len(keys):,} {what} ({', '.join(first)}{', ...' if len(keys) > _SHOWN else ''})"
