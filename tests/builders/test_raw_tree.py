"""Raw trees as disks, archives and downloads have them: the same files from each, each oddity named."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from builders.raw import archives
from builders.raw.album import RawAlbum
from builders.raw.folders import Folders
from builders.raw.tree import Tree
from builders.sample import BadItem
from shiftdata.errors import InputError, StorageError
from tests.builders.replicas.drawing import picture, put

LAYOUT = Folders(domains=("photo", "sketch"), labels=("cat", "dog"))
FILES = [
    f"top/{domain}/{label}/{n}.jpg" for domain in LAYOUT.domains for label in LAYOUT.labels for n in (1, 2)
]


def album(place: Path) -> RawAlbum:
    return RawAlbum(name="pets", layout=LAYOUT, license="CC0-1.0", attribution="x", root=place)


@pytest.fixture
def raw(tmp_path) -> Path:
    for file in FILES:
        put(tmp_path / "raw", file)
    return tmp_path / "raw"


@pytest.fixture(autouse=True)
def unpacked(tmp_path, monkeypatch) -> Path:
    """The folder of compressed tars that were unpacked."""
    monkeypatch.setenv("SHIFTDATA_RAW", str(tmp_path / "home"))
    return tmp_path / "home/.unpacked"


def packed(raw: Path, name: str, *, below: str = "") -> Path:
    """The raw folder as an archive, in a folder of its own."""
    archive = raw.parent / name.replace(".", "_") / name
    archive.parent.mkdir()
    files = [path for path in sorted(raw.rglob("*")) if path.is_file()]
    if name.endswith(".zip"):
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as stream:
            for path in files:
                stream.write(path, below + path.relative_to(raw).as_posix())
    else:
        mode = {"gz": "w:gz", "xz": "w:xz"}.get(name.rsplit(".", 1)[-1], "w:")
        with tarfile.open(archive, mode) as tar:
            for path in files:
                tar.add(path, below + path.relative_to(raw).as_posix())
    return archive


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tar.xz", "really_gz.tar", "no_ending"])
def test_folder_and_archives_are_the_same_album(raw, name):
    whole = album(raw).fingerprint()
    archive = packed(raw, {"really_gz.tar": "a.tar.gz", "no_ending": "b.zip"}.get(name, name))
    archive = archive.rename(archive.with_name(name))
    assert album(archive).fingerprint() == whole, "given itself"
    if name != "no_ending":
        assert album(archive.parent).fingerprint() == whole, "given the folder"
        shutil.rmtree(raw)
        assert album(archive.parent.parent).fingerprint() == whole, "deeper in the tree"


@pytest.mark.parametrize("name", ["raw.zip", "raw.tar", "raw.tar.gz", "raw.tar.xz"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6])
def test_half_a_download_is_an_error_that_says_so(raw, name, share):
    archive = packed(raw, name)
    data = archive.read_bytes()
    archive.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputError, match=r"is not a whole archive .* get it again"):
        _ = Tree(archive.parent).files


def test_a_web_page_instead_of_an_archive_is_named(tmp_path):
    put(tmp_path, "PACS.zip", "<!DOCTYPE html><html>Google Drive - Virus scan warning")
    with pytest.raises(InputError, match="is a web page and not the archive"):
        _ = Tree(tmp_path).files


@pytest.mark.parametrize("name", ["raw.zip", "raw.tar.gz"])
def test_a_damaged_member_is_named(raw, name):
    archive = packed(raw, name)
    data = bytearray(archive.read_bytes())
    middle = len(data) // 3
    data[middle : middle + 200] = bytes(200)
    archive.write_bytes(data)
    with pytest.raises((InputError, StorageError), match=r"raw\.(zip|tar\.gz)"):
        album(archive).fingerprint()


def test_a_compressed_tar_is_unpacked_once_and_anew_when_it_changes(raw, unpacked):
    archive = packed(raw, "raw.tar.gz")
    whole = album(archive.parent).fingerprint()
    (plain,) = unpacked.iterdir()
    written = plain.stat().st_mtime_ns
    assert album(archive.parent).fingerprint() == whole
    assert plain.stat().st_mtime_ns == written
    os.utime(archive, (1, 1))
    assert album(archive.parent).fingerprint() == whole
    (other,) = unpacked.iterdir()
    assert other != plain
    assert list(archive.parent.iterdir()) == [archive], "nothing is written next to it"


@pytest.mark.parametrize(
    "name", [b"caf\x82.jpg", "café.jpg".encode(), "cafe\u0301.jpg".encode(), "猫.jpg".encode()]
)
def test_names_in_any_encoding_are_the_same_from_everywhere(tmp_path, name):
    raw = tmp_path / "raw"
    put(raw, "photo/cat/1.jpg")
    with open(os.path.join(os.fsencode(raw / "photo/cat"), name), "wb") as stream:
        stream.write(picture("x"))
    tar = packed(raw, "raw.tar")
    zipped = tmp_path / "raw.zip"
    with zipfile.ZipFile(zipped, "w") as stream:  # as a program that does not say which encoding
        stream.write(raw / "photo/cat/1.jpg", "photo/cat/1.jpg")
        stream.writestr("photo/cat/" + "x" * len(name), picture("x"))
    zipped.write_bytes(zipped.read_bytes().replace(b"x" * len(name), name))
    expected = ["photo/cat/1.jpg", "photo/cat/猫.jpg" if name[0] > 0x80 else "photo/cat/café.jpg"]
    for place in (raw, tar, zipped):
        assert list(Tree(place).files) == expected
        assert Tree(place).read(expected[1]) == picture("x")
    assert album(raw).fingerprint() == album(tar).fingerprint() == album(zipped).fingerprint()


def test_links_and_paths_that_lead_out_of_a_tar_are_named(raw):
    archive = packed(raw, "raw.tar")
    with tarfile.open(archive, "a") as tar:
        for name, kind in (
            ("top/3.jpg", tarfile.LNKTYPE),
            ("top/4.jpg", tarfile.SYMTYPE),
            ("../out.jpg", tarfile.REGTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "top/photo/cat/1.jpg"
            tar.addfile(member)
    tree = Tree(archive)
    assert list(tree.files) == sorted(FILES)
    link = "a link within an archive: unpack the archive"
    out = "its path leads out of the archive"
    assert tree.odd == {"top/3.jpg": link, "top/4.jpg": link, "../out.jpg": out}


def test_linked_folders_are_read_once(raw, tmp_path):
    whole = album(raw).fingerprint()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/data").symlink_to(raw)
    assert album(tmp_path / "linked").fingerprint() == whole
    (raw / "back").symlink_to(raw / "top")
    (raw / "none").symlink_to(raw / "nowhere")
    tree = Tree(raw)
    assert list(tree.files) == sorted(FILES)
    assert tree.odd == {"back": "a link to a folder that is there already", "none": "a link to nothing"}


def test_what_cannot_be_used_is_named_and_the_rest_counts(raw, monkeypatch):
    whole = album(raw).fingerprint()
    put(raw, "top/photo/cat/empty.jpg", b"")
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n"
    put(raw, "top/photo/cat/pointer.jpg", pointer)
    put(raw, "other.rar", b"Rar!")
    put(raw, "PACS.zip.part", b"PK")
    put(raw, "top/.hidden/photo/cat/1.jpg")
    put(raw, "__MACOSX/top/photo/cat/1.jpg")
    shutil.copytree(raw, raw.parent / "again/raw")
    inner = packed(raw.parent / "again/raw", "inner.zip")
    with zipfile.ZipFile(raw / "papers.zip", "w") as stream:
        stream.writestr("papers/inner.zip", inner.read_bytes())
        stream.writestr("papers/figure.png", picture("figure", kind="PNG"))
    os.mkfifo(raw / "pipe.jpg")
    put(raw, "top/photo/cat/big.jpg", b"x" * 2_000)
    monkeypatch.setattr("builders.raw.tree.MOST_BYTES", 1_999)
    left_out = dict(album(raw).left_out)
    assert left_out.pop("top/photo/cat/big.jpg").startswith("larger than")
    assert left_out == {
        "PACS.zip.part": "a download that has not ended",
        "other.rar": "an archive in a form that is not read: unpack it",
        "papers/figure.png": "not in a folder of a class in a folder of a domain",
        "papers/inner.zip": "an archive within an archive: unpack it",
        "pipe.jpg": "not a regular file",
        "top/photo/cat/empty.jpg": "an empty file",
        "top/photo/cat/pointer.jpg": "a pointer of Git LFS: get the picture by `git lfs pull`",
    }
    assert album(raw).fingerprint() == whole


def test_an_exact_copy_of_a_domain_is_named_and_changes_nothing(raw):
    whole = album(raw).fingerprint()
    shutil.copytree(raw / "top/photo", raw / "zcopy/Photo")
    assert album(raw).fingerprint() == whole
    assert album(raw).left_out == {"zcopy/Photo": "an exact copy of another folder of the tree"}


def test_another_copy_of_a_domain_is_an_error_that_names_both(raw):
    shutil.copytree(raw / "top/photo", raw / "copy/Photo")
    (raw / "copy/Photo/cat/1.jpg").unlink()
    with pytest.raises(InputError, match=r"has photo twice, and not the same: copy/Photo, top/photo"):
        album(raw).items()


def test_a_text_named_as_a_picture_is_dropped_and_a_png_named_jpg_is_kept(raw):
    put(raw, "top/photo/cat/png.jpg", picture("png", kind="PNG"))
    put(raw, "top/photo/cat/text.jpg", "quota exceeded")
    made = album(raw)
    loaded = {Path(made.place(item)).name: item for item in made.items()}
    assert made.load(loaded["png.jpg"]).data == picture("png", kind="PNG")
    with pytest.raises(BadItem, match="not a readable picture"):
        made.load(loaded["text.jpg"])


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_an_archive_is_listed_once_until_it_changes(raw, name, monkeypatch, tmp_path):
    monkeypatch.setattr(archives, "KEPT_FROM", 3)
    archive = packed(raw, name)
    whole, expected = album(archive).fingerprint(), dict(Tree(archive).files)
    (kept,) = (tmp_path / "home/.index").iterdir()
    with monkeypatch.context() as patched:
        for listing in ("open_zip", "tar_members"):
            patched.setattr(archives, listing, lambda *_: pytest.fail("it is listed again"))
        assert dict(Tree(archive).files) == expected
        assert album(archive).fingerprint() == whole
    kept.write_bytes(b"something else")
    assert album(archive).fingerprint() == whole, "an index that cannot be read is made again"
    put(raw, "top/photo/cat/3.jpg")
    archive.unlink()
    archive.parent.rmdir()
    assert len(Tree(packed(raw, name)).files) == len(expected) + 1
    (other,) = (tmp_path / "home/.index").iterdir()
    assert other != kept
    assert {path.name for path in archive.parent.iterdir()} == {name}, "nothing is written next to it"


def test_a_file_of_a_large_tree_is_found_by_its_path(tmp_path):
    names = [f"{place}/{number}.jpg" for place in "ab" for number in range(300)]
    for place in "ab":
        with zipfile.ZipFile(tmp_path / f"{place}.zip", "w") as stream:
            for name in names:
                if name.startswith(place):
                    stream.writestr(name, name)
    put(tmp_path, "a/0.jpg", b"longer than the one in the archive")
    tree = Tree(tmp_path)
    assert list(tree.files) == sorted(names)
    assert all(tree.read(name) == name.encode() for name in names if name != "a/0.jpg")
    assert tree.read("a/0.jpg").startswith(b"longer")
    assert list(tree.odd) == ["a/0.jpg"]
    assert "a/nothing.jpg" not in tree.files
    lies = [file.name for file in tree.as_they_lie(np.ones(len(tree.files), bool))]
    assert sorted(lies) == sorted(names)
    assert lies[0] == "a/0.jpg", "those on disk come first"
