"""Cut a dataset's origins into parts: no origin is in two of them, unless a protocol says so.

A part is an interval of folds. Seed 0 takes the folds as they are, so that each part is a filter; every other
seed ranks the origins of each stratum again, and ends each part as near as possible to where seed 0 ends it:
a seed changes which rows, not how many. The cuts of released codes, at the end, shuffle all files of a domain
in an order that the files give.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.arrays import by_code_and_key, counted, looked_up, stretches
from shiftdata.data.metadata import Metadata
from shiftdata.data.metadata.folds import fold_clause, hashes64
from shiftdata.evaluation.tasks.sets import Indices, Part

#: Of each part, the first fold and the one after the last: per cent of the origins.
Shares: TypeAlias = Mapping[str, tuple[int, int]]
#: The share of a domain that DomainBed sets aside (out), and the share that DomainBed-v2 trains on.
OUT, TRAIN = 0.2, 0.8


def cut(
    metadata: Metadata,
    recurring: Shares,
    single: Shares | None = None,
    *,
    seed: int = 0,
    recurs: NDArray[np.bool_] | None = None,
) -> dict[str, Part]:
    """Cut the origins: those that recur under several nuisances by one rule, the others by another.

    Both name the same parts; without `single`, one rule is for all. `recurs` are the rows of the former.
    """
    single = single or recurring
    if recurs is None:  # to tell origins apart, the names of all are read: only where the rules differ
        recurs = np.ones(len(metadata), bool) if single == recurring else metadata.recurs
    if recurs.all():
        single = recurring
    elif not recurs.any():
        recurring = single
    ends = sorted({end for shares in (recurring, single) for interval in shares.values() for end in interval})
    stretch = _stretches(metadata, ends, seed)
    parts = {}
    for name, (first, end) in recurring.items():
        rows = _between(stretch, ends, first, end)
        if single[name] != (first, end):
            rows = np.where(recurs, rows, _between(stretch, ends, *single[name]))
            reason = "only some origins recur under several nuisances, and only these are cut apart"
            parts[name] = Part(rows, None, reason)
        elif seed and (first, end) != (0, 100):
            parts[name] = Part(rows, None, f"seed {seed} ranks the origins anew; seed 0 is a filter")
        else:
            parts[name] = Part(rows, fold_clause(first, end))
    return parts


def _between(stretch: NDArray[np.int8], ends: list[int], first: int, end: int) -> NDArray[np.bool_]:
    """Mark the rows whose origin lies from one end to below another."""
    inside: NDArray[np.bool_] = (stretch > ends.index(first)) & (stretch <= ends.index(end))
    return inside


def _stretches(metadata: Metadata, ends: list[int], seed: int) -> NDArray[np.int8]:
    """Return for each row the number of ends at or before its origin."""
    every, fold = np.arange(256).astype(np.uint8), metadata.columns["fold"].view(np.uint8)
    passed = np.searchsorted(ends, every.view(np.int8), side="right").astype(np.int8)
    if not seed:
        return looked_up(passed, fold)
    origin, stratum = metadata.origin, metadata.strata
    strata, wide = 1 + int(stratum.max()), 1 + len(ends)
    order = by_code_and_key(stratum, hashes64(metadata.origin_names, "fold", seed), strata)[0]
    # Rows are counted by stratum and number of ends at once.
    begin = (stratum * wide).astype(np.min_scalar_type(strata * wide))
    cell = looked_up(begin, origin)
    for at in stretches(len(cell)):
        cell[at] += passed[fold[at]].astype(cell.dtype)
    counts = counted(cell, strata * wide).reshape(strata, wide)
    below = np.cumsum(counts[:, :-1], axis=1).T
    sizes = counted(origin, len(stratum))
    return looked_up(_apart(order, stratum, sizes, below, np.ones(len(ends), bool)), origin)


def cut_within(
    metadata: Metadata, indices: Indices, shares: Shares, *, seed: int, salt: str, may_lack: str = ""
) -> dict[str, Indices]:
    """Cut some rows, each part with its per cent of each stratum: origins, in the order of their hashes.

    `may_lack` is a part that need not have an origin of each stratum.
    """
    origin, ends = metadata.origin[indices], sorted({end for share in shares.values() for end in share})
    sizes = np.bincount(origin, minlength=metadata.n_origins)
    present = np.flatnonzero(sizes)
    stratum = np.unique(metadata.strata[present], return_inverse=True)[1]
    order = np.lexsort((hashes64(metadata.origin_names.take(pa.array(present)), salt, seed), stratum))
    of_stratum = np.bincount(stratum, sizes[present])
    below = np.array([end * of_stratum / 100 for end in ends])
    needs = np.array([may_lack not in shares or end != shares[may_lack][1] for end in ends])
    stretch = np.zeros(len(sizes), np.int8)
    stretch[present] = _apart(order, stratum, sizes[present], below, needs)
    return {name: indices[_between(stretch[origin], ends, *share)] for name, share in shares.items()}


def _apart(
    order: NDArray[np.int64],
    stratum: NDArray[np.int64],
    sizes: NDArray[np.int64],
    below: NDArray[Any],
    needs: NDArray[np.bool_],
) -> NDArray[np.int8]:
    """Return for each origin the number of ends at or before it; `below` are the rows before each end.

    `order` has the origins of one stratum after those of another, `sizes` are their rows; `needs` are the
    parts before each end that need an origin.
    """
    result = np.empty(len(stratum), np.int8)
    over = np.zeros(len(below))
    starts = np.cumsum(np.bincount(stratum))[:-1]
    for origins, wanted in zip(np.split(order, starts), below.T, strict=True):
        # An end lies between two origins, as near as possible to where it is wanted, counted in rows; the
        # surplus of one stratum is taken from the next.
        after = np.cumsum(sizes[origins])
        places = np.maximum.accumulate(wanted - over)
        before = np.searchsorted(after - sizes[origins] / 2, places, side="right")
        needed = needs & (np.diff(wanted, prepend=0) > 0)
        before = _none_empty(before, needed & (needed.sum() <= len(origins)), len(origins))
        over += np.append(0, after)[before] - wanted
        result[origins] = np.searchsorted(before, np.arange(len(origins)), side="right")
    return result


def _none_empty(before: NDArray[np.int64], needed: NDArray[np.bool_], origins: int) -> NDArray[np.int64]:
    """Move ends between origins as little as needed, so that no part that needs an origin is empty.

    >>> _none_empty(np.array([0, 2, 2, 2]), np.array([False, True, True, False]), 2).tolist()
    [0, 1, 2, 2]
    """
    steps = np.cumsum(needed)
    later = np.maximum.accumulate(before - steps) + steps
    room = origins - (steps[-1] - steps)  # what the parts after an end need
    moved: NDArray[np.int64] = np.minimum(later, room)
    return moved


def shuffled_cut(metadata: Metadata, seed: int) -> NDArray[np.bool_]:
    """Mark the rows in DomainBed's in splits; the others are in the out splits.

    Its environments are the sorted domains, the files of one are in ImageFolder's order: sorted classes, in
    each the sorted names.
    """
    import pyarrow.compute as pc

    names = pa.array(metadata.labels).take(pa.array(metadata.label))
    order = pc.sort_indices(
        pa.table({"label": names, "file": metadata.listing.files}),
        [("label", "ascending"), ("file", "ascending")],
    ).to_numpy()
    inside = np.ones(len(metadata), bool)
    for number, domain in enumerate(sorted(metadata.nuisances)):
        files = order[metadata.nuisance[order] == metadata.nuisances.index(domain)]
        shuffled = _shuffled(len(files), seed_of(seed, number))
        inside[files[shuffled[: int(len(files) * OUT)]]] = False
    return inside


def listed_cut(metadata: Metadata, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark the rows that DomainBed-v2 would train on if no domain were tested, and all rows of its lists."""
    places = metadata.listing.places_in("", metadata.name)
    trains = np.zeros(len(metadata), bool)
    for number in range(len(metadata.nuisances)):
        files = np.flatnonzero((metadata.nuisance == number) & (places >= 0))
        files = files[np.argsort(places[files])]
        trains[files[_shuffled(len(files), seed)[: int(len(files) * TRAIN)]]] = True
    return trains, places >= 0


def seed_of(*parts: int) -> int:
    """Return the seed that DomainBed makes of some numbers.

    >>> seed_of(0, 1)
    1514274641
    """
    digest = hashlib.md5(str(parts).encode(), usedforsecurity=False).hexdigest()
    return int(digest, 16) % 2**31


def _shuffled(count: int, seed: int) -> NDArray[np.int64]:
    order = np.arange(count)
    np.random.RandomState(seed).shuffle(order)
    return order
