"""Turns what users have (lists, arrays, tensors, Arrow columns) into checked arrays, or says what is wrong.

Nothing here knows torch or pandas: whatever `numpy.asarray` can read is read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError

BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
Entry = TypeVar("Entry", bound=np.generic)
#: Rows of which the numbers of a step stay in the processor's cache. Temporaries of tens of millions of rows
#: are new pages of memory each time, which cost more than the arithmetic.
STRETCH = 1 << 17
#: Rows of several codes that are sorted together.
TOGETHER = 1 << 12
#: Codes below this are sorted by radix, in 16 bits.
RADIX = 1 << 16


def stretches(count: int, size: int | None = None) -> Iterator[slice]:
    """Yield slices that cover `count` rows, `STRETCH` or `size` rows each."""
    size = size or STRETCH
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def counted(codes: NDArray[np.integer], size: int) -> IntArray:
    """Count the rows of each code from 0 to below `size`; negative codes count for none."""
    counts = np.zeros(size + 1, np.int64)
    for at in stretches(len(codes), max(STRETCH, size)):
        shifted = np.add(codes[at], 1, dtype=np.int64)
        counts += np.bincount(np.maximum(shifted, 0, out=shifted), minlength=size + 1)
    return counts[1:]


def looked_up(table: NDArray[Entry], codes: NDArray[np.integer]) -> NDArray[Entry]:
    """Return `table[codes]`, stretch by stretch: no copy of all codes in 64 bits is made.

    The narrower the table, the more of it stays in the cache, in which codes point anywhere.
    """
    result = np.empty(len(codes), table.dtype)
    for at in stretches(len(codes)):
        result[at] = table[codes[at]]
    return result


def numbered(values: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """Return the few different values, sorted, and the place of each row's: nan is a value.

    >>> numbered(np.array([2.5, 0, 2.5]))[1]
    array([1, 0, 1])
    """
    known = np.unique(np.concatenate([values[:0], *(np.unique(values[at]) for at in stretches(len(values)))]))
    places = np.zeros(len(values), np.int64)
    for at in stretches(len(values) if len(known) > 1 else 0):
        places[at] = np.searchsorted(known, values[at])
    return known, places


def by_code(codes: NDArray[np.integer], size: int) -> tuple[IntArray, IntArray]:
    """Return the rows in the order of their codes below `size`, equal ones in theirs, and each code's count.

    A counting sort, stretch by stretch: a sort of all rows at once misses the cache in each of its passes.

    >>> by_code(np.array([1, 0, 1, 3]), 4)
    (array([1, 0, 2, 3]), array([1, 2, 0, 1]))
    """
    if size > RADIX:
        return np.argsort(codes, kind="stable"), counted(codes, size)
    counts = counted(codes, size)
    order, following = np.empty(len(codes), np.int64), np.cumsum(counts) - counts
    for at in stretches(len(codes)):
        part = codes[at].astype(np.uint16)
        mine, here = np.argsort(part, kind="stable"), np.bincount(part, minlength=size)
        place = np.arange(len(part)) + np.repeat(following - (np.cumsum(here) - here), here)
        order[place] = mine + at.start
        following += here
    return order, counts


def by_code_and_key(codes: NDArray[np.integer], keys: NDArray[Any], size: int) -> tuple[IntArray, IntArray]:
    """Return `np.lexsort((keys, codes))` for codes below `size`, and each code's count.

    Each code is sorted on its own, or with others of few rows, in the cache.
    """
    order, counts = by_code(codes, size)
    ends, start = np.cumsum(counts), 0
    while start < len(order):
        first, last = np.searchsorted(ends, [start, start + TOGETHER], side="right").tolist()
        stop = int(ends[max(first, last - 1)])
        part = order[start:stop]
        within = keys[part]
        alone = stop - start == counts[first]
        mine = np.argsort(within, kind="stable") if alone else np.lexsort((within, codes[part]))
        order[start:stop] = part[mine]
        start = stop
    return order, counts


def as_numbers(name: str, values: Any, *, ndim: int | None = 1) -> NDArray[Any]:
    """The values as a numeric array without missing ones; `ndim=None` allows one or two dimensions."""
    array = _raw(name, values)
    if array.dtype.kind == "O":
        array = _from_objects(name, array)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name}: numbers are needed, got {array.dtype}; encode names as ids from 0 first")
    if array.ndim not in ((1, 2) if ndim is None else (ndim,)):
        allowed = "one or two dimensions" if ndim is None else f"{ndim} dimension{'s' * (ndim > 1)}"
        raise InputError(f"{name}: give {allowed}, got shape {array.shape}")
    if array.size == 0:
        raise InputError(f"{name}: empty; give at least one row")
    if array.dtype.kind == "f":
        _refuse(name, np.isnan(array), "nan or missing", "drop these rows or fill them in first")
    return array


def as_ids(name: str, values: Any, n: int | None = None, *, also: int | None = None) -> IntArray:
    """Class or group ids: whole numbers from 0 to n - 1, or equal to `also`."""
    return as_narrow_ids(name, values, n, also=also).astype(np.int64, copy=False)


def as_narrow_ids(
    name: str, values: Any, n: int | None = None, *, also: int | None = None
) -> NDArray[np.signedinteger]:
    """Ids as `as_ids` gives them, in the signed type that they have: to compare and to count."""
    array = as_numbers(name, values)
    if array.dtype.kind == "f":
        _refuse(name, array != np.floor(array), "not whole numbers", "give ids, not scores")
        _refuse(name, np.abs(array) > 2**53, "beyond 2**53 or infinite", "give ids, not scores")
    ids: NDArray[np.signedinteger] = array if array.dtype.kind == "i" else array.astype(np.int64)
    # Two passes over the array are enough when all is well; the rows are only looked up when not.
    if ids.min() < 0:
        _refuse(name, (ids < 0) & (ids != also), "negative", "ids start at 0", ids)
    if n is not None and ids.max() >= n:
        _refuse(name, (ids >= n) & (ids != also), "too large", f"allowed are 0 to {n - 1}", ids)
    return ids


def as_predictions(values: Any) -> NDArray[np.signedinteger]:
    """Predicted class ids, from ids or from a row of class scores for each example (the largest wins)."""
    array = as_numbers("predictions", values, ndim=None)
    return as_narrow_ids("predictions", array) if array.ndim == 1 else np.asarray(array.argmax(axis=1))


def as_floats(name: str, values: Any, *, ndim: int = 1) -> FloatArray:
    """Finite numbers as float64."""
    array = as_numbers(name, values, ndim=ndim).astype(np.float64, copy=False)
    _refuse(name, ~np.isfinite(array), "infinite", "give finite numbers")
    return array


def as_codes(name: str, values: Any) -> tuple[tuple[Hashable, ...], IntArray]:
    """Names of any type as their sorted values and, for each row, the position of its name.

    >>> as_codes("shifts", ["snow", "fog", "snow"])
    (('fog', 'snow'), array([1, 0, 1]))
    """
    array = _raw(name, values)
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name}: give one name a row, got shape {array.shape}")
    if array.dtype.kind in "Of":
        missing = np.array([value is None or value != value for value in array.tolist()])
        _refuse(name, missing, "nan or missing", "drop these rows or name them first")
    try:
        names, codes = np.unique(array, return_inverse=True)
    except TypeError as error:  # a mixture, such as text and numbers, has no order
        raise InputError(f"{name}: names of different types; give all text or all whole numbers") from error
    return tuple(names.tolist()), codes.astype(np.int64, copy=False)


def check_lengths(**arrays: NDArray[Any]) -> None:
    """Refuse arrays that do not have one entry for each of the same rows."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise InputError(f"lengths differ: {listed}; give one entry a row, in the same order")


