"""Copies of domain datasets as rows: the same pictures from Parquet files as from the authors' files."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import datasets
import pytest
from PIL import Image

import shiftdata as sd
from builders.make.build import build
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import LeaveOneDomainOut
from tests.builders.raw_albums import album_of
from tests.builders.replicas import pacs

FEATURES = datasets.Features(
    {
        "image": datasets.Image(),
        "domain": datasets.Value("string"),
        "label": datasets.ClassLabel(names=list(pacs.LABELS)),
    }
)


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("raw")
    pacs.make(root, each=4)
    return root


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory) -> Iterator[None]:
    """`datasets` prepares what it reads in a folder of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        yield


def rows_of(raw: Path, *, names: bool) -> Iterator[dict[str, object]]:
    """The pictures of a tree as somebody copied them, in the order of his disk."""
    for file in sorted((raw / pacs.TOP).glob("*/*/*.[jp][pn]g"), key=lambda file: file.name[::-1]):
        image = {"bytes": file.read_bytes(), "path": file.name if names else None}
        yield {"image": image, "domain": file.parts[-3], "label": file.parts[-2]}


def copied(raw: Path, folder: Path, *, names: bool = False, shards: int = 1) -> Path:
    """A Parquet dataset in a folder, as `push_to_hub` lays it out."""
    rows = datasets.Dataset.from_list(list(rows_of(raw, names=names)), features=FEATURES)
    for shard in range(shards):
        (folder / "data").mkdir(parents=True, exist_ok=True)
        file = folder / f"data/train-{shard:05}-of-{shards:05}.parquet"
        rows.shard(shards, shard).to_parquet(file)
    return folder


@pytest.mark.slow
def test_a_copy_that_kept_the_names_is_the_dataset(raw, tmp_path):
    copy = copied(raw, tmp_path / "copy", names=True)
    folders = [
        build(f"pacs={place}", tmp_path / name, workers=1, quiet=True)
        for name, place in (("a", raw), ("b", copy))
    ]
    first, second = ([base.content_id for base in sd.info(folder).bases] for folder in folders)
    assert first == second


def test_a_recipe_that_needs_names_refuses_rows_without(raw, tmp_path):
    with pytest.raises(InputError, match=r"lost the names of their files .* build hub_<name>"):
        album_of("pacs", copied(raw, tmp_path / "copy")).items()


def test_rows_without_names_give_every_picture(raw, tmp_path):
    album = album_of("hub_pacs", copied(raw, tmp_path / "copy"))
    theirs = album_of("pacs", raw)
    for of in (lambda item: (item.nuisance, item.label), lambda item: item.nuisance):
        assert Counter(map(of, album.items())) == Counter(map(of, theirs.items()))
    assert {album.tree.read(album.place(item)) for item in album.items()} == {
        theirs.tree.read(theirs.place(item)) for item in theirs.items()
    }
    assert len({item.origin for item in album.items()}) == len(album.items())


def test_rows_without_names_go_to_a_task(raw, tmp_path):
    folder = build(f"hub_pacs={copied(raw, tmp_path / 'copy')}", tmp_path, workers=1, quiet=True)
    task = sd.task(folder, LeaveOneDomainOut(test="sketch"), on_empty="report")
    assert task.evaluate(task.table("test")["label"].to_pylist()).overall == 1
    assert not [split for split in sd.info(folder).canonical_splits if "code" in split.protocol]


def test_equal_pictures_of_a_class_are_rows_of_their_own(tmp_path):
    stream = io.BytesIO()
    Image.new("RGB", (16, 16), "red").save(stream, "PNG")
    image = {"bytes": stream.getvalue(), "path": None}
    rows = [{"image": image, "domain": "photo", "label": "dog"}] * 3
    (tmp_path / "copy").mkdir()
    datasets.Dataset.from_list(rows, features=FEATURES).to_parquet(tmp_path / "copy/train.parquet")
    assert len({item.key for item in album_of("hub_pacs", tmp_path / "copy").items()}) == 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": None}, "has no column label"),
        ({"label": datasets.Value("int64")}, "numbers without names"),
        ({"image": datasets.Value("binary")}, "is not one of pictures"),
    ],
)
def test_columns_that_do_not_fit_are_named(raw, tmp_path, columns, message):
    rows = datasets.Dataset.from_list(list(rows_of(raw, names=False))[:5], features=FEATURES)
    for name, feature in columns.items():
        values = [b"x"] * len(rows) if name == "image" else rows[name][:]
        rows = rows.remove_columns([name])
        if feature is not None:
            rows = rows.add_column(name, values, feature=feature)
    (tmp_path / "copy").mkdir()
    rows.to_parquet(tmp_path / "copy/train.parquet")
    with pytest.raises(InputError, match=message):
        album_of("hub_pacs", tmp_path / "copy").items()
