from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from PIL import Image

from builders.albums import Album
from builders.albums.folder import FolderAlbum, key_of
from builders.sample import BadItem
from shiftdata.data.format.schema import KEY_PATTERN
from shiftdata.errors import InputError, StorageError
from tests.tiny import write_recipe


def picture(path: Path, mode: str = "RGB", size: tuple[int, int] = (16, 12)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size).save(path)
    return path


def album(root: Path, **options) -> FolderAlbum:
    return FolderAlbum(root, license="CC0-1.0", attribution="made here", **options)


def test_sub_folders_are_labels(tmp_path):
    picture(tmp_path / "cat" / "Tom 1.png")
    picture(tmp_path / "dog" / "rex.png")
    made = album(tmp_path)
    assert isinstance(made, Album)
    assert made.labels == ("cat", "dog")
    assert [(item.key, item.label, item.origin) for item in made.items()] == [
        ("cat_tom-1", "cat", "cat/tom-1"),
        ("dog_rex", "dog", "dog/rex"),
    ]


def test_a_table_gives_labels_origins_and_licences(tmp_path):
    for name in ("a.png", "b.png", "unlisted.png"):
        picture(tmp_path / "x" / name)
    table = "file,label,origin,license,attribution\nx/a.png,cat,pair,MIT,Ann\nx/b.png,cat,pair,,\n"
    (tmp_path / "items.csv").write_text(table)
    first, second = album(tmp_path).items()
    assert (first.origin, first.license, first.attribution) == ("cat/pair", "MIT", "Ann")
    assert (second.origin, second.license, second.attribution) == ("cat/pair", "CC0-1.0", "made here")
    (tmp_path / "items.csv").write_text(table.replace("MIT", "Gnu General Public"))
    with pytest.raises(InputError, match=r"x/a\.png: the licence 'Gnu .* is not an SPDX identifier"):
        album(tmp_path).items()
    with pytest.raises(InputError, match=r"the album .*: the licence 'cc by 4\.0' is not .* mean CC-BY-4\.0"):
        FolderAlbum(tmp_path, license="cc by 4.0", attribution="x")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("file,label\nx/a.png,lion\n", "x/a.png in .* has the label 'lion'; allowed: cat, dog"),
        ("file,label\nx/gone.png,cat\n", "names x/gone.png, which is not in"),
        ("file,label\n../secret.png,cat\n", "which lies outside"),
        ("file,label\nx/a.png,cat\nx/a.png,dog\n", "lists x/a.png 2 times: list it once"),
    ],
)
def test_a_bad_table_is_refused(tmp_path, table, message):
    picture(tmp_path / "x" / "a.png")
    picture(tmp_path / "x" / "a.jpg")
    (tmp_path / "items.csv").write_text(table)
    with pytest.raises(InputError, match=message):
        album(tmp_path, allowed=("cat", "dog")).items()


def truncated(path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path, "JPEG")
    path.write_bytes(path.read_bytes()[:900])


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("a.jpg", truncated, "not a readable picture"),
        ("a.tif", lambda path: picture(path, "F"), "colour mode F, which has no one conversion to RGB"),
        ("a.png", lambda path: picture(path, size=(1, 1)), "a side below 8 pixels (1 x 1)"),
        *(
            ("a.png", lambda path, size=size: picture(path, "1", size=size), f"too many pixels ({said}")
            for size, said in (
                ((20_000, 10_000), "200,000,000; the most is 64,000,000)"),
                ((10_000, 10_000), "100,000,000; the most is 64,000,000)"),
                ((10_000, 7_000), "70,000,000; the most is 64,000,000)"),
            )
        ),
    ],
)
def test_a_picture_that_cannot_be_used_is_a_bad_item_with_a_reason(tmp_path, name, make, reason):
    (tmp_path / "cat").mkdir()
    make(tmp_path / "cat" / name)
    made = album(tmp_path)
    with pytest.raises(BadItem, match=f"^{re.escape(reason)}$"):
        made.load(made.items()[0])


@pytest.mark.parametrize(
    ("mode", "loaded"), [("L", "RGB"), ("LA", "RGBA"), ("P", "RGB"), ("1", "RGB"), ("RGBA", "RGBA")]
)
def test_usual_modes_are_converted_and_alpha_is_kept(tmp_path, mode, loaded):
    picture(tmp_path / "cat" / "a.png", mode)
    made = album(tmp_path)
    assert made.load(made.items()[0]).mode == loaded


def test_the_fingerprint_is_of_the_content_and_not_of_the_place(tmp_path):
    for root in ("one", "two"):
        picture(tmp_path / root / "cat" / "a.png")
    one, two = album(tmp_path / "one"), album(tmp_path / "two")
    assert one.fingerprint() == two.fingerprint()
    picture(tmp_path / "two" / "cat" / "a.png", size=(17, 12))
    assert album(tmp_path / "two").fingerprint() != one.fingerprint()


@pytest.mark.parametrize("layout", [("domain", "label"), ("label", "domain")])
def test_a_layout_names_the_levels_of_folders(tmp_path, layout):
    for domain in ("Real World", "Clip-Art"):
        places = {"domain": domain, "label": "Alarm Clock"}
        picture(tmp_path.joinpath(*(places[level] for level in layout), "00001.png"))
    made = album(tmp_path, layout=layout)
    assert made.labels == ("Alarm Clock",)
    assert [(item.key, item.nuisance, item.origin) for item in made.items()] == [
        ("alarm-clock--00001--clip-art", "Clip-Art", "alarm-clock/clip-art/00001"),
        ("alarm-clock--00001--real-world", "Real World", "alarm-clock/real-world/00001"),
    ]
    assert made.load(made.items()[0]).size == (16, 12)