def one_of(name: str, given: str, known: tuple[str, ...]) -> None:
    """Refuse a choice that does not exist."""
    if given not in known:
        raise InputError(f"{name} must be {' or '.join(map(repr, known))}, got {given!r}")


def _raw(name: str, values: Any) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):  # asarray would show what is under the mask
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        return np.asarray(values)
    # Ragged lists; tensors with a gradient or on a GPU.
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name}: cannot be read as an array ({error}); "
            "give a list, an array, an Arrow column or a tensor after .detach().cpu().float()"
        ) from error


def _from_objects(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Numbers from an array of objects: of numbers and None, or one vector a row (an Arrow list)."""
    try:
        if array.size and isinstance(array.flat[0], (list, tuple, np.ndarray)):
            return np.stack([np.asarray(row, dtype=np.float64) for row in array])
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name}: not all are numbers ({error}); encode names as ids from 0 first"
        ) from error


def _refuse(
    name: str, wrong: NDArray[np.bool_], what: str, advice: str, shown: NDArray[Any] | None = None
) -> None:
    """Raise when any entry is wrong: how many, which is the first, what to do."""
    if not wrong.any():
        return
    first = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
    value = "" if shown is None else f": {shown[first]:.6g}"
    raise InputError(
        f"{name}: {int(wrong.sum()):,} of {wrong.size:,} are {what} (first in row {first}{value}); {advice}"
    )
