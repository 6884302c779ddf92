"""`dom_emoji` at 32 pixels, by its own recipe: vendors as domains, concepts never on two sides of a task."""

from __future__ import annotations

import json
import textwrap
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from builders.albums.emoji import VENDORS, EmojiAlbum
from builders.make import assign
from builders.make.build import build
from builders.make.check import check
from builders.make.render import render_item
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import LeakWarning
from tests.contracts.readers import READERS, pyarrow
from tests.evaluation.protocols.made import origins

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

TASKS = {
    "leave-one-domain-out": {"test": "noto"},
    "domainbed": {"test": "noto"},
    "domainbed-v2": {"test": ("noto", "twemoji")},
    "leave-one-group-out": {"groups": (VENDORS[:2], VENDORS[2:]), "group": 1},
    "flexible-dg": {"dominant": 1, "minor": 1, "test": 2, "per_domain": 5},
    "oracle": {"test": ("noto", "twemoji")},
    "uda": {"source": "noto", "target": "twemoji"},
    "group-fairness": {"k": 4, "mu": 0.1},
    "label-shift": {"alpha": 3, "source": "noto", "target": VENDORS[:2], "replacement": True},
}


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
@pytest.mark.parametrize("reader", ["datasets_prepared", "mlcroissant"])
def test_clients_read_every_row(small, reader):
    manifest = Manifest.read(small)
    assert READERS[reader](small, manifest, "all") == pyarrow(small, manifest, "all")


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
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("seed", [0, 7])
def test_no_task_has_a_concept_on_two_sides(small, name, seed):
    task = sd.task(small, name, on_empty="report", seed=seed, **TASKS[name])
    assert task.report().leaks == 0
    seen: dict[str, str] = {}
    for one in task.sets:
        assert len(task.sets[one]) > 0
        side = task.sets[one].side or one
        for origin in origins(task, one):
            assert seen.setdefault(origin, side) == side


@pytest.mark.slow
def test_held_out_vendors_are_never_trained_on(small):
    task = sd.task(small, "domainbed-v2", test=("noto", "twemoji"))
    tested = set(task.table("test")["domain"].to_pylist())
    assert {VENDORS[number] for number in tested} == {"noto", "twemoji"}
    for name in ("train", "validation"):
        assert not tested & set(task.table(name)["domain"].to_pylist())
    with pytest.warns(LeakWarning, match="origins are on two sides"):
        assert sd.task(small, "leave-one-domain-out@paper", test="noto").report().leaks


@pytest.mark.slow
def test_the_domains_of_a_paper_are_not_its_own(small):
    with pytest.raises(InputError, match=r"classic-dg is for NICO\+\+.*has fluent-3d, fluent-flat"):
        sd.task(small, "classic-dg")


@pytest.mark.slow
def test_the_same_drawing_is_as_in_other_datasets_of_the_album(small):
    plain, album = EmojiAlbum(size=32), EmojiAlbum(size=32, domains=True)
    assert plain.fingerprint() != album.fingerprint()
    pairs = list(zip(plain.items(), album.items(), strict=True))
    for one, other in pairs:
        assert (one.key, one.label, one.origin) == (other.key, other.label, other.origin)
        assert (one.nuisance, other.nuisance) == (None, one.source["vendor"])
    assert plain.load(pairs[5][0]).tobytes() == album.load(pairs[5][1]).tobytes()
    assert assign.folds([one for one, _ in pairs]) == assign.folds([other for _, other in pairs])


def test_vendors_draw_on_one_ground_and_each_differently(recipe):
    made = load_recipe(str(recipe))
    drawn = [item for item in made.album.items() if item.source["concept"] == "pizza"]
    pictures = {s.nuisance: np.asarray(s.image) for i in drawn for s in render_item(made, "shift", i)}
    assert list(pictures) == list(VENDORS)
    assert {tuple(picture[0, 0]) for picture in pictures.values()} == {(244, 241, 234)}
    assert len({picture.tobytes() for picture in pictures.values()}) == 4


@pytest.mark.slow
def test_the_concept_is_the_content_that_vendors_share(small):
    # A contact sheet puts the drawings of one content into one row.
    vendors = defaultdict(set)
    for row in pq.read_table(small / "metadata/all/train.parquet").to_pylist():
        vendors[json.loads(row["params"])["content"]].add(VENDORS[row["domain"]])
    assert len(vendors) == 1212 / 4
    assert all(found == set(VENDORS) for found in vendors.values())
