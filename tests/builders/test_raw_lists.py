"""List files, and the two datasets that live by them: what belongs, what is odd, what is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path, PurePosixPath

import pytest

import shiftdata as sd
from builders.make.build import build
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import LeakWarning
from shiftdata.evaluation.verify import verify
from tests.builders.raw_albums import album_of
from tests.builders.replicas import domain_trees, nico_domainnet, pacs
from tests.builders.replicas.drawing import put


@pytest.fixture(scope="module")
def domainnet(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("domainnet")
    nico_domainnet.domainnet(folder)
    return folder


@pytest.fixture(scope="module")
def nico(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("nico")
    nico_domainnet.nico(folder / "raw")
    return folder


def test_the_cleaned_lists_decide_what_belongs_to_domainnet(domainnet):
    album = album_of("domainnet", domainnet)
    files = {str(item.source["file"]) for item in album.items()}
    odd = album.left_out
    assert "clipart/tiger/clipart_312_000777.jpg" not in files
    assert odd["clipart/tiger/clipart_312_000777.jpg"] == "not in the cleaned version"
    assert odd["real/tiger/real_312_999999.jpg"] == "listed in real_train.txt, and not there"
    assert odd["clipart/zebra"] == "missing: this domain has no picture of the class"
    (one,) = (item for item in album.items() if item.source["file"] == "sketch/tiger/sketch_312_000000.jpg")
    assert one.source["lists"] == {"train": 14}
    labels = album.labels
    assert [labels.index(name) for name in ("syringe", "tent", "The_Mona_Lisa", "t-shirt")] == [
        300,
        307,
        310,
        327,
    ]
    assert len(labels) == 345


def test_domainbeds_duplicates_decide_where_there_are_no_lists(domainnet, tmp_path):
    by_lists = {item.key for item in album_of("domainnet", domainnet).items()}
    nico_domainnet.domainnet_with_duplicates(tmp_path)
    assert {item.key for item in album_of("domainnet", tmp_path).items()} == by_lists
    (tmp_path / "domain_net_duplicates.txt").unlink()
    album = album_of("domainnet", tmp_path)
    assert len(album.items()) == len(by_lists) + 6
    assert album.left_out["quickdraw"].startswith("neither lists nor duplicates are known")


def test_half_of_the_lists_and_two_versions_of_one_are_refused(domainnet, tmp_path):
    copy = tmp_path / "raw"
    shutil.copytree(domainnet, copy)
    put(copy, "image_list/real_test.txt", "real/tiger/real_312_000000.jpg 311\n")
    with pytest.raises(InputError, match=re.escape("two lists real_test.txt with other pictures")):
        album_of("domainnet", copy).items()
    lines = (copy / "txt/real_test.txt").read_text().splitlines()
    again = [f"/data/{line.rsplit(' ', 1)[0]} {int(line.rsplit(' ', 1)[1]) + 1}" for line in lines]
    put(copy, "image_list/real_test.txt", "\r\n".join(again))  # the same pictures
    assert len(album_of("domainnet", copy).items()) == len(album_of("domainnet", domainnet).items())
    shutil.rmtree(copy / "image_list")
    (copy / "txt/real_test.txt").unlink()
    with pytest.raises(InputError, match=r"has txt/real_train.txt and no real_test.txt"):
        album_of("domainnet", copy).items()


def test_nico_is_numbered_by_the_authors_file_and_its_test_is_left_out(nico):
    album = album_of("nico", nico / "raw")
    assert album.labels == ("hot air balloon", "car", "cat")
    why = "the pictures of the public test have no labels"
    assert [PurePosixPath(file).parts[-2] for file, one in album.left_out.items() if one == why] == [
        "public_test_flat"
    ] * 5
    assert album.left_out["water"].startswith("missing")
    keys = {item.key for item in album.items()}
    assert {"cat--dim_000001--dim", "hot-air-balloon--dim_000001--dim"} <= keys
    for text in ('{"cat": "first"}', "[1]", "{"):
        put(nico, "bad/dg_label_id_mapping.json", text)
        put(nico, "bad/dim/cat/dim_000001.jpg")
        with pytest.raises(InputError, match="is not a mapping of classes to numbers"):
            _ = album_of("nico", nico / "bad").labels
    shutil.rmtree(nico / "bad")


def test_the_numbers_that_the_authors_gave_are_the_default_of_nico(tmp_path):
    put(tmp_path, "dim/cat/dim_000001.jpg")
    default = album_of("nico", tmp_path).labels
    assert (len(default), default.index("cat"), default[0], default[-1]) == (60, 34, "car", "umbrella")
    put(tmp_path, "dg_label_id_mapping.json", json.dumps({"cat": 34, "hot air balloon": 22}))
    assert album_of("nico", tmp_path).labels == default


def test_a_pair_of_nico_is_held_out_by_the_lists_and_without_them(nico):
    built = build(f"nico={nico / 'raw'}", nico, workers=1, quiet=True)
    names = [split.name for split in sd.open_dataset(built).manifest.canonical_splits]
    assert names[:2] == ["logo_group1", "logo_group2"]  # of the third pair both contexts are missing
    assert "logo_group3" not in names
    assert verify(built) == []
    task = sd.task(built, "listed_autumn_rock_train_val_test")
    tested = set(task.table("test", named=True)["domain"].to_pylist())
    assert (tested, len(task.sets["test"]), len(task.sets["validation"])) == ({"autumn", "rock"}, 60, 6)


def test_a_domain_without_its_list_is_refused_and_the_split_left_out(tmp_path, capfd):
    nico_domainnet.nico(tmp_path / "raw")
    (tmp_path / "raw/txtlist/NICO/grass_train.txt").unlink()
    built = build(f"nico={tmp_path / 'raw'}", tmp_path, workers=1, quiet=True)
    assert "listed_autumn_rock_train_val_test" not in [
        split.name for split in sd.open_dataset(built).manifest.canonical_splits
    ]
    assert "for which the data lacks classes, domains or lists" in capfd.readouterr().err
    with pytest.raises(InputError, match=r"no picture of grass is in the list 'train'"):
        sd.task(built, "listed", test=("autumn", "rock"), lists="train-val-test")


def test_a_list_that_contradicts_itself_is_named_and_the_folders_count(tmp_path):
    pacs.make(tmp_path, each=4)
    lines = (tmp_path / "PACS/photo_test_kfold.txt").read_text().splitlines()
    lines[0] = lines[0].rsplit(" ", 1)[0] + " 6"
    more = [lines[1], "photo/tractor/001.jpg 3", "", "photo/dog/no number.jpg"]
    put(tmp_path, "PACS/photo_test_kfold.txt", "\n".join([*lines, *more]))
    odd = album_of("pacs", tmp_path).left_out
    at = "PACS/photo_test_kfold.txt, line "
    assert odd[f"{at}1"] == "its number is that of another class in this list"
    assert odd[f"{at}{len(lines) + 1}"] == "names a picture a second time"
    assert odd[f"{at}{len(lines) + 2}"] == "names no class of a domain"
    assert odd["photo/dog/no number.jpg"] == "listed in photo_test_kfold.txt, and not there"


def test_lists_change_the_splits_and_not_the_dataset(tmp_path):
    ids, splits = [], []
    for name in ("with", "without"):
        pacs.make(tmp_path / name, each=4)
        if name == "without":
            for file in (tmp_path / name).rglob("*.txt"):
                file.unlink()
        built = sd.open_dataset(
            build(f"pacs={tmp_path / name}", tmp_path / f"{name}_out", workers=1, quiet=True)
        )
        ids.append(built.manifest.content_id)
        splits.append({split.name for split in built.manifest.canonical_splits})
    assert ids[0] == ids[1]
    assert {name.split("_")[0] for name in splits[0] - splits[1]} == {"listed", "dbv2"}
    assert "domainbed_code_sketch_s2" in splits[1]


def test_domainnets_splits_warn_of_nothing_and_its_pairs_are_canonical(domainnet, recwarn):
    built = build(f"domainnet={domainnet}", domainnet.parent / "built", workers=1, quiet=True)
    task = sd.task(built, "listed_sketch_train_test")
    assert {name: one.roles for name, one in task.sets.items()} == {
        "train": ("fit",),
        "validation": ("select",),
        "test": ("test",),
    }
    assert task.report().leaks == 0
    assert not [one for one in recwarn if issubclass(one.category, LeakWarning)]


@pytest.mark.slow
def test_files_with_other_names_than_the_authors_have_no_cut_by_name(tmp_path):
    names = []
    for form in (domain_trees.vlcs, domain_trees.vlcs_of_dassl):
        form(tmp_path / form.__name__)
        built = build(
            f"vlcs={tmp_path / form.__name__}", tmp_path / f"{form.__name__}_out", workers=1, quiet=True
        )
        names.append({split.name for split in sd.open_dataset(built).manifest.canonical_splits})
    assert names[0] - names[1] == {
        f"domainbed_code_{domain}{seed}"
        for domain in ("caltech101", "labelme", "sun09", "voc2007")
        for seed in ("", "_s1", "_s2")
    }
    with pytest.raises(InputError, match="do not have the names of their authors' files"):
        sd.task(built, "domainbed@code", test="SUN09")
