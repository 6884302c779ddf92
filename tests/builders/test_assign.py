from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.items import ItemTable
from builders.make import assign
from builders.recipe import Base
from builders.recipe_files import load_recipe
from builders.sample import Item
from shiftdata.data.format.schema import split_of_fold
from shiftdata.data.metadata.folds import hashes64, quantiles
from shiftdata.errors import InputError


def items(origins: int, per_origin: int = 1, label: str = "a") -> list[Item]:
    return [
        Item(key=f"{label}{o}_{n}", label=label, origin=f"{label}/{o}", license="MIT", attribution="x")
        for o in range(origins)
        for n in range(per_origin)
    ]


def folds(of: list[Item]) -> dict[str, int]:
    """The fold of each origin."""
    table = ItemTable.of(of)
    return dict(zip(table.columns["origin"].to_pylist(), assign.folds(table).tolist(), strict=True))


def pick(of: list[Item], base: Base) -> ItemTable:
    table = ItemTable.of(of)
    return table.take(assign.pick(table, assign.folds(table), base))


@given(st.integers(1, 300), st.randoms())
def test_folds_are_percentiles_of_origins_whatever_the_order(count, random):
    some = items(count, per_origin=2)
    fold_of = folds(some)
    assert sorted(fold_of.values()) == [100 * rank // count for rank in range(count)]
    assert fold_of == folds(random.sample(some, len(some)))


def test_content_that_comes_with_its_nuisance_is_cut_alike_in_every_group():
    some = [
        replace(item, key=f"{item.key}-{place}", origin=f"{item.origin}/{place}", nuisance=place)
        for place in ("here", "there")
        for item in items(10)
    ]
    fold_of = folds(some)
    for place in ("here", "there"):
        mine = [fold_of[item.origin] for item in some if item.nuisance == place]
        assert sorted(mine) == [10 * rank for rank in range(10)]


def test_where_one_origin_has_several_nuisances_it_has_one_fold():
    some = [replace(item, key=f"{item.key}-{p}", nuisance=p) for p in ("here", "there") for item in items(10)]
    some.append(replace(items(11)[10], nuisance="here"))
    assert sorted(folds(some).values()) == [100 * rank // 11 for rank in range(11)]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=200), st.decimals(0, 1, places=3))
def test_a_quantile_keeps_the_rounded_share(cells, share):
    keys = [f"k{number}" for number in range(len(cells))]
    quantile = quantiles(np.array(cells), hashes64(keys, "quantile"))
    kept = Counter(cell for cell, q in zip(cells, quantile, strict=True) if q < float(share))
    for cell, size in Counter(cells).items():
        assert abs(kept[cell] - Fraction(share) * size) <= Fraction(1, 2)
        assert kept[cell] == math.ceil(Fraction(share) * size - Fraction(1, 2))


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.randoms())
def test_quantiles_do_not_depend_on_row_order(cells, random):
    rows = [(cell, f"k{number}") for number, cell in enumerate(cells)]
    shuffled = random.sample(rows, len(rows))

    def by_key(some):
        cell, key = zip(*some, strict=True)
        return dict(zip(key, quantiles(np.array(cell), hashes64(list(key), "quantile")), strict=True))

    assert by_key(rows) == by_key(shuffled)


@pytest.mark.parametrize("per_group", [10, 20, 40])
def test_a_base_takes_the_same_number_of_each_split_and_as_many_origins_as_it_can(per_group):
    some = items(20, per_origin=4)
    fold_of = folds(some)
    picked = pick(some, Base(name="b", summary="", per_group=per_group))
    splits = Counter(split_of_fold(fold_of[item.origin]) for item in picked)
    assert splits == assign.quotas(per_group)
    origins = {item.origin for item in picked if split_of_fold(fold_of[item.origin]) == "train"}
    assert len(origins) == min(10, splits["train"])


def test_a_smaller_base_is_part_of_a_larger_one():
    some = items(20, per_origin=4) + items(30, per_origin=3, label="b")
    sizes = (10, 20, 40, None)
    bases = [Base(name="b", summary="", per_group=size) for size in sizes]
    picks = [{item.key for item in pick(some, base)} for base in bases]
    assert all(small < large for small, large in pairwise(picks))


def test_too_few_pictures_for_a_base_is_said_with_numbers():
    some = items(10)
    with pytest.raises(InputError, match=r"takes 40 items a group, 20 for train; the album has 5 of a there"):
        pick(some, Base(name="mini", summary="", per_group=40))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": "Upper.Case"}, "gives the key 'Upper.Case'"),
        ({"key": "disc_disc01"}, "gives the key 'disc_disc01' twice"),
        ({"label": "star"}, "has the label 'star'; the album lists"),
        ({"nuisance": "cartoon"}, "has the style 'cartoon'; the recipe's shift lists"),
    ],
)
def test_an_album_that_would_make_a_broken_dataset_is_refused(recipe, change, message):
    loaded = load_recipe(str(recipe))
    some = list(loaded.album.items())
    some[0] = replace(some[0], **change)
    with pytest.raises(InputError, match=message):
        assign.check_items(loaded, ItemTable.of(some))


def test_an_origin_under_two_labels_has_one_fold_whatever_the_order():
    """Such as a sequence of photographs, some of them of a second animal."""
    some = items(10)
    some[9] = replace(some[9], label="b", origin=some[0].origin)
    fold_of = folds(some)
    assert sorted(fold_of.values()) == [100 * rank // 9 for rank in range(9)], "it stands among those of a"
    assert fold_of == folds(some[::-1])
