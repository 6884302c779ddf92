"""Texts and tables: what ships is what its source says, and every canonical split tests a hundred rows."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from builders.items import ItemTable
from builders.make import assign
from builders.make.build import build
from builders.make.canonical import planned, planned_splits
from builders.make.check import check
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from tests.paths import ROOT

ASSETS = ROOT / "builders/albums/assets"
SETS = ("emoji_names", "breast_cancer_texture", "digits_ink")
LEAST_TEST = 100  # rows of a canonical split


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Callable[[str], Path]:
    """Gives the folder of one of them, built when it is first asked for."""
    folder = tmp_path_factory.mktemp("out")

    @cache
    def of(name: str) -> Path:
        return build(name, folder, workers=1, quiet=True)

    return of


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_nothing_is_wrong(built, name):
    assert check(built(name)) == []  # the counts that the recipe expects, too
    assert Manifest.read(built(name)).base("all").dropped == {}


@pytest.mark.parametrize("name", SETS)
def test_every_canonical_split_tests_a_hundred_rows(name):
    recipe = load_recipe(name)
    items = ItemTable.of(recipe.album.items())
    splits = planned_splits(recipe, planned(recipe, items, assign.folds(items)))
    assert len(splits) == len(recipe.protocols)
    for split in splits:
        (tested,) = [rows for rows in split.sets.values() if "test" in rows.roles]
        assert tested.size.rows >= LEAST_TEST, split.name


def names() -> list[dict[str, str]]:
    with (ASSETS / "emoji_names/names.tsv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def test_names_hold_every_concept_in_every_language_and_its_translations_share_an_origin():
    recipe = load_recipe("emoji_names")
    with (ASSETS / "emoji_names/concepts.tsv").open(encoding="utf-8", newline="") as stream:
        concepts = list(csv.DictReader(stream, delimiter="\t"))
    items = {item.key: item for item in recipe.album.items()}
    assert len(items) == len(concepts) * len(recipe.shift.nuisances)
    for row in concepts:
        for language in recipe.shift.nuisances:
            item = items[f"{row['label']}_{row['concept']}-{language}"]
            assert item.nuisance == language
            assert (item.label, item.origin) == (row["label"], f"{row['label']}/{row['origin']}")


def test_a_text_belongs_to_one_origin_and_is_clean():
    origins = defaultdict(set)
    for row in names():
        origins[row["text"].casefold()].add((row["label"], row["origin"]))
        assert row["text"] == " ".join(row["text"].split())
        assert row["text"].partition(":")[0]
    assert [text for text, found in origins.items() if len(found) > 1] == []
    assert set(Counter(row["language"] for row in names()).values()) == {570}


@pytest.mark.parametrize(
    ("file", "covariate", "bounds"),
    [
        ("breast_cancer.csv", lambda row: float(row["mean_texture"]), (17, 21)),
        (
            "digits.csv",
            lambda row: sum(int(row[name]) for name in row if name.startswith("pixel")),
            (300, 330),
        ),
    ],
)
def test_a_domain_is_what_the_datasheet_says_of_its_covariate(file, covariate, bounds):
    name = {"breast_cancer.csv": "breast_cancer_texture", "digits.csv": "digits_ink"}[file]
    recipe = load_recipe(name)
    assert all(f"below {bound}" in recipe.datasheet.preprocessing for bound in bounds)
    with (ASSETS / "tables" / file).open(newline="") as stream:
        for row in csv.DictReader(stream):
            place = sum(covariate(row) >= bound for bound in bounds)
            assert row[recipe.nuisance] == recipe.shift.nuisances[place]
