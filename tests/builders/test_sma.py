"""Stylized Meta-Album and Meta-Album as they lie on disks: every layout, and what is missing or wrong."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from builders.make import assign
from builders.make.workshop import wanted_bases
from builders.raw.album import RawAlbum
from builders.raw.meta_album import MetaAlbum
from builders.raw.sma import STYLE_NAMES, Sma
from builders.recipe_files import load_recipe, recipe_names
from builders.sample import Item
from shiftdata.errors import InputError
from tests.builders.replicas import sma
from tests.builders.replicas.drawing import put

#: Stylized datasets whose content ships: they are of no table of raw ones.
MADE = ("sma_emoji", "sma_glyphs")


def album(root: Path, of: str = "AWA", layout: type = Sma) -> RawAlbum:
    return RawAlbum(name="a", layout=layout(set=of), license="CC0-1.0", attribution="them", root=root)


def said(items: tuple[Item, ...]) -> list[tuple[str, str, str | None, str, tuple[str, ...]]]:
    return [(one.key, one.label, one.nuisance, one.origin, one.bases) for one in items]


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
    assert {one.label for one in items} == {"otter", "sea_wave"}
    assert {one.nuisance for one in items} == {None, "wave", "land_art"}
    of_origin = Counter(one.origin for one in items)
    assert (of_origin["otter/0"], of_origin["sea_wave/0"]) == (2, 3)  # one lacks a style
    assert not any("styles/" in one.source["file"] for one in items)
    assert {one.source["style_picture"] for one in items if one.origin == "otter/1" and one.nuisance} == {
        "1.jpg"
    }


def test_mini_and_extended_beside_each_other_are_one_dataset_with_the_authors_mini(openml):
    items = album(openml).items()
    bases = Counter(one.bases for one in items)
    mini = len(sma.LABELS) * (sma.EACH - 1) * 2
    assert bases == {("extended", "mini"): mini, ("extended",): len(sma.LABELS) * 2}
    recipe = load_recipe("sma_awa")
    picked = assign.pick(items, assign.folds(items), recipe.base("mini"))
    assert len(picked) == mini


def test_what_mini_names_otherwise_is_known_by_its_bytes(openml, tmp_path):
    shutil.copytree(openml, tmp_path / "raw")
    folder = tmp_path / "raw/AWA_STY_Mini"
    table = (folder / "labels.csv").read_text()
    old, new = "otter_prehistorian_painting_0.jpg", "prehistorian_painting_900.jpg"
    (folder / "images" / old).rename(folder / "images" / new)
    (folder / "labels.csv").write_text(table.replace(old, new))
    assert said(album(tmp_path / "raw").items()) == said(album(openml).items())


def test_a_content_release_beside_gives_the_origins_their_names(openml, tmp_path):
    shutil.copytree(openml, tmp_path / "raw")
    rows = [
        {"FILE_NAME": f"{label}_{n}.jpg", "CATEGORY": label} for label in sma.LABELS for n in range(sma.EACH)
    ]
    for row in rows:
        put(tmp_path, f"raw/AWA_Extended/images/{row['FILE_NAME']}")
    put(tmp_path, "raw/AWA_Extended/labels.csv", sma.table(rows))
    items = album(tmp_path / "raw").items()
    assert len({one.origin for one in items}) == len(rows)
    content = assign.pick(items, assign.folds(items), load_recipe("sma_awa").base("content"))
    assert len(content) == len(rows)


def test_meta_album_reads_renamed_columns_mends_names_and_names_what_is_odd(tmp_path):
    sma.make_meta_album(tmp_path)
    read = album(tmp_path, "BRD", MetaAlbum)
    assert read.labels == ("Mésange 0", "Mésange 1")
    assert len(read.items()) == 7
    assert dict(read.left_out) == {
        "BRD_Mini/gone.jpg": "labels.csv lists it, and it is not there",
        "BRD_Mini/images/unlisted.jpg": "labels.csv does not list it, and no folder says what it shows",
    }


def test_meta_album_gives_its_20_largest_classes_which_mini_alone_does_not_know(tmp_path):
    rows = []
    for label in range(22):
        for number in range(3 if label in (4, 7) else 4):
            put(tmp_path, f"BRD_Extended/images/{label}_{number}.jpg")
            rows.append({"FILE_NAME": f"{label}_{number}.jpg", "CATEGORY": f"bird {label}"})
    put(tmp_path, "BRD_Extended/labels.csv", sma.table(rows))
    assert set(album(tmp_path, "BRD", MetaAlbum).labels) == {f"bird {n}" for n in range(22)} - {
        "bird 4",
        "bird 7",
    }
    (tmp_path / "BRD_Extended").rename(tmp_path / "BRD_Mini")
    with pytest.raises(InputError, match="known from Extended"):
        album(tmp_path, "BRD", MetaAlbum).items()


def test_the_table_has_12_sets_and_10_made_again():
    names = [name for name in recipe_names() if name.startswith("sma_") and name not in MADE]
    assert len(names) == 22
    assert not {"sma_resisc_remade", "sma_tex_dtd_remade"} & {*names}
    withheld = {name for name in names if load_recipe(name).publishes != "all"}
    assert {name.removesuffix("_remade") for name in withheld} == {
        "sma_dog",
        "sma_ins_2",
        "sma_rsicb",
        "sma_tex_dtd",
    }


def test_bases_that_the_raw_data_lacks_are_left_out_unless_asked_for(openml):
    recipe = load_recipe(f"sma_awa={openml / 'AWA_STY_Mini'}")
    assert wanted_bases(recipe, None, []) == ["mini"]
    with pytest.raises(InputError, match="no item of the base 'extended'"):
        wanted_bases(recipe, ["mini", "extended"], [])
    assert wanted_bases(load_recipe(f"sma_awa={openml}"), None, []) == ["mini", "extended"]


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
    origins = {one.origin: {two.nuisance for two in items if two.origin == one.origin} for one in items}
    assert list(origins.values()) == [{"wave", "land_art"}] * 4
    assert {one.label for one in items} == {"otter", "sea_wave", "zebra"}
