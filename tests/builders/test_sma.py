"""Stylized Meta-Album and Meta-Album as they lie on disks: every layout, and what is missing or wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from builders.make import assign
from builders.raw.album import RawAlbum
from builders.raw.meta_album import MetaAlbum
from builders.raw.sma import STYLE_NAMES, Sma
from builders.recipe_files import load_recipe
from tests.builders.replicas import sma
from tests.builders.replicas.drawing import put


def album(root: Path, of: str = "AWA", layout: type = Sma) -> RawAlbum:
    return RawAlbum(name="a", layout=layout(set=of), license="CC0-1.0", attribution="them", root=root)


@pytest.fixture(scope="module")
def code_layout(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("code")
    sma.make(root, labels=("otter", "sea_wave"), styles=("wave", "land_art"))
    return root


@pytest.fixture(scope="module")
def openml(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("openml")
    for version in ("Mini", "Extended"):
        sma.make_openml(root, "AWA", version, styles=STYLE_NAMES[:2])
    return root


def test_a_content_picture_and_its_stylized_ones_share_an_origin_and_styles_are_never_read(code_layout):
    items = album(code_layout).items()
    assert {item.label for item in items} == {"otter", "sea_wave"}
    assert {item.nuisance for item in items} == {None, "wave", "land_art"}
    of_origin = Counter(item.origin for item in items)
    assert (of_origin["otter/0"], of_origin["sea_wave/0"]) == (2, 3)  # one lacks a style
    assert not any("styles/" in item.source["file"] for item in items)
    assert {item.source["style_picture"] for item in items if item.origin == "otter/1" and item.nuisance} == {
        "1.jpg"
    }


def test_mini_and_extended_beside_each_other_are_one_dataset_with_the_authors_mini(openml):
    items = album(openml).items()
    bases = Counter(item.bases for item in items)
    mini = len(sma.LABELS) * (sma.EACH - 1) * 2
    assert bases == {("extended", "mini"): mini, ("extended",): len(sma.LABELS) * 2}
    recipe = load_recipe("sma_awa")
    picked = assign.pick(items, assign.folds(items), recipe.base("mini"))
    assert len(picked) == mini


def test_meta_album_reads_renamed_columns_mends_names_and_names_what_is_odd(tmp_path):
    sma.make_meta_album(tmp_path)
    read = album(tmp_path, "BRD", MetaAlbum)
    assert read.labels == ("Mésange 0", "Mésange 1")
    assert len(read.items()) == 7
    assert dict(read.left_out) == {
        "BRD_Mini/gone.jpg": "labels.csv lists it, and it is not there",
        "BRD_Mini/images/unlisted.jpg": "labels.csv does not list it, and no folder says what it shows",
    }


@pytest.mark.parametrize(
    "name", ["{label}_{n}__{style}", "{style}_{label}_{n}", "{label}_{style}_{n}", "{n}-{style}"]
)
def test_a_flat_name_gives_style_and_origin(tmp_path, name):
    rows = []
    for label, number in (("otter", 0), ("otter", 1), ("sea_wave", 2), ("zebra", 3)):
        for style in ("wave", "land_art"):
            file = name.format(label=label, n=number, style=style) + ".jpg"
            put(tmp_path, f"AWA_STY_Mini/images/{file}")
            rows.append({"FILE_NAME": file, "CATEGORY": label})
    put(tmp_path, "AWA_STY_Mini/labels.csv", sma.table(rows))
    items = album(tmp_path).items()
    origins = {item.origin: {two.nuisance for two in items if two.origin == item.origin} for item in items}
    assert list(origins.values()) == [{"wave", "land_art"}] * 4
    assert {item.label for item in items} == {"otter", "sea_wave", "zebra"}
