"""`dom_emoji` at 32 pixels, by its own recipe: vendors as domains, concepts never on two sides of a task."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from builders.albums.emoji import VENDORS
from builders.make.build import build
from builders.make.check import check
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest

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