def test_a_table_gives_domains_and_origins_that_they_share(tmp_path):
    for domain in ("photo", "sketch"):
        picture(tmp_path / domain / "a.png")
        picture(tmp_path / domain / "b.png")
    table = "file,label,domain,origin\n" + "".join(
        f"{domain}/{name}.png,cat,{domain},{origin}\n"
        for domain in ("photo", "sketch")
        for name, origin in (("a", "tom"), ("b", ""))
    )
    (tmp_path / "items.csv").write_text(table)
    assert [(item.key, item.nuisance, item.origin) for item in album(tmp_path).items()] == [
        ("cat--a--photo", "photo", "cat/tom"),
        ("cat--a--sketch", "sketch", "cat/tom"),
        ("cat--b--photo", "photo", "cat/photo/b"),
        ("cat--b--sketch", "sketch", "cat/sketch/b"),
    ]


@pytest.mark.parametrize("layout", [(), ("domain",), ("label", "label"), ("label", "style"), "label"])
def test_a_layout_that_cannot_be_is_refused(tmp_path, layout):
    with pytest.raises(InputError, match="a layout names each level of folders"):
        album(tmp_path, layout=layout)


@pytest.mark.parametrize(
    ("file", "layout", "message"),
    [
        ("stray.JPG", ("label",), "stray.JPG in .* lies 0 folders deep; .* expects <label>/<picture>"),
        ("a/b/c/d.png", ("domain", "label"), r"a/b/c/d.png .* 3 folders deep; .*\('domain', 'label'\)"),
    ],
)
def test_a_picture_at_another_depth_is_named(tmp_path, file, layout, message):
    picture(tmp_path.joinpath("x", *layout[1:], "fine.png"))
    picture(tmp_path / file)
    with pytest.raises(InputError, match=message):
        album(tmp_path, layout=layout).items()


def test_names_that_differ_in_their_ending_or_in_signs_have_keys_of_their_own(tmp_path):
    for file in ("cat/1.png", "cat/1.bmp", "cat/IMG (1).png", "cat/IMG-1.png", "Cat/1.png", "cat/2.png"):
        picture(tmp_path / file)
    items = album(tmp_path).items()
    assert len({item.key for item in items}) == len({item.origin for item in items}) == 6
    assert "cat_2" in {item.key for item in items}, "only those that would clash need more than their name"


STRAY = {
    "notes.txt": lambda path: path.write_text("hello"),
    "Thumbs.db": lambda path: path.write_bytes(b"\xd0\xcf\x11\xe0" * 99),
    ".DS_Store": lambda path: path.write_bytes(b"\0\0\0\1Bud1"),
    "a.txt": lambda path: path.write_text("beside a.png, with a key that would be its own"),
    "folder.png": lambda path: path.mkdir(),
    "empty.png": lambda path: path.write_bytes(b""),
    "cut.jpg": lambda path: path.write_bytes(b"\xff\xd8\xff\xe0"),
    "page.png": lambda path: path.write_text("<html>404</html>"),
    "nowhere.png": lambda path: path.symlink_to("gone"),
    "phone.heic": lambda path: path.write_bytes(b"\0\0\0\x18ftypheic"),
    "photo": lambda path: Image.new("RGB", (9, 9)).save(path, "PNG"),
}


#: Those of them that somebody may have meant as a picture.
NAMED = ("empty.png", "cut.jpg", "page.png", "nowhere.png", "photo", "phone.heic")


@pytest.mark.parametrize("name", STRAY)
def test_a_stray_file_changes_nothing_and_is_named_if_it_was_meant_as_a_picture(tmp_path, name):
    for label in ("cat", "dog"):
        for stem in "abcdefgh":
            picture(tmp_path / label / f"{stem}.png")
    clean = album(tmp_path)
    expected = (clean.labels, clean.items(), clean.fingerprint())
    STRAY[name](tmp_path / "cat" / name)
    (tmp_path / "bird").mkdir()
    STRAY[name](tmp_path / "bird" / name)
    made = album(tmp_path)
    assert (made.labels, made.items(), made.fingerprint()) == expected
    assert set(made.left_out) == ({f"cat/{name}", f"bird/{name}"} if name in NAMED else set())


def test_linked_folders_are_followed_and_circles_are_not(tmp_path):
    picture(tmp_path / "elsewhere" / "a.png")
    root = tmp_path / "root"
    root.mkdir()
    (root / "cat").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "up").symlink_to(root)
    assert [item.key for item in album(root).items()] == ["cat_a"]


NAMES = st.text(
    st.one_of(st.sampled_from("ab1 _-.äß狗"), st.characters(codec="utf-8", exclude_categories=("Cs",))),
    min_size=1,
    max_size=150,
)


def told(text: str) -> str:
    """What a slug must keep of a text."""
    return "".join(letter for letter in unicodedata.normalize("NFC", text).lower() if letter.isalnum())


@given(*[st.tuples(NAMES, NAMES, NAMES)] * 2)
def test_names_that_differ_have_valid_keys_that_differ(one, two):
    keys = {key_of(*one), key_of(*two)}
    assert all(KEY_PATTERN.fullmatch(key) and len(key) <= 80 for key in keys)
    if [told(part) for part in one] != [told(part) for part in two]:
        assert len(keys) == 2


def test_a_picture_that_cannot_be_read_is_not_a_bad_one(tmp_path):
    """On another node, say, which lacks the file: it would be left out there alone."""
    write_recipe(tmp_path)
    album = FolderAlbum(tmp_path / "pictures", license="CC0-1.0", attribution="made here")
    first, *_ = album.items()
    album.file(first).unlink()
    with pytest.raises(StorageError, match=r"cannot read .* No such file"):
        album.load(first)
