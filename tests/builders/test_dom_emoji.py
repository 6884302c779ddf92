"""`dom_emoji` at 32 pixels, by its own recipe: vendors as domains, concepts never on two sides of a task."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from builders.albums.emoji import VENDORS
from builders.make.build import build
from builders.make.check import check
from builders.make.render import render_item
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError

SMALL = """
    from dataclasses import replace

    from builders.albums.emoji import EmojiAlbum
    from builders.recipe_files import load_recipe
    from builders.shifts.steps import OnGround

    GROUND = OnGround(size=32)
    RECIPE = replace(
        load_recipe("dom_emoji"), album=EmojiAlbum(size=GROUND.inner, domains=True), prepare=(GROUND,)
    )
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("small") / "small.py"
    path.write_text(textwrap.dedent(SMALL))
    return path


@pytest.fixture(scope="module")
def small(recipe) -> Path:
    return build(str(recipe), recipe.parent, workers=1, quiet=True)


@pytest.mark.slow
def test_it_holds_every_concept_by_every_vendor_and_nothing_is_wrong(recipe, small):
    manifest = Manifest.read(small)
    assert manifest.nuisances == list(VENDORS)
    assert manifest.origins_shared
    assert {split.groups for split in manifest.base("all").splits.values()} == {80}
    assert check(small, load_recipe(str(recipe))) == []  # the counts that the recipe expects, too


@pytest.mark.slow
def test_all_drawings_of_a_concept_and_its_look_alikes_are_in_one_split(small):
    splits, vendors = defaultdict(set), defaultdict(set)
    for split in ("train", "validation", "test"):
        for row in pq.read_table(small / f"metadata/all/{split}.parquet").to_pylist():
            splits[row["origin"]].add(split)
            vendors[row["origin"]].add(row["domain"])
    assert {len(found) for found in splits.values()} == {1}
    assert {len(found) for found in vendors.values()} == {4}


@pytest.mark.slow
def test_the_domains_of_a_paper_are_not_its_own(small):
    with pytest.raises(InputError, match=r"classic-dg is for NICO\+\+.*has fluent-3d, fluent-flat"):
        sd.task(small, "classic-dg")


def test_vendors_draw_on_one_ground_and_each_differently(recipe):
    made = load_recipe(str(recipe))
    drawn = [item for item in made.album.items() if item.source["concept"] == "pizza"]
    pictures = {s.nuisance: np.asarray(s.image) for i in drawn for s in render_item(made, "shift", i)}
    assert list(pictures) == list(VENDORS)
    assert {tuple(picture[0, 0]) for picture in pictures.values()} == {(244, 241, 234)}
    assert len({picture.tobytes() for picture in pictures.values()}) == 4
