"""Trees as other loaders leave them give the rows of the authors' tree, or name the file that they lack."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from builders.make.build import build
from builders.make.check import check
from builders.raw.sources import FOLDER
from builders.recipe_files import load_recipe
from shiftdata.errors import InputError
from tests.builders.raw_albums import album_of, rows
from tests.builders.replicas import terra_incognita
from tests.builders.replicas.drawing import picture, put

#: Of each dataset some domains, some classes, and the path of a picture in the authors' tree.
SETS = {
    "pacs": (("art_painting", "photo", "sketch"), ("dog", "house"), "PACS/{domain}/{label}/{name}"),
    "office31": (("amazon", "dslr"), ("back_pack", "mug"), "{domain}/images/{label}/{name}"),
    "office_home": (("Art", "Real World"), ("Alarm_Clock", "TV"), "{domain}/{label}/{name}"),
    "domainnet": (("clipart", "real"), ("t-shirt", "The_Mona_Lisa"), "{domain}/{label}/{name}"),
    "visda": (("train", "validation"), ("aeroplane", "train"), "{domain}/{label}/{name}"),
    "vlcs": (("Caltech101", "SUN09"), ("bird", "person"), "VLCS/{domain}/{label}/{name}"),
    "sviro": (("x5", "zoe"), ("0", "3"), "SVIRO_DOMAINBED/{domain}/{label}/{name}"),
}
#: Who leaves it, of which dataset, the path of a picture, and that of a list.
FORMS = [
    ("DomainBed", "pacs", "kfold/{domain}/{label}/{name}", ""),
    ("DomainBed", "office_home", "office_home/{domain}/{label}/{name}", ""),
    ("DomainBed", "domainnet", "domain_net/{domain}/{label}/{name}", ""),
    ("DomainBed", "sviro", "sviro/{domain}/{label}/{name}", ""),
    ("TLlib", "pacs", "{domain}/{label}/{name}", "image_list/{domain}_train.txt"),
    ("TLlib", "office31", "{domain}/images/{label}/{name}", "image_list/{domain}.txt"),
    ("TLlib", "office_home", "{under}/{label}/{name}", "image_list/{under}.txt"),
    ("TLlib", "domainnet", "{domain}/{label}/{name}", "image_list/{domain}_train.txt"),
    ("TLlib", "visda", "{domain}/{label}/{name}", "image_list/{domain}.txt"),
    ("Dassl", "pacs", "pacs/images/{domain}/{label}/{name}", "pacs/splits/{domain}_train_kfold.txt"),
    ("Dassl", "office31", "office31/{domain}/{label}/{name}", ""),
    ("Dassl", "office_home", "office_home/{lower}/{label}/{name}", ""),
    ("Dassl", "office_home", "office_home_dg/{lower}/{part}/{label}/{name}", ""),
    ("Dassl", "domainnet", "domainnet/{domain}/{label}/{name}", "domainnet/splits_mini/{domain}_train.txt"),
    ("Dassl", "visda", "visda17/{domain}/{label}/{name}", "visda17/{domain}/image_list.txt"),
    ("ImageFolder", "pacs", "{part}/{domain}/{label}/{name}", ""),
    ("ImageFolder", "office31", "{domain}/{part}/{label}/{name}", ""),
    ("Kaggle", "pacs", "pacs_data/pacs_data/{domain}/{label}/{name}", "pacs_label/{domain}_train_kfold.txt"),
    ("Kaggle", "office_home", "OfficeHomeDataset_10072016/{domain}/{label}/{name}", ""),
    ("Kaggle", "visda", "{domain}/{domain}/{label}/{name}", ""),
    ("Kaggle", "vlcs", "VLCS/VLCS/{domain}/{label}/{name}", ""),
]


def write(root: Path, name: str, path: str, listed: str = "") -> None:
    """Some pictures of a dataset in a form, with its lists."""
    domains, labels, _ = SETS[name]
    for domain in domains:
        under = domain.replace(" ", "_")
        words, lines = {"domain": domain, "under": under, "lower": under.lower()}, list[str]()
        for number, label in enumerate(labels):
            for count in range(4):
                file = f"src_{count}_0_0_0.png" if name == "visda" else f"pic_{count:03}.jpg"
                part = "train" if count % 2 else "val"
                place = path.format(**words, label=label, name=file, part=part)
                put(root, place, picture(f"{domain} {label} {count}"))
                lines.append(f"{place.removeprefix('domainnet/')} {number}")
        if listed:
            put(root, listed.format(**words), "\n".join(lines) + "\n")


@pytest.mark.parametrize(("who", "name", "path", "listed"), FORMS)
def test_the_tree_of_another_loader_has_the_rows_of_the_authors_tree(tmp_path, who, name, path, listed):
    write(tmp_path / "authors", name, SETS[name][2])
    write(tmp_path / who, name, path, listed)
    theirs = album_of(name, tmp_path / who)
    assert rows(theirs) == rows(album_of(name, tmp_path / "authors"))
    odd = [why for why in theirs.left_out.values() if not why.startswith(("missing", "its lists are not"))]
    assert odd == (["lists of miniDomainNet, which is a part of it"] * 2 if "splits_mini" in listed else [])


def test_lists_of_another_dataset_next_to_those_of_this_are_named_and_not_read(tmp_path):
    """JigenDG keeps those of PACS and Office-Home in one folder, and `art` is a domain of both."""
    write(tmp_path, "pacs", "{domain}/{label}/{name}", "txt_lists/{domain}_train.txt")
    before = rows(album_of("pacs", tmp_path))
    put(tmp_path, "txt_lists/art_train.txt", "OfficeHome/Art/Alarm_Clock/00001.jpg 0\n")
    album = album_of("pacs", tmp_path)
    assert rows(album) == before
    assert album.left_out["txt_lists/art_train.txt"].startswith(
        "names no class of a domain: a list of another"
    )
    assert all(item.source["lists"] for item in album.items())


def test_archives_that_stay_next_to_what_they_had_change_nothing(tmp_path):
    write(tmp_path, "office31", "{domain}/images/{label}/{name}")
    before = rows(album_of("office31", tmp_path))
    for domain in SETS["office31"][0]:
        with tarfile.open(tmp_path / f"{domain}.tgz", "w:gz") as archive:
            archive.add(tmp_path / domain, domain)
    assert rows(album_of("office31", tmp_path)) == before


def test_a_test_of_visda_without_its_list_names_the_list(tmp_path):
    write(tmp_path, "visda", "{domain}/{label}/{name}")
    put(tmp_path, "test/trunk01/abc.jpg")
    (why,) = {why for file, why in album_of("visda", tmp_path).left_out.items() if "trunk01" in file}
    assert why == "its class is not known: no image_list*.txt has one number for it"
    put(tmp_path, "test/image_list.txt", "trunk01/abc.jpg\n")  # as it comes with the pictures: no numbers
    put(tmp_path, "image_list.txt", "trunk01/abc.jpg 10\n")
    (item,) = (item for item in album_of("visda", tmp_path).items() if item.nuisance == "test")
    assert item.label == "train"


@pytest.fixture(scope="module")
def terra(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("terra")
    terra_incognita.make(root, each=1)
    return root


def sorted_by_domainbed(raw: Path, to: Path) -> None:
    """The tree that DomainBed's download leaves: `location_<number>/<class>/`, without annotations."""
    for item in album_of("terra_incognita", raw).items():
        file = raw / str(item.source["file"])
        put(to, f"terra_incognita/{item.nuisance}/{item.label}/{file.name}", file.read_bytes())


