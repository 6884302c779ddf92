"""Stylized Meta-Album and Meta-Album as they lie on disks: every layout, and what is missing or wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from builders.albums.folder import slug
from builders.cli.app import main
from builders.items import ItemTable
from builders.make import assign
from builders.make.build import build
from builders.raw.album import RawAlbum
from builders.raw.sma import STYLE_NAMES, MetaAlbum, Sma
from builders.recipe_files import load_recipe
from shiftdata.data.format.written import MAY_LEAK
from shiftdata.data.verifying import verify
from shiftdata.errors import InputError
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
    table = ItemTable.of(items)
    picked = table.take(assign.pick(table, assign.folds(table), recipe.base("mini")))
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


@pytest.mark.parametrize("name", ["labels.csv", "dataset_46034.pq"])
def test_a_damaged_table_is_named(tmp_path, name):
    put(tmp_path, "BRD_STY_Mini/images/1.jpg")
    put(tmp_path, f"BRD_STY_Mini/{name}", b'FILE_NAME,CATEGORY\n"' + bytes(200_000))
    with pytest.raises(InputError, match=f"BRD_STY_Mini/{name} in .* is damaged"):
        album(tmp_path, "BRD").items()


@pytest.mark.parametrize("has_table", [False, True])
def test_meta_album_reads_folders_of_classes_whose_names_are_the_same_in_train_and_valid(tmp_path, has_table):
    pairs = [(split, label) for split in ("train", "valid") for label in ("GREAT TIT", "OWL")]
    files = {f"{split}/{label}/00{n}.jpg": label for split, label in pairs for n in range(2)}
    for file in (*files, "images to test/1.jpg"):
        put(tmp_path, file)
    if has_table:
        rows = [{"class id": "0", "filepaths": file, "labels": label} for file, label in files.items()]
        put(tmp_path, "birds.csv", sma.table(rows))
    read = album(tmp_path, "BRD", MetaAlbum)
    assert list(read.left_out) == ["images to test/1.jpg"]
    assert {item.origin for item in read.items()} == {
        f"{slug(label)}/{split}_00{n}" for split, label in pairs for n in range(2)
    }


@pytest.mark.parametrize("form", (KNOWN := {**sma.NAMED_FORMS, **sma.ORDERED_FORMS}).values(), ids=KNOWN)
def test_pictures_of_a_form_share_an_origin_where_they_show_the_same(tmp_path, form):
    truth = form.make(tmp_path, ("polar_bear", "sea_wave"), 4, STYLE_NAMES[9:13])
    read = album(tmp_path, "BRD")
    items = read.items()
    assert len(items) == len(truth)
    assert {item.label for item in items} == {"polar_bear", "sea_wave"}
    assert {item.nuisance for item in items} == {*STYLE_NAMES[9:13], *([None] if form.content else [])}
    hashed = {item.key: of.hex() for item, of in zip(items, items.digests(), strict=True)}
    assert len({(item.origin, truth[hashed[item.key]]) for item in items}) == 8
    assert len({item.origin for item in items}) == 8
    is_ordered = form in sma.ORDERED_FORMS.values()
    assert {item.source.get("origin_by") == "order of rows" for item in items if item.nuisance} == {
        is_ordered
    }
    assert [why.partition(":")[0] for why in read.left_out.values()] == [MAY_LEAK] * is_ordered


@pytest.mark.parametrize("form", sma.OPAQUE_FORMS.values(), ids=sma.OPAQUE_FORMS)
def test_where_nothing_says_what_was_painted_each_picture_is_an_origin_and_all_say_so(tmp_path, form):
    truth = form.make(tmp_path, ("polar_bear", "sea_wave"), 4, STYLE_NAMES[9:13])
    read = album(tmp_path, "BRD")
    assert len({item.origin for item in read.items()}) == len(truth) == len(read.items())
    assert {item.source.get("origin_by") for item in read.items() if item.nuisance} == {"itself"}
    (why,) = read.left_out.values()
    assert why.startswith(f"{MAY_LEAK}: no name, column or order of rows says which picture was painted")


def test_a_build_of_unknown_origins_says_so_on_its_card_and_where_it_is_verified(tmp_path, capsys):
    sma.OPAQUE_FORMS["hashes in folders"].make(tmp_path / "raw", ("owl", "otter"), 4, STYLE_NAMES)
    folder = build(f"sma_brd={tmp_path / 'raw'}", tmp_path, workers=1, quiet=True)
    notes: list[str] = []
    assert verify(folder, on_note=notes.append) == []
    card = (folder / "README.md").read_text(encoding="utf-8")
    (why,) = load_recipe("sma_brd").album.at(tmp_path / "raw").left_out.values()
    assert f"warning: {why}" in notes
    assert f"| **leaks** | {why} |" in card
    assert "**no leaks**" not in card
    main(["raw", "check", "sma_brd", "--raw", str(tmp_path / "raw"), "--verbose"])
    assert f"note: {why}: raw\n" in capsys.readouterr().out


def test_opaque_numbers_of_mini_and_extended_are_matched_by_their_bytes(tmp_path):
    columns = {"FILE_NAME": "{file}", "CATEGORY": "{label}_{style}"}
    for number, version, each in ((46033, "Extended", 5), (46034, "Mini", 3)):
        path = f"{number}/BRD_STY_{version}/images/{{row}}.jpg"
        sma.Form(path, columns, f"{number}/dataset_{number}.pq").make(
            tmp_path, ("owl",), each, STYLE_NAMES[:3]
        )
    items = album(tmp_path, "BRD").items()
    assert Counter(item.bases for item in items) == {("extended", "mini"): 9, ("extended",): 6}
    assert len({item.origin for item in items}) == 5


@pytest.mark.parametrize(
    ("path", "columns", "expected"),
    [
        (
            "BRD_STY_Mini/images/{hash}.jpg",
            {"FILE_NAME": "{file}", "CATEGORY": "{label}"},
            r"labels.csv has FILE_NAME, CATEGORY\)",
        ),
        ("BRD_STY_Mini/images/{hash}.jpg", {"a": "{file}", "b": "{label}"}, r"it has A, B\)"),
        ("DOG_STY_Mini/{label}_{style}/{n}.jpg", {}, "has DOG; BRD of SMA is not among them"),
    ],
)
def test_files_that_are_no_release_of_the_set_are_refused_by_what_they_are(tmp_path, path, columns, expected):
    sma.Form(path, columns).make(tmp_path, ("owl", "otter"), 2, STYLE_NAMES[:2])
    put(tmp_path, "DOG_STY_Mini/info.json", "{}")
    with pytest.raises(InputError, match=expected):
        album(tmp_path, "BRD").items()


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
