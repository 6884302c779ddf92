"""MNIST, MNIST-M and USPS: pictures that were made of one another share an origin, in every form."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial

import pytest

import shiftdata as sd
from builders.make.build import build
from shiftdata.errors import InputError
from tests.builders import raw_albums
from tests.builders.replicas import digits as replicas

album_of = partial(raw_albums.album_of, "digits")


def counts(items) -> Counter[tuple[str, str]]:
    return Counter((item.nuisance, item.label) for item in items)


def test_a_picture_and_its_twin_share_a_split_and_no_set_of_a_task_has_the_other(tmp_path):
    replicas.make(tmp_path / "raw")
    origins = defaultdict(list)
    for item in album_of(tmp_path / "raw").items():
        origins[item.origin].append((item.nuisance, item.label))
    twins = [pair for pair in origins.values() if len(pair) > 1]
    assert len(twins) == 58
    assert all({name for name, _ in pair} == {"mnist", "mnist_m"} for pair in twins)
    folder = build(f"digits={tmp_path / 'raw'}", tmp_path, workers=1, quiet=True)
    task = sd.task(folder, "uda source=mnist target=mnist_m", on_empty="report")
    assert not task.history.leaky
    with pytest.warns(UserWarning, match="two sides"):
        leaky = sd.task(folder, "leave-one-domain-out@paper test=mnist_m", on_empty="report")
    assert leaky.history.leaky


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_files_of_torchvision_have_the_pictures_and_origins_of_the_folders(tmp_path, ending):
    replicas.make(tmp_path / "folders")
    replicas.mnist_of_torchvision(tmp_path / "arrays", ending)
    replicas.usps_of_libsvm(tmp_path / "arrays")
    folders, arrays = album_of(tmp_path / "folders"), album_of(tmp_path / "arrays")

    def seen(album, domain):
        return {
            (item.label, item.origin if domain == "mnist" else "", pixels(album, item))
            for item in album.items()
            if item.nuisance == domain
        }

    assert seen(folders, "mnist") == seen(arrays, "mnist")
    assert {row[0] for row in seen(arrays, "usps")} == set("0123456789")
    assert counts(item for item in folders.items() if item.nuisance == "usps") == counts(
        item for item in arrays.items() if item.nuisance == "usps"
    )


def pixels(album, item) -> bytes:
    example = album.load(item)
    return getattr(example, "picture", example).convert("L").tobytes()


@pytest.mark.parametrize(
    "name", ["{domain}/{part}_images/{number:06}_{digit}.jpg", "{domain}/{part}/{digit}/{number:06}.jpg"]
)
def test_digit_five_and_digits_dg_are_read_without_the_domains_that_are_not_here(tmp_path, name):
    replicas.digit_five(tmp_path, name)
    album = album_of(tmp_path)
    assert Counter(item.nuisance for item in album.items()) == {"mnist": 60, "mnist_m": 60, "usps": 60}
    assert Counter(why for file, why in album.left_out.items() if file.startswith("svhn/")) == {
        "a domain of Digit-Five and Digits-DG that this dataset lacks": 60
    }


def test_the_lists_of_tllib_give_the_digits_and_the_places(tmp_path):
    replicas.make(tmp_path / "folders")
    replicas.of_tllib(tmp_path / "lists")
    folders, listed = album_of(tmp_path / "folders"), album_of(tmp_path / "lists")
    for domain in ("mnist", "usps"):
        own = [item for item in listed.items() if item.nuisance == domain]
        assert counts(own) == counts(item for item in folders.items() if item.nuisance == domain)
    places = [
        {item.origin for item in album.items() if item.nuisance == "mnist"} for album in (folders, listed)
    ]
    assert places[0] == places[1]


def test_a_file_that_is_cut_short_or_of_another_dataset_is_named(tmp_path):
    replicas.mnist_of_torchvision(tmp_path, "")
    file = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    for data in (file.read_bytes()[:-100], b"<html>", b""):
        file.write_bytes(data)
        with pytest.raises(InputError, match=r"train-images-idx3-ubyte .*has no whole arrays"):
            album_of(tmp_path).items()
