"""What comes from one origin is one origin in every album, whatever its labels, domains and spelling are."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import ClassVar

import pytest
from PIL import Image

from builders.albums import Album
from builders.albums.folder import FolderAlbum, slug
from builders.albums.glyphs import GlyphAlbum
from builders.albums.rows import Columns, RowsAlbum
from builders.items import ItemTable
from builders.make import assign
from builders.raw.album import RawAlbum
from builders.raw.found import Row
from builders.raw.tree import Tree
from builders.sample import Item
from shiftdata.data.format.schema import split_of_fold

TERMS = {"license": "CC0-1.0", "attribution": "A. Maker"}
#: By label and domain; an author is written in several ways.
AUTHORS = [
    (label, domain, author)
    for label, domain in product(("negative", "positive"), ("books", "films"))
    for author in [f"{'R.' if label == 'negative' else 'r'} Reader {number}" for number in range(20)]
    + [f"only {label} {number}" for number in range(20)]
]


def rows(root: Path) -> RowsAlbum:
    with (root / "reviews.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label", "domain", "author"))
        writer.writerows((f"text {n}", *row) for n, row in enumerate(AUTHORS))
    columns = Columns(label="label", text="text", domain="domain", origin="author", keep=("author",))
    return RowsAlbum(root / "reviews.csv", columns, **TERMS)


def folder(root: Path) -> FolderAlbum:
    with (root / "items.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("file", "label", "domain", "origin"))
        for number, row in enumerate(AUTHORS):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(root / f"{number}.png")
            writer.writerow((f"{number}.png", *row))
    return FolderAlbum(root, layout=("domain", "label"), **TERMS)


@dataclass(frozen=True)
class Authors:
    """A layout that knows the origin of each of its files."""

    code_version: ClassVar[int] = 1

    def rows(self, tree: Tree):
        for number, (label, domain, author) in enumerate(AUTHORS):
            name = f"{number}.txt"
            yield Row(file=name, label=label, nuisance=domain, origin=author, across=True)


def raw(root: Path) -> RawAlbum:
    for number in range(len(AUTHORS)):
        (root / f"{number}.txt").write_text(str(number))
    return RawAlbum(name="reviews", layout=Authors(), root=root, **TERMS)


def author_of(item: Item) -> str:
    number = Path(str(item.source["file"])).stem if "file" in item.source else None
    return slug(str(item.source["author"]) if number is None else AUTHORS[int(number)][2])


@pytest.mark.parametrize(
    ("album", "unit"),
    [
        (rows, author_of),
        (folder, author_of),
        (raw, author_of),
        (lambda _: GlyphAlbum(domains=True), lambda item: str(item.source["face"]).rpartition("-")[0]),
    ],
    ids=["rows", "folder", "raw", "glyphs"],
)
def test_an_origin_is_one_in_all_labels_and_domains(
    tmp_path, album: Callable[[Path], Album], unit: Callable[[Item], str]
):
    items, origins, splits = ItemTable.of(album(tmp_path).items()), defaultdict(set), defaultdict(set)
    for item, fold in zip(items, assign.folds(items).tolist(), strict=True):
        origins[unit(item)].add(item.origin)
        splits[unit(item)].add(split_of_fold(fold))
    assert {len(names) for names in origins.values()} == {1}
    assert {len(names) for names in splits.values()} == {1}
    assert len(set.union(*splits.values())) == 3
