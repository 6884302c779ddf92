"""VLCS, Office-Home, Office-31, VisDA-2017 and SVIRO in each of the forms in which they are handed on."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from pathlib import Path

from builders.raw.album import RawAlbum
from builders.recipe_files import load_recipe
from builders.sample import Item
from tests.builders.raw_albums import album_of, rows
from tests.builders.replicas import domain_trees as replicas
from tests.builders.replicas.drawing import put


def oddities(album: RawAlbum) -> dict[str, str]:
    """What is left out, but for what the replica is too small for."""
    return {file: why for file, why in album.left_out.items() if not why.startswith("missing")}


def by_origin(items: tuple[Item, ...]) -> list[list[str]]:
    """The files of each origin that has several."""
    origins = defaultdict[str, list[str]](list)
    for item in items:
        origins[item.origin].append(str(item.source["file"]))
    return [files for files in origins.values() if len(files) > 1]


def test_both_forms_of_vlcs_are_the_same_rows(tmp_path):
    replicas.vlcs(tmp_path / "domainbed")
    replicas.vlcs_of_dassl(tmp_path / "dassl")
    domainbed, dassl = album_of("vlcs", tmp_path / "domainbed"), album_of("vlcs", tmp_path / "dassl")
    assert rows(domainbed) == rows(dassl)
    assert oddities(domainbed) == {}
    assert Counter(oddities(dassl).values()) == {"also in train and crossval": 140}
    (twins,) = by_origin(domainbed.items())
    assert [Path(file).parent.name for file in twins] == ["car", "person"], "one picture, two classes"
    assert len({item.origin for item in domainbed.items()}) == len(domainbed.items()) - 1


def test_office_home_has_the_classes_in_the_order_of_the_lists():
    labels = load_recipe("office_home").album.labels
    assert len(set(labels)) == 65
    assert (labels[0], labels[1], labels[33], labels[64]) == ("Drill", "Exit_Sign", "Alarm_Clock", "Marker")
    assert labels.index("TV") < labels.index("Table"), "as in the lists; lower case would turn them"
    assert list(labels) != sorted(labels)


def test_visda_is_the_same_by_either_spelling_and_with_its_test_in_folders(tmp_path):
    replicas.visda(tmp_path / "flat")
    flat = album_of("visda", tmp_path / "flat")
    assert oddities(flat) == {
        f"test/trunk01/{'0' * 32}.jpg": "its class is not known: no image_list*.txt has one number for it"
    }
    shutil.copytree(tmp_path / "flat", tmp_path / "sorted")
    names = {item.key: item.label for item in flat.items() if item.nuisance == "test"}
    for item in flat.items():
        if item.key in names:
            file = tmp_path / "sorted" / str(item.source["file"])
            folder = tmp_path / "sorted/test" / item.label.replace("aeroplane", "airplane")
            folder.mkdir(exist_ok=True)
            file.rename(folder / file.name)
    assert album_of("visda", tmp_path / "sorted").fingerprint() == flat.fingerprint()


def test_the_views_of_an_object_of_visda_share_an_origin(tmp_path):
    replicas.visda(tmp_path)
    shared = by_origin(album_of("visda", tmp_path).items())
    assert {tuple(sorted({file.split("_")[1] for file in files})) for files in shared} == {
        (str(number),) for number in range(10)
    }
    assert sum(map(len, shared)) == 60


def test_the_seats_of_an_image_of_sviro_share_its_origin_whatever_their_classes(tmp_path):
    replicas.sviro(tmp_path)
    album = album_of("sviro", tmp_path)
    items = album.items()
    shared = by_origin(items)
    assert len(shared) == 60
    for files in shared:
        assert len({tuple(Path(file).name.split("_")[:4]) for file in files}) == 1
        assert len({Path(file).parent.name for file in files}) > 1
    assert album.load(items[0]).data == album.tree.read(album.place(items[0]))


def test_a_seat_of_sviro_whose_folder_and_name_disagree_is_named(tmp_path):
    replicas.sviro(tmp_path)
    put(tmp_path, "SVIRO_DOMAINBED/zoe/3/zoe_train_imageID_1_seatPosition_0_GT_4.png")
    assert oddities(album_of("sviro", tmp_path)) == {
        "SVIRO_DOMAINBED/zoe/3/zoe_train_imageID_1_seatPosition_0_GT_4.png": (
            "its folder says another class than its name (4)"
        )
    }
