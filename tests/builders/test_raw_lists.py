"""List files, and the two datasets that live by them: what belongs, what is odd, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path, PurePosixPath

import pytest

import shiftdata as sd
from builders.make.build import build
from shiftdata.errors import InputError
from shiftdata.evaluation.verify import verify
from tests.builders.raw_albums import album_of
from tests.builders.replicas import nico_domainnet
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
    (item,) = (item for item in album.items() if item.source["file"] == "sketch/tiger/sketch_312_000000.jpg")
    assert item.source["lists"] == {"train": 14}
    labels = album.labels
    assert [labels.index(name) for name in ("syringe", "tent", "The_Mona_Lisa", "t-shirt")] == [
        300,
        307,
        310,
        327,
    ]
    assert len(labels) == 345


def test_nico_is_numbered_by_the_authors_file_and_its_test_is_left_out(nico):
    album = album_of("nico", nico / "raw")
    assert album.labels == ("hot air balloon", "car", "cat")
    why = "the pictures of the public test have no labels"
    assert [PurePosixPath(file).parts[-2] for file, text in album.left_out.items() if text == why] == [
        "public_test_flat"
    ] * 5
    assert album.left_out["water"].startswith("missing")
    keys = {item.key for item in album.items()}
    assert {"cat--dim_000001--dim", "hot-air-balloon--dim_000001--dim"} <= keys
    for text in ('{"cat": "first"}', "[1]", "{"):
        put(nico, "bad/dg_label_id_mapping.json", text)
        put(nico, "bad/dim/cat/dim_000001.jpg")
        with pytest.raises(InputError, match=r"is not (a mapping of classes to numbers|whole JSON)"):
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
    assert names[2:4] == ["logo_group1", "logo_group2"]  # of the third pair both contexts are missing
    assert "logo_group3" not in names
    assert verify(built) == []
    task = sd.task(built, "listed_autumn_rock_train_val_test")
    tested = set(task.table("test", named=True)["domain"].to_pylist())
    assert (tested, len(task.sets["test"]), len(task.sets["validation"])) == ({"autumn", "rock"}, 60, 6)
