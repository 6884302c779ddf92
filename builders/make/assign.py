"""Assign items to folds, splits and bases, and rows to their order: all by stable hash of names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from builders.recipe import Base, Recipe
from builders.sample import Item
from builders.terms import NOT_STATED, check_license
from shiftdata.data.format.names import check_names
from shiftdata.data.format.schema import KEY_PATTERN, SPLITS, split_of_fold
from shiftdata.data.metadata.folds import folds as folds_of
from shiftdata.errors import InputError
from shiftdata.stable import hash64

#: The share of each split in a base that takes a fixed number of items a group.
SHARES = {"train": 0.5, "validation": 0.2, "test": 0.3}


def check_items(recipe: Recipe, items: Sequence[Item]) -> None:
    """Refuse, before anything is rendered, an album that would make a broken dataset."""
    if not items:
        raise InputError(f"the album of {recipe.name} has no item: give it content")
    check_names("label", recipe.album.labels, f"the album of {recipe.name}")
    check_names(recipe.nuisance, recipe.shift.nuisances, f"the shift of {recipe.name}")
    for kind, texts in (
        ("attribution", {item.attribution for item in items}),
        ("origin", {item.origin for item in items}),
    ):
        check_names(kind, filter(None, texts), f"the album of {recipe.name}")
    for work in recipe.materials:
        if work.license != NOT_STATED:
            check_license(work.license, work.name)
        check_names("work", [work.name, work.attribution], f"the shift of {recipe.name}")
    known_labels, known_nuisances = set(recipe.album.labels), {None, *recipe.shift.nuisances}
    has_nuisance = any(item.nuisance is not None for item in items)
    has_content = any(base.layer == "content" for base in recipe.bases)
    _check_keys(type(recipe.album).__name__, [item.key for item in items])
    for item in items:
        if item.label not in known_labels:
            raise InputError(
                f"{item.key} has the label {item.label!r}; the album lists {_listed(recipe.album.labels)}"
            )
        if item.nuisance not in known_nuisances:
            raise InputError(
                f"{item.key} has the {recipe.nuisance} {item.nuisance!r}; "
                f"the recipe's shift lists {_listed(recipe.shift.nuisances)}"
            )
        if item.nuisance is None and has_nuisance and not has_content:
            raise InputError(
                f"{item.key} has no {recipe.nuisance}, and others have one: give it one, or the recipe a "
                'base with layer="content" for what is untouched'
            )
        if not item.attribution:
            raise InputError(f"{item.key} has no attribution: every item needs one")


def _check_keys(album: str, keys: Sequence[str]) -> None:
    for key in keys:
        if not KEY_PATTERN.fullmatch(key):
            raise InputError(f"the album gives the key {key!r}; a key is made of {KEY_PATTERN.pattern}")
    if repeated := [key for key, count in Counter(keys).items() if count > 1]:
        raise InputError(f"the album gives the key {repeated[0]!r} twice; keys must be unique")
    if list(keys) != sorted(keys):
        raise InputError(
            f"{album} gives its items in no order: return tuple(sorted(items, key=lambda i: i.key))"
        )


def folds(items: Sequence[Item]) -> dict[str, int]:
    """The fold of the origin of each item."""
    return folds_of((item.label, item.nuisance, item.origin) for item in items)


def check_splits(recipe: Recipe, fold_of: Mapping[str, int]) -> None:
    """Refuse, before anything is rendered, an album too small to have every split."""
    present = {split_of_fold(fold) for fold in fold_of.values()}
    lacking = [split for split in SPLITS if split not in present]
    if lacking:
        raise InputError(
            f"the album of {recipe.name} has {len(fold_of)} origins, and none of them falls into "
            f"{', '.join(lacking)}: some label needs at least 4"
        )


def candidates(items: Sequence[Item], base: Base) -> tuple[Sequence[Item], bool]:
    """The items that may be in a base, and whether they are its list by the album.

    Where the album gives untouched items and shifted ones, a base takes those of its layer.
    """
    if any(item.nuisance is not None for item in items):
        items = [item for item in items if (item.nuisance is None) == (base.layer == "content")]
    listed = [item for item in items if base.listed and base.name in item.bases]
    is_list = bool(listed) or (base.listed and base.per_group is None)
    return (listed, True) if is_list else (items, False)


def pick(items: Sequence[Item], fold_of: Mapping[str, int], base: Base) -> tuple[Item, ...]:
    """The items of a base, the same few first: a smaller base is always part of a larger one.

    Within a group and split, one item of each origin is taken before a second of any. Where the album gives
    no nuisance, all items of a label will be in each of its groups.
    """
    items, is_list = candidates(items, base)
    if is_list or base.per_group is None:
        return tuple(items)
    groups: dict[tuple[str, str | None, float | None], dict[str, list[Item]]] = {}
    for item in items:  # at each severity the same origins, so that trajectories stay whole
        group_of = (item.label, item.nuisance, item.severity)
        cells = groups.setdefault(group_of, {split: [] for split in SPLITS})
        cells[split_of_fold(fold_of[item.origin])].append(item)
    picked: set[str] = set()
    for (label, nuisance, _), cells in groups.items():
        for split, quota in quotas(base.per_group).items():
            if len(cells[split]) < quota and not base.listed:
                group = " in ".join(filter(None, (label, nuisance)))
                raise InputError(
                    f"the base {base.name!r} takes {base.per_group} items a group, {quota} for {split}; "
                    f"the album has {len(cells[split])} of {group} there: lower per_group or add some"
                )
            picked |= {item.key for item in _one_of_each_origin_first(cells[split])[:quota]}
    return tuple(item for item in items if item.key in picked)


def quotas(per_group: int) -> dict[str, int]:
    """Return the number of a group's items for each split.

    >>> quotas(40)
    {'train': 20, 'validation': 8, 'test': 12}
    """
    counts = {split: int(per_group * share + 0.5) for split, share in SHARES.items()}
    counts["train"] = per_group - counts["validation"] - counts["test"]
    return counts


def _one_of_each_origin_first(cell: Sequence[Item]) -> list[Item]:
    by_origin: dict[str, list[Item]] = defaultdict(list)
    for item in sorted(cell, key=lambda item: hash64("pick", item.key)):
        by_origin[item.origin].append(item)
    turns = [
        (turn, hash64("pick", origin), item)
        for origin, mine in by_origin.items()
        for turn, item in enumerate(mine)
    ]
    return [item for _, _, item in sorted(turns, key=lambda turn: turn[:2])]


def _listed(names: Sequence[str]) -> str:
    """Names in an error, not more than can be read."""
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
