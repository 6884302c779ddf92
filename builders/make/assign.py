"""Assign items to folds, splits and bases, and rows to their order: all by stable hash of names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders.items import ItemTable
from builders.recipe import Base, Recipe
from builders.sample import Item
from builders.terms import NOT_STATED, check_license
from shiftdata.data.arrays import BoolArray, IntArray
from shiftdata.data.format.names import check_names
from shiftdata.data.format.schema import KEY_PATTERN, SPLITS, split_of_fold
from shiftdata.data.metadata.folds import folds_of_origins, hashes64, strata
from shiftdata.errors import InputError

#: The number of the split of each fold.
SPLIT_OF_FOLD = np.array([list(SPLITS).index(split_of_fold(fold)) for fold in range(100)], np.int64)
#: The fold of each item.
Folds: TypeAlias = NDArray[np.int8]

#: The share of each split in a base that takes a fixed number of items a group.
SHARES = {"train": 0.5, "validation": 0.2, "test": 0.3}


def check_items(recipe: Recipe, items: ItemTable) -> None:
    """Refuse, before anything is rendered, an album that would make a broken dataset."""
    if not len(items):
        raise InputError(f"the album of {recipe.name} has no item: give it content")
    album = f"the album of {recipe.name}"
    check_names("label", recipe.album.labels, album)
    check_names(recipe.nuisance, recipe.shift.nuisances, f"the shift of {recipe.name}")
    check_names("attribution", filter(None, items.names("attribution")), album)
    check_names("origin", filter(None, _distinct(items.columns["origin"])), album)
    for work in recipe.materials:
        if work.license != NOT_STATED:
            check_license(work.license, work.name)
        check_names("work", [work.name, work.attribution], f"the shift of {recipe.name}")
    _check_keys(items)
    labels, nuisances = recipe.album.labels, recipe.shift.nuisances
    if (item := _first(items, items.codes("label", labels) < 0)) is not None:
        raise InputError(f"{item.key} has the label {item.label!r}; the album lists {_listed(labels)}")
    given, untouched = items.codes("nuisance"), items.codes("nuisance") < 0
    if (item := _first(items, ~untouched & (items.codes("nuisance", nuisances) < 0))) is not None:
        raise InputError(
            f"{item.key} has the {recipe.nuisance} {item.nuisance!r}; "
            f"the recipe's shift lists {_listed(nuisances)}"
        )
    has_content = any(base.layer == "content" for base in recipe.bases)
    if (given >= 0).any() and not has_content and (item := _first(items, untouched)) is not None:
        raise InputError(
            f"{item.key} has no {recipe.nuisance}, and others have one: give it one, or the recipe a "
            'base with layer="content" for what is untouched'
        )
    if "" in items.names("attribution"):
        item = _first(items, items.codes("attribution", [""]) == 0)
        raise InputError(f"{item.key if item else ''} has no attribution: every item needs one")


def _distinct(column: pa.ChunkedArray) -> Iterator[str]:
    """The texts of a column, a chunk at a time: those of a chunk once each."""
    for chunk in column.chunks:
        yield from pc.unique(chunk).to_pylist()


def _first(items: ItemTable, mask: BoolArray) -> Item | None:
    """The first item of a mask, if it has any."""
    rows = np.flatnonzero(mask)
    return items[int(rows[0])] if len(rows) else None


def _check_keys(items: ItemTable) -> None:
    keys = items.columns["key"]
    valid = pc.match_substring_regex(keys, f"^(?:{KEY_PATTERN.pattern})$")
    if not pc.all(valid).as_py():
        key = keys.filter(pc.invert(valid))[0]
        raise InputError(f"the album gives the key {key.as_py()!r}; a key is made of {KEY_PATTERN.pattern}")
    same = pc.equal(keys.slice(1), keys.slice(0, len(keys) - 1))  # they are sorted
    if pc.any(same).as_py():
        key = keys.slice(1).filter(same)[0]
        raise InputError(f"the album gives the key {key.as_py()!r} twice; keys must be unique")


def folds(items: ItemTable) -> Folds:
    """The fold of the origin of each item."""
    numbers, rows = items.origins
    label, nuisance = (
        items.codes("label", items.names("label")),
        items.codes("nuisance", items.names("nuisance")),
    )
    stratum = strata(label.astype(np.int64), nuisance.astype(np.int64), numbers)
    origins = items.columns["origin"]
    hashes = hashes64(origins, "fold")[rows]
    return folds_of_origins(stratum, hashes, lambda: origins.take(pa.array(rows)))[numbers]


def check_splits(recipe: Recipe, items: ItemTable, fold_of: Folds) -> None:
    """Refuse, before anything is rendered, an album too small to have every split."""
    present = {split_of_fold(fold) for fold in np.unique(fold_of).tolist()}
    lacking = [split for split in SPLITS if split not in present]
    if lacking:
        raise InputError(
            f"the album of {recipe.name} has {len(items.origins[1])} origins, and none of them falls into "
            f"{', '.join(lacking)}: some label needs at least 4"
        )


def candidates(items: ItemTable, base: Base) -> tuple[IntArray, bool]:
    """The rows of items that may be in a base, and whether they are its list by the album.

    Where the album gives untouched items and shifted ones, a base takes those of its layer.
    """
    allowed = np.ones(len(items), bool)
    untouched = items.codes("nuisance") < 0
    if not untouched.all():
        allowed = untouched == (base.layer == "content")
    listed = np.zeros(len(items), bool)
    if base.listed:
        of_base = [names for names in items.names("bases") if base.name in names.split(" ")]
        listed = allowed & (items.codes("bases", of_base) >= 0)
    is_list = bool(listed.any()) or (base.listed and base.per_group is None)
    return np.flatnonzero(listed if is_list else allowed), is_list


def pick(items: ItemTable, fold_of: Folds, base: Base) -> IntArray:
    """The rows of the items of a base, the same few first: a smaller base is always part of a larger one.

    Within a group and split, one item of each origin is taken before a second of any. Where the album gives
    no nuisance, all items of a label will be in each of its groups.
    """
    rows, is_list = candidates(items, base)
    if is_list or base.per_group is None or not len(rows):
        return rows
    # At each severity the same origins, so that trajectories stay whole.
    chosen = items.take(rows)
    severity = np.unique(chosen.severity, return_inverse=True)[1]
    label, nuisance = (chosen.codes(name).astype(np.int64) for name in ("label", "nuisance"))
    cells = (label * (int(nuisance.max()) + 2) + nuisance + 1) * (int(severity.max()) + 1) + severity
    group = np.unique(cells, return_inverse=True)[1]
    split = SPLIT_OF_FOLD[fold_of[rows]]
    cell = group * len(SPLITS) + split
    quota = np.array([quotas(base.per_group)[name] for name in SPLITS])
    counts = np.bincount(cell, minlength=len(SPLITS) * (int(group.max()) + 1))
    short: BoolArray = counts.reshape(-1, len(SPLITS)) < quota
    if short.any() and not base.listed:
        raise _too_few(chosen, base, group, split, short)
    order = _one_of_each_origin_first(chosen, cell)
    place = np.arange(len(order)) - np.searchsorted(cell[order], cell[order])
    return np.sort(rows[order[place < quota[split[order]]]])


def _too_few(items: ItemTable, base: Base, group: IntArray, split: IntArray, short: BoolArray) -> InputError:
    """Make the error for the first group that has fewer items than a base takes."""
    row = int(np.flatnonzero(np.any(short, axis=1)[group])[0])
    at = int(np.flatnonzero(short[group[row]])[0])
    item, name = items[row], list(SPLITS)[at]
    assert base.per_group is not None
    count = int(((group == group[row]) & (split == at)).sum())
    named = " in ".join(filter(None, (item.label, item.nuisance)))
    return InputError(
        f"the base {base.name!r} takes {base.per_group} items a group, {quotas(base.per_group)[name]} for "
        f"{name}; the album has {count} of {named} there: lower per_group or add some"
    )


def _one_of_each_origin_first(items: ItemTable, cell: IntArray) -> IntArray:
    """The order of items within their cells: by their turn among those of their origin, and by hash."""
    origin = items.origins[0]
    of_key, of_origin = hashes64(items.columns["key"], "pick"), hashes64(items.columns["origin"], "pick")
    order = np.lexsort((of_key, origin, cell))
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(cell[order]) != 0) | (np.diff(origin[order]) != 0)
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    by_turn: IntArray = np.lexsort((of_key, of_origin, turn, cell))
    return by_turn


def quotas(per_group: int) -> dict[str, int]:
    """Return the number of a group's items for each split.

    >>> quotas(40)
    {'train': 20, 'validation': 8, 'test': 12}
    """
    counts = {split: int(per_group * share + 0.5) for split, share in SHARES.items()}
    counts["train"] = per_group - counts["validation"] - counts["test"]
    return counts


def _listed(names: Sequence[str]) -> str:
    """Names in an error, not more than can be read."""
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
