"""The embedded album of letters: what ships, how it is drawn, and that families stay on one side."""

from __future__ import annotations

import csv
import shutil
import zipfile
from collections import defaultdict

import numpy as np
import pytest

from builders.albums.glyphs import ASSETS, FONT_CLASSES, LETTERS, GlyphAlbum
from builders.items import ItemTable
from builders.make.assign import folds
from builders.sample import BadItem
from shiftdata.data.format.licenses import withheld
from shiftdata.data.format.schema import split_of_fold
from shiftdata.errors import InputError
from shiftdata.untrusted.texts import read_csv

ITEMS = GlyphAlbum().items()


def table(name: str) -> list[dict[str, str]]:
    with (ASSETS / name).open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle, delimiter="\t"))


def test_every_face_has_every_letter():
    faces = defaultdict(list)
    for item in ITEMS:
        faces[item.source["face"]].append(item.label)
    assert len(faces) > 500
    left_out = read_csv(ASSETS / "equal.tsv", delimiter="\t")
    missing = {f"{letter.lower()}_{face}" for face in faces for letter in set(LETTERS) - set(faces[face])}
    assert missing == {row["key"] for row in left_out}
    assert len(missing) < 0.01 * len(ITEMS)


@pytest.mark.slow
@pytest.mark.parametrize("size", [48, 64])
def test_letters_of_two_origins_differ_in_a_pixel(size):
    album, origins = GlyphAlbum(size=size), dict[bytes, str]()
    assert all(origins.setdefault(album.load(item).tobytes(), item.origin) == item.origin for item in ITEMS)
    assert sorted({item.source["font_class"] for item in ITEMS}) == list(FONT_CLASSES)


def test_a_family_and_what_looks_like_it_is_in_one_split_and_one_domain():
    items = ItemTable.of(GlyphAlbum(domains=True).items())
    split_of, domain_of = defaultdict(set), defaultdict(set)
    for item, fold in zip(items, folds(items).tolist(), strict=True):
        family = str(item.source["face"]).rpartition("-")[0]
        split_of[family].add(split_of_fold(fold))
        domain_of[item.origin].add(item.nuisance)
    assert all(len(splits) == 1 for splits in split_of.values())
    assert all(len(domains) == 1 for domains in domain_of.values())
    near = [row for row in table("lookalikes.tsv") if float(row["distance"]) < 0.1]
    assert near
    for row in near:
        assert row["verdict"] == "merged"
        assert split_of[row["family_a"]] == split_of[row["family_b"]]


def test_every_family_names_an_open_licence_and_its_authors():
    families = table("families.tsv")
    assert {row["license"] for row in families} == {"OFL-1.1", "Apache-2.0"}
    for row in families:
        assert not withheld(row["license"])
        assert row["integrity"].startswith("sha512-")
        assert row["attribution"].endswith(row["license"])
    assert "SIL OPEN FONT LICENSE Version 1.1" in (ASSETS / "OFL.txt").read_text()


@pytest.mark.parametrize("size", [16, 64, 200])
def test_a_letter_fills_its_square_at_any_size(size):
    for item in ITEMS[:: len(ITEMS) // 20]:
        image = GlyphAlbum(size=size).load(item)
        left, top, right, bottom = image.getbbox()
        assert image.size == (size, size)
        assert max(right - left, bottom - top) >= size - 1
        assert abs(left + right - size) <= 2
        assert abs(top + bottom - size) <= 2


def test_drawn_ink_is_a_colour_of_each_item_and_covers_the_same_pixels():
    dark, drawn = GlyphAlbum(size=32), GlyphAlbum(size=32, ink="drawn")
    inks = set()
    for item in ITEMS[:12]:
        plain, coloured = np.asarray(dark.load(item)), np.asarray(drawn.load(item))
        assert np.array_equal(plain[..., 3], coloured[..., 3])
        inks.add(tuple(coloured[coloured[..., 3] == 255][0, :3].tolist()))
    assert len(inks) == 12
    assert np.array_equal(coloured, np.asarray(drawn.load(item)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 0}, "at least 1 pixel"),
        ({"classes": ("serf",)}, "serif"),
        ({"ink": "red"}, "'dark' or 'drawn'"),
    ],
)
def test_bad_parameters_are_refused(options, said):
    with pytest.raises(InputError, match=said):
        GlyphAlbum(**options)


def test_fingerprints_tell_albums_apart_and_not_their_places(tmp_path):
    shutil.copytree(ASSETS, tmp_path / "moved")
    assert GlyphAlbum(assets=tmp_path / "moved").fingerprint() == GlyphAlbum().fingerprint()
    others = [
        GlyphAlbum(size=32),
        GlyphAlbum(domains=True),
        GlyphAlbum(ink="drawn"),
        GlyphAlbum(classes=("sans",)),
    ]
    assert len({album.fingerprint() for album in [GlyphAlbum(), *others]}) == 5


def test_a_letter_without_an_outline_is_left_out(tmp_path):
    shutil.copytree(ASSETS, tmp_path / "damaged")
    with zipfile.ZipFile(tmp_path / "damaged/outlines.zip", "w") as archive:
        archive.writestr("arvo-400.tsv", "A\tM0,0L1,0L1,1Z\nB\t\n")
    album = GlyphAlbum(assets=tmp_path / "damaged", size=32)
    items = {item.label: item for item in album.items()}
    for letter in "BC":
        with pytest.raises(BadItem, match="outline"):
            album.load(items[letter])
