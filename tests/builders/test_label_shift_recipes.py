"""Label shift on texts and tables: what ships is what its source says; severity moves the target alone."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from builders.albums.emoji import EmojiAlbum
from builders.make import assign
from builders.make.build import build
from builders.make.check import check
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from tests.paths import ROOT

ASSETS = ROOT / "builders/albums/assets"
#: Each dataset with a source and a target domain.
SETS = {
    "emoji_names": ("en", ("de", "es", "fr")),
    "breast_cancer_texture": ("medium", "coarse"),
    "digits_ink": ("light", "heavy"),
}


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


def names() -> list[dict[str, str]]:
    with (ASSETS / "emoji_names/names.tsv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def test_names_hold_every_concept_of_the_emoji_album_in_every_language():
    recipe = load_recipe("emoji_names")
    pictures = EmojiAlbum(("noto",)).items()
    languages = recipe.shift.nuisances
    expected = {f"{item.key.removesuffix('noto')}{language}" for item in pictures for language in languages}
    items = {item.key: item for item in recipe.album.items()}
    assert set(items) == expected
    assert recipe.album.labels == EmojiAlbum().labels
    for picture in pictures:
        found = [items[f"{picture.key.removesuffix('noto')}{language}"] for language in languages]
        assert [item.nuisance for item in found] == list(languages)
        assert {(item.label, item.origin) for item in found} == {(picture.label, picture.origin)}


def test_translations_and_pictures_of_a_concept_are_in_one_split():
    texts = assign.folds(load_recipe("emoji_names").album.items())
    pictures = assign.folds(load_recipe("sma_emoji").album.items())
    assert texts == pictures


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
