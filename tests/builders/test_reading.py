"""Raw files are read once: counted by opens, shared by ranks, gone on with after a kill."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders.albums import reading
from builders.albums.folder import FolderAlbum
from builders.albums.reading import Reads, Repeated, copies_of, read_once
from builders.make.build import build
from builders.parts import with_known
from builders.recipe_files import load_recipe
from shiftdata.data.executors import Rank
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError, IntegrityError

LABELS = ("cat", "dog")
RECIPE = """
from pathlib import Path

from builders.albums.folder import FolderAlbum
from builders.encode import ImageEncoding
from builders.recipe import Base, Recipe
from builders.shifts.steps.domains import Domains

RECIPE = Recipe(
    name="photos", family="domain", version="1.0.0", released="2026-11-28", creators=("A. Maker",),
    title="Photos", summary="Photos.", citation="None.",
    album=FolderAlbum(Path("{root}"), layout=("domain", "label"), license="CC0-1.0", attribution="A"),
    nuisance="domain", shift=Domains(names=("art", "photo")), encoding=ImageEncoding(),
    bases=(Base(name="all", summary="Every photo."),), default_base="all",
)
"""
_opened: Counter[str] | None = None


def _count(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        _opened[os.path.basename(os.fsdecode(arguments[0]))] += 1


sys.addaudithook(_count)


@contextmanager
def opens() -> Iterator[Counter[str]]:
    """Count the files that this process opens, by name."""
    global _opened
    _opened = Counter()
    try:
        yield _opened
    finally:
        _opened = None


@pytest.fixture
def photos(tmp_path) -> Path:
    draw = np.random.default_rng(0)
    for domain in ("art", "photo"):
        for label in LABELS:
            folder = tmp_path / "photos" / domain / label
            folder.mkdir(parents=True)
            for number in range(10):
                pixels = draw.integers(0, 255, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{domain}_{label}_{number}.png")
    (tmp_path / "photos/art/cat/cut.png").write_bytes(b"not a picture")
    return tmp_path / "photos"


@pytest.fixture
def recipe(photos, tmp_path, monkeypatch) -> Path:
    path = tmp_path / "photos.py"
    path.write_text(RECIPE.format(root=photos))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reading, "FILES_OF_STRETCH", 7)
    return path


def album_at(photos: Path) -> FolderAlbum:
    return FolderAlbum(photos, layout=("domain", "label"), license="CC0-1.0", attribution="A")


def content_id(folder: Path) -> str:
    return Manifest.read(folder).content_id


def test_a_build_opens_each_raw_file_once_and_a_second_build_none(recipe, tmp_path):
    with opens() as first:
        folder = build(str(recipe), tmp_path / "out", workers=1, quiet=True)
    pictures = {name: count for name, count in first.items() if name.endswith(".png") and "_" in name}
    assert len(pictures) == 40
    assert set(pictures.values()) == {1}
    assert first["cut.png"] == 1
    with opens() as again:
        build(str(recipe), tmp_path / "out", workers=1, quiet=True)
    assert not [name for name in again if name in pictures or name == "cut.png"]
    assert not list((tmp_path / "out/.work/photos").glob("copies-*")), "copies go with the spool"
    assert content_id(folder) == content_id(build(str(recipe), tmp_path / "pool", workers=2, quiet=True))


def test_the_rest_of_a_build_needs_no_raw_file(recipe, photos, tmp_path):
    expected = content_id(build(str(recipe), tmp_path / "expected", workers=1, quiet=True))
    album = load_recipe(str(recipe)).album
    spools, work = tmp_path / "out/.work/photos", tmp_path / "out/.work/photos"
    reads = read_once(album, str(spools), work)
    for path in photos.rglob("*.png"):
        status = path.stat()
        path.write_bytes(b"?" * status.st_size)  # what opens it again gets other bytes
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    known = with_known(album, reads=reads)
    assert len(known.items()) == 40
    assert dict(known.left_out) == {"art/cat/cut.png": "not a picture by its first bytes"}
    built = build(str(recipe), tmp_path / "out", workers=2, quiet=True)
    assert content_id(built) == expected


def test_ranks_read_different_files_and_agree(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "FILES_OF_STRETCH", 3)
    album, read = album_at(photos), Counter[str]()
    whole = FolderAlbum.read
    monkeypatch.setattr(FolderAlbum, "read", lambda of, name: read.update([name]) or whole(of, name))
    results = [read_once(album, str(tmp_path / "s"), tmp_path / f"rank{n}", Rank(n, 2)) for n in range(2)]
    assert set(read.values()) == {1}
    assert results[0].known == results[1].known
    assert results[0].known["name"].to_pylist() == Reads.of(album).known["name"].to_pylist()


def test_a_reading_that_was_killed_goes_on_and_a_changed_file_is_read_again(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "FILES_OF_STRETCH", 5)
    monkeypatch.setattr(reading, "READERS", 1)
    album, read = album_at(photos), list[str]()
    whole = FolderAlbum.read

    def dies(of: FolderAlbum, name: str) -> bytes:
        if len(read) > 20:
            raise KeyboardInterrupt
        read.append(name)
        return whole(of, name)

    with monkeypatch.context() as patched:
        patched.setattr(FolderAlbum, "read", dies)
        with pytest.raises(KeyboardInterrupt):
            read_once(album, str(tmp_path / "s"), tmp_path / "work")
    kept = list((tmp_path / "s").rglob("*.copies"))
    assert kept
    read.clear()
    monkeypatch.setattr(FolderAlbum, "read", lambda of, name: read.append(name) or whole(of, name))
    read_once(album, str(tmp_path / "s"), tmp_path / "work")
    assert 0 < len(read) <= 45 - 5 * len(kept), "of a stretch there is one file alone"
    changed = photos / "photo/dog/photo_dog_3.png"
    changed.write_bytes((photos / "art/cat/art_cat_0.png").read_bytes())
    read.clear()
    reads = read_once(album_at(photos), str(tmp_path / "s"), tmp_path / "work")
    assert "photo/dog/photo_dog_3.png" in read
    digests = dict(zip(reads.known["name"].to_pylist(), reads.known["digest"].to_pylist(), strict=True))
    assert digests["photo/dog/photo_dog_3.png"] == digests["art/cat/art_cat_0.png"]


def test_a_damaged_copy_is_not_used_and_a_damaged_stretch_is_named(photos, tmp_path):
    album = album_at(photos)
    album = with_known(album, reads=read_once(album, str(tmp_path / "s"), tmp_path / "work"))
    copies, (copy, *_) = copies_of(album), album.items().copies()
    assert copies
    assert copy
    first = album.items()[0]
    assert copies.read(copy) == album.file(first).read_bytes()
    (path,) = (tmp_path / "s").rglob("*.copies")
    data = bytearray(path.read_bytes())
    data[copy.at + 3] ^= 1
    path.write_bytes(data)
    assert copies.read(copy) is None, "the raw file is read instead"
    data[200] ^= 1
    path.write_bytes(data)
    for kept in (tmp_path / "work").glob("files-*"):
        kept.unlink()
    with pytest.raises(IntegrityError, match=r"\.copies is damaged \(.*\): delete it and run again"):
        read_once(album_at(photos), str(tmp_path / "s"), tmp_path / "work")
    shutil.rmtree(tmp_path / "s")
    assert copies.read(copy) is None


@pytest.mark.parametrize(
    ("name", "at"), [("art/cat/aaa.png", "art/cat/art_cat_0"), ("photo/dog/zzz.png", "its end")]
)
def test_files_that_come_while_they_are_listed_are_refused(photos, name, at):
    album = album_at(photos)
    assert len(album.reads.known) == 41
    shutil.copy(photos / "art/cat/art_cat_0.png", photos / name)
    with pytest.raises(InputError, match=f"changed while it was listed, at {at}"):
        album.items()


def test_an_album_with_slots_has_no_copies():
    @dataclass(slots=True)
    class Own:
        reads: int = 0

    assert copies_of(Own()) is None


def test_texts_that_come_again_are_known_among_many():
    repeated = Repeated()
    for text in ("a", "b", "a", "c"):
        repeated.add(text)
    assert [text in repeated for text in "abcd"] == [True, False, False, False]
    assert len(repeated) == 4
