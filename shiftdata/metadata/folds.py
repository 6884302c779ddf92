"""Folds and quantiles: where a row stands, by stable hash of names. Loading and building share them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shiftdata.format.manifest import Clause
from shiftdata.format.schema import SPLITS, split_of_fold
from shiftdata.stable import ranks

#: As few origins as fall into every split.
FEWEST = 4


def folds(rows: Iterable[tuple[str, str | None, str]]) -> dict[str, int]:
    """The fold of each origin, from (label, nuisance, origin): its percentile by stable hash in its label.

    Where nuisances are given and no origin has several, within its label and nuisance: each group is then cut
    in the same shares, and a label's groups too small to be in every split are cut together. Datasets
    made from the same origins have the same folds.

    >>> folds([("bird", None, "dove"), ("bird", None, "owl"), ("bird", None, "dove"), ("fish", None, "carp")])
    {'dove': 0, 'owl': 50, 'carp': 0}
    """
    known = list(rows)
    nuisances_of: dict[str, set[str | None]] = defaultdict(set)
    for _, nuisance, origin in known:
        nuisances_of[origin].add(nuisance)
    shared = any(len(several) > 1 for several in nuisances_of.values())
    strata: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for label, nuisance, origin in known:
        strata[label, None if shared else nuisance].add(origin)
    pooled: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for (label, nuisance), names in strata.items():
        pooled[label, nuisance if len(names) >= FEWEST else None] |= names
    fold_of: dict[str, int] = {}
    for names in pooled.values():
        ordered = sorted(names)
        positions = ranks(ordered, "fold")
        for name, position in zip(ordered, positions.tolist(), strict=True):
            fold_of[name] = 100 * position // len(ordered)
    return fold_of


def hashes64(names: Sequence[str], *salt: str | int) -> NDArray[np.uint64]:
    """`hash64(*salt, name)` of many names, in half the time.

    >>> from shiftdata.stable import hash64
    >>> hashes64(["dove"], "fold", 3).tolist() == [hash64("fold", 3, "dove")]
    True
    """
    salted = hashlib.blake2b(digest_size=8)
    for one in salt:
        encoded = str(one).encode()
        salted.update(b"%d:%s" % (len(encoded), encoded))
    digests = []
    for name in names:
        encoded = name.encode()
        state = salted.copy()
        state.update(b"%d:%s" % (len(encoded), encoded))
        digests.append(state.digest())
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def quantiles(cells: NDArray[np.int64], trajectories: Sequence[str]) -> NDArray[np.float64]:
    """The position of each row in its cell by stable hash of its trajectory, divided by the cell's size.

    A cell is a (split, group, severity): the rows of a trajectory have one quantile, and a share of a group
    is a share of its trajectories.
    """
    hashes = hashes64(trajectories, "quantile")
    order = np.lexsort((hashes, cells))
    _, counts = np.unique(cells, return_counts=True)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    result = np.empty(len(cells), dtype=np.float64)
    result[order] = (np.arange(len(cells)) - starts) / np.repeat(counts, counts)
    return result


def cut(shares: Mapping[str, int], seed: int = 0) -> dict[str, Clause]:
    """Cut the 100 folds into named parts, each a clause of a filter: no origin is ever in two of them.

    Seed 0 takes the folds in order; another seed takes them in an order of its own.

    >>> cut({"train": 80, "validation": 20})["validation"]
    [('split', '==', 'test'), ('fold', '>=', 80)]
    """
    order = np.arange(100) if seed == 0 else ranks([str(fold) for fold in range(100)], "cut", seed).argsort()
    parts, start = {}, 0
    for name, share in shares.items():
        parts[name] = fold_clause(order[start : start + share].tolist())
        start += share
    return parts


def fold_clause(wanted: Sequence[int]) -> Clause:
    """The conditions that keep these folds, the splits that they touch first."""
    ordered = sorted(wanted)
    splits = {split_of_fold(fold) for fold in ordered}
    touched = [name for name in SPLITS if name in splits]
    clause: Clause = []
    if len(touched) == 1:
        clause.append(("split", "==", touched[0]))
    elif len(touched) < len(SPLITS):
        clause.append(("split", "in", touched))
    whole = [fold for fold in range(100) if split_of_fold(fold) in touched]
    if ordered == whole:
        return clause
    first, last = ordered[0], ordered[-1]
    if ordered != list(range(first, last + 1)):
        return [*clause, ("fold", "in", ordered)]
    if first > whole[0]:
        clause.append(("fold", ">=", first))
    if last < whole[-1]:
        clause.append(("fold", "<", last + 1))
    return clause
