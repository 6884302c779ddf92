"""The recipe of `sma_emoji` by the same code, smaller: 8 classes, one vendor, 48 pixels, 10 pictures each."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

import datasets
import pytest

from builders.albums.emoji import EmojiAlbum
from builders.make.build import build
from builders.make.check import check
from shiftdata.data.format.manifest import Manifest
from tests.builders.few_emoji import few_classes

SMALL = """
    from dataclasses import replace
    from pathlib import Path

    from builders.albums.emoji import EmojiAlbum
    from builders.recipe import Base
    from builders.recipe_files import load_recipe
    from builders.shifts.steps import OnGround

    GROUND = OnGround(size=48)
    LARGE = load_recipe("sma_emoji")
    # Of 8 classes, and of each protocol: fairness, adaptation.
    FEW = [one for one in LARGE.protocols[:12] if one.k <= 8 and one.mu == 0.1] + [LARGE.protocols[12]]
    RECIPE = replace(
        LARGE,
        protocols=tuple(FEW),
        on_empty="report",
        name="small",
        album=EmojiAlbum(vendors=("noto",), assets=Path(__file__).parent / "emoji", size=GROUND.inner),
        prepare=(GROUND,),
        bases=(
            Base(name="content", summary="Untouched.", layer="content"),
            Base(name="mini", summary="10 a class.", per_group=10),
        ),
    )
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("small") / "small.py"
    few_classes(path.parent / "emoji", EmojiAlbum().labels[:8])
    path.write_text(textwrap.dedent(SMALL))
    return path


@pytest.fixture(scope="module")
def small(recipe) -> Path:
    return build(str(recipe), recipe.parent, workers=2, quiet=True)


@pytest.mark.slow
def test_it_holds_every_class_in_every_style_and_nothing_is_wrong(small):
    manifest = Manifest.read(small)
    assert (len(manifest.labels), len(manifest.nuisances)) == (8, 20)
    rows = {split: record.rows for split, record in manifest.base("mini").splits.items()}
    assert rows == {"train": 800, "validation": 320, "test": 480}
    assert manifest.license == "Apache-2.0"
    assert not any(base.dropped for base in manifest.bases)
    assert check(small) == []


@pytest.mark.slow
def test_the_canonical_splits_are_whole_and_balanced_where_they_must_be(small, monkeypatch):
    monkeypatch.chdir(small.parent.parent)
    for k in (2, 4, 8):
        data = datasets.load_dataset("shift/small", f"gf_k{k}_mu10")
        groups = {split: Counter(rows["group"]) for split, rows in data.items()}
        assert all(len(counts) == k * k for counts in groups.values())
        assert set(groups["validation"].values()) == {2}
        assert set(groups["test"].values()) == {3}
        assert sum(count > 1 for count in groups["train"].values()) == k
