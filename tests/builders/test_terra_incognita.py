"""The reader of Caltech Camera Traps: sequences, pictures of two classes, and trees that are not whole."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest

from tests.builders import raw_albums
from tests.builders.replicas import terra_incognita as replica


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("terra")
    replica.make(root, each=2)
    return root


album_of = partial(raw_albums.album_of, "terra_incognita")


def test_the_frames_of_a_sequence_are_one_origin_over_files_and_labels(raw):
    origins = defaultdict(set)
    for item in album_of(raw).items():
        origins[item.source["sequence"]].add(item.origin)
        assert str(item.source["sequence"]).split("-")[1] == str(item.nuisance).removeprefix("location_")
    assert {len(names) for names in origins.values()} == {1}
    assert len(set.union(*origins.values())) == len(origins)


def test_a_picture_with_two_classes_is_a_row_of_each_in_one_split(raw):
    items = album_of(raw).items()
    twice = [item for item in items if item.source["file"].endswith("/43-raccoon-0.jpg")]
    assert {item.label for item in twice} == {"raccoon", "bird"}
    assert len({item.key for item in twice}) == 2
    assert len({item.origin for item in twice}) == 1


def test_what_is_listed_and_missing_and_what_is_there_and_not_listed_is_named(raw):
    assert album_of(raw).left_out == {
        "gone.jpg": "an annotation file lists it, and it is not there",
        f"{replica.PICTURES}/extra.jpg": "no annotation file lists it",
    }