def test_terra_incognita_as_domainbed_leaves_it_has_all_rows_and_says_that_sequences_are_lost(
    terra, tmp_path
):
    sorted_by_domainbed(terra, tmp_path)
    album = album_of("terra_incognita", tmp_path)
    whole = album_of("terra_incognita", terra)
    assert [row[:3] for row in rows(album)] == [row[:3] for row in rows(whole)]
    assert len({item.origin for item in album.items()}) == len(album.items())
    assert "is an origin of its own" in album.left_out["train_annotations.json"]
    shutil.copytree(terra / terra_incognita.ANNOTATIONS, tmp_path / terra_incognita.ANNOTATIONS)
    assert rows(album_of("terra_incognita", tmp_path)) == rows(album_of("terra_incognita", terra))
    (tmp_path / terra_incognita.ANNOTATIONS / "cis_val_annotations.json").unlink()
    with pytest.raises(InputError, match=r"has no cis_val_annotations\.json, .* eccv_18_annotations"):
        album_of("terra_incognita", tmp_path).items()


def test_the_one_annotation_file_of_all_camera_traps_says_the_same_as_the_five(terra, tmp_path):
    whole: dict[str, list[dict[str, object]]] = {"images": [], "annotations": [], "categories": []}
    names: dict[str, int] = {}
    for file in sorted((terra / terra_incognita.ANNOTATIONS).iterdir()):
        stored = json.loads(file.read_text())
        named = {category["id"]: category["name"] for category in stored["categories"]}
        whole["images"] += stored["images"]
        for note in stored["annotations"]:
            number = names.setdefault(named[note["category_id"]], len(names))
            whole["annotations"].append(note | {"category_id": number})
    whole["categories"] = [{"id": number, "name": name} for name, number in names.items()]
    shutil.copytree(terra / terra_incognita.PICTURES, tmp_path / "cct_images")
    put(tmp_path, "caltech_images_20210113.json", json.dumps(whole))
    assert rows(album_of("terra_incognita", tmp_path)) == rows(album_of("terra_incognita", terra))


