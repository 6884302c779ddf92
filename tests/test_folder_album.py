from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders.albums import Album
from builders.albums.folder import FolderAlbum
from builders.sample import BadItem
from shiftdata.errors import InputError


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


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("file,label\nx/a.png,lion\n", "x/a.png in .* has the label 'lion'; allowed: cat, dog"),
        ("file\nx/a.png\n", "lacks the column label"),
        ("file,label\nx/gone.png,cat\n", "names x/gone.png, which is not in"),
        ("file,label\n../secret.png,cat\n", "which lies outside"),
        ("file,label\nx/a.png,cat\nx/a.jpg,cat\n", "the key 'cat_a' is given to both x/a.png and x/a.jpg"),
        ("file,label\n", "holds no picture"),
    ],
)
def test_a_bad_table_is_refused(tmp_path, table, message):
    picture(tmp_path / "x" / "a.png")
    picture(tmp_path / "x" / "a.jpg")
    (tmp_path / "items.csv").write_text(table)
    with pytest.raises(InputError, match=message):
        album(tmp_path, allowed=("cat", "dog")).items()


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        album(tmp_path / "none")


def truncated(path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path, "JPEG")
    path.write_bytes(path.read_bytes()[:900])


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("a.jpg", truncated, "not a readable picture"),
        ("a.txt", lambda path: path.write_text("hello"), "not a readable picture"),
        ("a.png", lambda path: path.write_bytes(b""), "not a readable picture"),
        ("a.jpg", lambda path: picture(path, "CMYK"), "colour mode CMYK, which has no one conversion to RGB"),
        ("a.tif", lambda path: picture(path, "F"), "colour mode F, which has no one conversion to RGB"),
        ("a.png", lambda path: picture(path, size=(1, 1)), "a side below 8 pixels"),
        ("a.png", lambda path: picture(path, "1", size=(20_000, 10_000)), "too many pixels"),
        ("a.png", lambda path: picture(path, "1", size=(10_000, 10_000)), "too many pixels"),
        ("a.png", lambda path: picture(path, "1", size=(10_000, 7_000)), "too many pixels"),
    ],
)
def test_a_bad_picture_is_a_bad_item_with_a_reason(tmp_path, name, make, reason):
    (tmp_path / "cat").mkdir()
    make(tmp_path / "cat" / name)
    made = album(tmp_path)
    with pytest.raises(BadItem, match=f"^{re.escape(reason)}$"):
        made.load(made.items()[0])


def test_a_photograph_is_turned_as_its_camera_was_held(tmp_path):
    (tmp_path / "cat").mkdir()
    tags = Image.Exif()
    tags[0x0112] = 6  # orientation: turn by 90 degrees
    Image.new("RGB", (40, 20)).save(tmp_path / "cat" / "a.jpg", exif=tags)
    made = album(tmp_path)
    assert made.load(made.items()[0]).size == (20, 40)


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
