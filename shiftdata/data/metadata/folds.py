"""Folds and quantiles: the position of a row by stable hash of names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray, stretches
from shiftdata.data.format.records import Clause
from shiftdata.data.format.schema import SPLITS, split_of_fold

#: The fewest origins that reach every split.
FEWEST = 4
#: The most names that are Python texts at once, which take much memory.
AT_ONCE = 100_000


def strata(
    label: NDArray[np.signedinteger],
    nuisance: NDArray[np.signedinteger],
    origin: NDArray[np.integer],
    *,
    pool: Literal["label", "nuisance"] = "label",
) -> IntArray:
    """Return the stratum of each origin, from label, nuisance (-1: none) and origin of each row as numbers.

    An origin of several nuisances is in the stratum of its label; an origin of one nuisance in that of its
    label and nuisance, so that each group is cut in the same shares. Groups of fewer than `FEWEST` such
    origins are pooled within their label, or within their nuisance. An origin of several labels, such as a
    sequence of photographs, counts under its first.
    """
    size, top = int(origin.max(initial=-1)) + 1, label.max(initial=0)
    of_label = np.full(size, top, label.dtype)
    least, most = (np.full(size, end, nuisance.dtype) for end in (np.iinfo(nuisance.dtype).max, -1))
    for at in stretches(len(origin)):
        np.minimum.at(of_label, origin[at], label[at])
        np.minimum.at(least, origin[at], nuisance[at])
        np.maximum.at(most, origin[at], nuisance[at])
    of_label[least > most] = 0  # of numbers that no row has
    of_label, least, most = (values.astype(np.int64) for values in (of_label, least, most))
    alone = (least == most) & (least >= 0)
    # Those of several nuisances by label, then pooled ones, then those of one nuisance by nuisance and label.
    labels, nuisances = int(label.max(initial=0)) + 1, int(nuisance.max(initial=0)) + 1
    stratum = np.where(alone, (2 * nuisances + least) * labels + of_label, of_label * nuisances)
    few = alone & (np.bincount(stratum, minlength=1)[stratum] < FEWEST)
    pooled = labels * nuisances + (of_label * nuisances if pool == "label" else least)
    stratum = np.where(few, pooled, stratum)
    if pool == "label":  # still too few: with those of several nuisances
        few &= np.bincount(stratum, minlength=1)[stratum] < FEWEST
        stratum = np.where(few, of_label * nuisances, stratum)
    return (np.cumsum(np.bincount(stratum) > 0) - 1)[stratum]


def folds(rows: Iterable[tuple[str, str | None, str]]) -> dict[str, int]:
    """Return the fold of each origin, from (label, nuisance, origin): its percentile by hash in its stratum.

    Datasets made from the same origins under several nuisances have the same folds.

    >>> folds([("bird", None, "dove"), ("bird", None, "owl"), ("bird", None, "dove"), ("fish", None, "carp")])
    {'carp': 0, 'dove': 0, 'owl': 50}
    """
    rows = list(rows)
    if not rows:
        return {}
    (_, label), (_, nuisance), (names, origin) = (_numbered(column) for column in zip(*rows, strict=True))
    placed = folds_of_origins(
        strata(label, nuisance, origin), hashes64(names, "fold"), lambda: pa.array(names)
    )
    return dict(zip(names, placed.tolist(), strict=True))


def folds_of_origins(
    stratum: IntArray, hashes: NDArray[np.uint64], names: Callable[[], pa.Array | pa.ChunkedArray]
) -> NDArray[np.int8]:
    """Return the fold of each origin, by its stratum and `hashes64(names, "fold")`; equal ones by name."""
    order = np.lexsort((hashes, stratum))
    same = np.flatnonzero((np.diff(stratum[order]) == 0) & (np.diff(hashes[order].astype(np.int64)) == 0))
    if len(same):  # of 14 million names one time in a hundred thousand
        by_name = np.empty(len(hashes), np.int64)
        by_name[pc.sort_indices(names()).to_numpy()] = np.arange(len(hashes))
        order = np.lexsort((by_name, hashes, stratum))
    counts = np.bincount(stratum)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    fold = np.empty(len(hashes), np.int8)
    fold[order] = 100 * (np.arange(len(hashes)) - starts) // np.repeat(counts, counts)
    return fold


def _numbered(column: Sequence[str | None]) -> tuple[list[str], IntArray]:
    """Return the names of a column, sorted, and the number of each row's; -1 for None."""
    names = sorted({name for name in column if name is not None})
    number: dict[str | None, int] = {None: -1}
    number |= {name: n for n, name in enumerate(names)}
    return names, np.array([number[name] for name in column], np.int64)


def hashes64(names: Sequence[str] | pa.Array | pa.ChunkedArray, *salt: str | int) -> NDArray[np.uint64]:
    """Return `hash64(*salt, name)` of many names, in half the time.

    >>> from shiftdata.stable import hash64
    >>> hashes64(["dove"], "fold", 3).tolist() == [hash64("fold", 3, "dove")]
    True
    """
    salted = hashlib.blake2b(digest_size=8)
    for part in salt:
        encoded = str(part).encode()
        salted.update(b"%d:%s" % (len(encoded), encoded))
    kind, begun = pa.large_string(), salted.copy
    column = pa.array(names, kind) if isinstance(names, Sequence) else names
    result = np.empty(len(column), np.uint64)
    for start in range(0, len(column), AT_ONCE):
        part = column.slice(start, AT_ONCE).cast(kind)  # of all at once it would be a copy
        texts = pc.binary_join_element_wise(pc.binary_length(part).cast(kind), part, pa.scalar(":", kind))
        digests = []
        for text in texts.cast(pa.large_binary()).to_pylist():
            state = begun()
            state.update(text)
            digests.append(state.digest())
        result[start : start + AT_ONCE] = np.frombuffer(b"".join(digests), dtype=">u8")
    return result


def quantiles(cells: IntArray, hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return (position + 1/2) / size of each row in its cell, positions by stable hash of its trajectory.

    A cell is a (split, group, severity): the rows of a trajectory have one quantile, a share of a group is a
    share of its trajectories, and `quantile < s` keeps n s of n rows, rounded. `hashes` are those of
    the names of trajectories, `hashes64(names, "quantile")`.
    """
    order = np.lexsort((hashes, cells))
    _, counts = np.unique(cells, return_counts=True)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    result = np.empty(len(cells), dtype=np.float64)
    result[order] = (np.arange(len(cells)) - starts + 0.5) / np.repeat(counts, counts)
    return result


def fold_clause(first: int, end: int) -> Clause:
    """Return the conditions that keep the folds from `first` to below `end`, that on splits first.

    >>> fold_clause(80, 100), fold_clause(0, 100)
    ([('split', '==', 'test'), ('fold', '>=', 80)], [])
    """
    touched = [name for name in SPLITS if any(split_of_fold(fold) == name for fold in range(first, end))]
    clause: Clause = []
    if len(touched) == 1:
        clause.append(("split", "==", touched[0]))
    elif len(touched) < len(SPLITS):
        clause.append(("split", "in", touched))
    whole = [fold for fold in range(100) if split_of_fold(fold) in touched]
    if whole and first > whole[0]:
        clause.append(("fold", ">=", first))
    if whole and end <= whole[-1]:
        clause.append(("fold", "<", end))
    return clause
