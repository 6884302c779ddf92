"""Equal bytes are one origin in every album; conflicting labels are named."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shiftdata as sd
from builders.__main__ import main
from builders.albums.folder import FolderAlbum, picture_of
from builders.albums.rows import Columns, RowsAlbum
from builders.make import assign
from builders.make.equal import listed
from builders.raw.album import RawAlbum
from builders.raw.folders import Folders
from shiftdata.data.format import written
from shiftdata.data.format.manifest import Manifest
from shiftdata.evaluation.verify import verify

DOMAINS, LABELS = ("art", "photo", "sketch"), ("cat", "dog")
OWNER = ("--license", "CC0-1.0", "--attribution", "A. Maker", "--creator", "A. Maker")
TERMS = {"license": "CC0-1.0", "attribution": "A. Maker"}
#: The same bytes under two domains and two labels, as one origin and as the rest of a chain.
COPIES = ("photo/cat/copy.png", "sketch/dog/copy.png")


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    """Pictures of noise, one of which is there three times."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    for domain in DOMAINS:
        for label in LABELS:
            folder = tmp_path / "photos" / domain / label
            folder.mkdir(parents=True)
            for number in range(12):
                pixels = draw.integers(0, 255, (24, 24, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    for copy in COPIES:
        shutil.copy(tmp_path / "photos/art/cat/3.png", tmp_path / "photos" / copy)
    return tmp_path / "photos"


def folder_album(photos: Path) -> FolderAlbum:
    return FolderAlbum(photos, layout=("domain", "label"), **TERMS)


def raw_album(photos: Path) -> RawAlbum:
    layout = Folders(domains=tuple(DOMAINS), labels=tuple(LABELS))
    return RawAlbum(name="photos", layout=layout, root=photos, **TERMS)


@pytest.mark.parametrize("kind", [folder_album, raw_album])
@pytest.mark.parametrize("packed", [False, True])
def test_equal_files_are_one_origin_across_domains_and_labels(photos, kind, packed):
    if packed:
        if kind is folder_album:
            pytest.skip("a folder has no archives")
        photos = Path(shutil.make_archive(str(photos.parent / "packed"), "zip", photos))
    content = listed(kind(photos))
    (rows,) = content.equal
    members = content.items.take(rows)
    assert {(item.label, item.nuisance) for item in members} == {
        ("cat", "art"),
        ("cat", "photo"),
        ("dog", "sketch"),
    }
    assert len({item.origin for item in members}) == 1
    counts = content.counts
    assert (counts.items, counts.sets, counts.labels, counts.nuisances) == (3, 1, 1, 1)
    assert len({item.origin for item in content.items}) == len(content.items) - 2


def test_new_build_verify_and_the_card_say_so_and_no_task_leaks(photos, capsys):
    assert main(["new", "photos", *OWNER]) == 0
    said = capsys.readouterr().out
    assert "art/cat/3.png (cat) = photo/cat/copy.png (cat) = sketch/dog/copy.png (dog)" in said
    assert "warning: equal bytes under several labels (1)" in said
    assert main(["build", "photos.py", "--workers", "1"]) == 0
    assert "keep that item and delete the others" in capsys.readouterr().err
    built = Path("build/shift/photos")
    assert verify(built) == []
    equal = Manifest.read(built).equal_content
    assert equal is not None
    assert (equal.items, equal.sets, equal.labels) == (3, 1, 1)
    card = (built / "README.md").read_text(encoding="utf-8")
    assert "3 content items are equal to another to the byte" in card
    assert "1 contents occur under several labels" in card
    content = listed(folder_album(photos))
    copies = {item.key for item in content.items.take(content.equal[0])}
    seen = set[str]()
    for test in DOMAINS:
        task = sd.task(str(built), "leave-one-domain-out", test=test)
        with_copies = [name for name in task.sets if copies & set(task.keys(name))]
        seen.update(with_copies)
        assert len(with_copies) <= 1, test
    assert seen


@pytest.fixture
def resaved(photos) -> Path:
    """A picture whose pixels lie in other files too, of other bytes."""
    for copy, suffix in zip(COPIES, (".bmp", ".tif"), strict=True):
        (photos / copy).unlink()
        Image.open(photos / "art/cat/3.png").save((photos / copy).with_suffix(suffix))
    assert main(["new", "photos", *OWNER]) == 0
    return photos


def test_equal_examples_of_unequal_files_are_counted_and_named(resaved, capsys):
    assert not listed(folder_album(resaved)).equal
    assert main(["build", "photos.py", "--workers", "1"]) == 0
    warning = "warning: 1 sets of equal untouched examples in the base 'all'"
    assert warning in capsys.readouterr().out
    built = Path("build/shift/photos")
    notes: list[str] = []
    assert verify(built, on_note=notes.append) == []
    assert any(warning in note for note in notes)
    card = (built / "README.md").read_text(encoding="utf-8")
    assert "In the base `all`, 1 sets of equal examples have several origins in several splits" in card


def test_verify_refuses_equal_examples_that_the_manifest_does_not_count(resaved, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(written, "equal_apart", lambda rows: [])
        assert main(["build", "photos.py", "--workers", "1", "--quiet"]) == 0
    (problem,) = map(str, verify(Path("build/shift/photos")))
    assert "has 1 sets of equal examples of several origins in several splits, such as cat--" in problem


def test_joined_origins_do_not_depend_on_the_order_of_the_items(photos):
    album = folder_album(photos)
    content = listed(album)

    class Shuffled:
        def items(self):
            return tuple(random.Random(1).sample(album.items(), len(album.items())))

        def digests(self):
            items = album.items()
            return {item.key: of.hex() for item, of in zip(items, items.digests(), strict=True)}

        place, left_out = album.place, {}

    assert listed(Shuffled()).items == content.items
    assert len(set(assign.folds(content.items)[content.equal[0]])) == 1


def test_origins_that_are_given_are_joined_in_chains(tmp_path):
    """Ann and Bo share a text, Bo and Cy another: one origin; an author under two labels is one too."""
    rows = [
        "same a,x,ann",
        "same a,y,bo",
        "same b,x,bo",
        "same b,x,cy",
        "own,x,dee",
        "other,y,dee",
        "alone,y,eve",
    ]
    (tmp_path / "a.csv").write_text("text,label,by\n" + "\n".join(rows) + "\n", encoding="utf-8")
    album = RowsAlbum(tmp_path / "a.csv", Columns(text="text", label="label", origin="by"), **TERMS)
    content = listed(album)
    origin = {album.place(item): item.origin for item in content.items}
    assert len({origin[f"line {line}"] for line in (2, 3, 4, 5)}) == 1
    assert origin["line 6"] == origin["line 7"]
    assert len(set(origin.values())) == 3
    assert content.counts.labels == 1


ODD = {
    "CMYK": lambda grey: Image.merge("CMYK", [grey, grey, grey, Image.new("L", grey.size)]),
    "I;16": lambda grey: Image.fromarray(np.asarray(grey).astype(np.uint16) * 257),
}


@pytest.mark.parametrize("mode", list(ODD))
def test_pictures_in_ordinary_odd_modes_are_read_as_they_look(tmp_path, mode):
    grey = Image.linear_gradient("L").resize((32, 32))
    odd = ODD[mode](grey)
    assert odd.mode == mode
    odd.save(tmp_path / f"odd.{'tif' if mode == 'CMYK' else 'png'}")
    (file,) = tmp_path.iterdir()
    expected = np.asarray(grey).astype(int)
    shown = np.asarray(picture_of(file).convert("L")).astype(int)
    assert np.abs(shown - (255 - expected if mode == "CMYK" else expected)).max() <= 1