def test_a_tree_without_annotations_and_folders_of_locations_is_told_what_it_lacks(tmp_path):
    put(tmp_path, "eccv_18_all_images_sm/abc.jpg")
    with pytest.raises(
        InputError,
        match=r"each picture in a folder location_<number>/<class>/ is an origin .* eccv_18_annotations",
    ):
        album_of("terra_incognita", tmp_path).items()


OWN = """
[two_shops]
title = "Things in two shops"

[two_shops.layout]
domains = ["north", "south"]
labels = "cup plate"
{extra}

[two_shops.recipe]
{fields}
"""


def test_a_dataset_of_ones_own_is_declared_in_a_file(tmp_path):
    for domain in ("north", "sud"):
        for label in ("cup", "plate"):
            for count in range(12):
                put(tmp_path, f"raw/{domain}/{label}/{count}.jpg", picture(f"{domain} {label} {count}"))
    put(
        tmp_path,
        "two_shops.toml",
        OWN.format(extra='spellings = { south = ["sud"] }', fields='summary = "Cups and plates."'),
    )
    folder = build(f"{tmp_path / 'two_shops.toml'}={tmp_path / 'raw'}", tmp_path, workers=1, quiet=True)
    assert folder.name == "two_shops"
    assert check(folder, load_recipe(f"{tmp_path / 'two_shops.toml'}={tmp_path / 'raw'}")) == []
    assert (folder / "protocols/lodo_south.parquet").is_file()


def test_the_file_of_a_dataset_here_can_be_copied(tmp_path):
    write(tmp_path / "raw", "pacs", SETS["pacs"][2])
    shutil.copy(FOLDER / "pacs.toml", tmp_path / "mine.toml")
    mine = album_of(str(tmp_path / "mine.toml"), tmp_path / "raw")
    assert mine.fingerprint() == album_of("pacs", tmp_path / "raw").fingerprint()


@pytest.mark.parametrize(
    ("extra", "fields", "message"),
    [
        ("colour = 3", "", "unknown option 'colour'.*The reader folders of two_shops"),
        ('reader = "folder"', "", "unknown reader 'folder'; did you mean 'folders'"),
        ("", 'titel = "x"', r"unknown field 'titel'; did you mean 'title'.*\[two_shops.recipe\]"),
        ("", 'protocols = ["leave-one-out"]', "unknown protocol 'leave-one-out'"),
        ("", 'protocols = ["domainbed test={shop}"]', "braces around something else"),
        ("", 'encoding = "gif"', "unknown encoding 'gif'"),
        ('origin = "("', "", "is not a regular expression"),
        ('spellings = { south = "sud" }', "", "write a list"),
        ('"', "", "does not declare raw datasets"),
    ],
)
def test_a_declaration_that_cannot_be_read_says_why(tmp_path, extra, fields, message):
    put(tmp_path, "two_shops.toml", OWN.format(extra=extra, fields=fields))
    with pytest.raises(InputError, match=message):
        album_of(str(tmp_path / "two_shops.toml"), tmp_path)
