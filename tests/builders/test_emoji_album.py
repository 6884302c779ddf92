"""The embedded emoji album: every shipped picture decodes, and its labels, origins and terms hold."""

from __future__ import annotations

import csv
import hashlib
import re
import shutil
import sys
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from builders.albums.emoji import ASSETS, VENDORS, EmojiAlbum
from builders.sample import BadItem, Item
from shiftdata.errors import MissingExtraError

ITEMS = EmojiAlbum().items()


def table(name: str) -> list[dict[str, str]]:
    """The rows of one of the shipped lists."""
    with (ASSETS / name).open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle, delimiter="\t"))


def find(concept: str, vendor: str) -> Item:
    """The one item of a concept by a vendor."""
    (item,) = [i for i in ITEMS if (i.source["concept"], i.source["vendor"]) == (concept, vendor)]
    return item


def damaged(folder: Path, vendor: str, name: str, data: bytes) -> EmojiAlbum:
    """An album on a copy of the assets in which one picture holds other bytes."""
    shutil.copytree(ASSETS, folder / "emoji")
    with zipfile.ZipFile(ASSETS / f"{vendor}.zip") as whole:
        members = {member: whole.read(member) for member in whole.namelist()}
    assert name in members
    with zipfile.ZipFile(folder / "emoji" / f"{vendor}.zip", "w") as archive:
        for member, content in members.items():
            archive.writestr(member, data if member == name else content)
    return EmojiAlbum((vendor,), folder / "emoji")


def test_every_concept_has_all_four_vendors_and_one_label() -> None:
    vendors, labels = defaultdict(list), defaultdict(set)
    for item in ITEMS:
        vendors[item.source["concept"]].append(item.source["vendor"])
        labels[item.source["concept"]].add(item.label)
    assert all(Counter(found) == Counter(VENDORS) for found in vendors.values())
    assert all(len(found) == 1 for found in labels.values())
    hexcodes = [row["hexcode"] for row in table("concepts.tsv")]
    assert len(set(hexcodes)) == len(hexcodes)


def test_no_origin_carries_two_labels() -> None:
    labels = defaultdict(set)
    for item in ITEMS:
        labels[item.origin].add(item.label)
    assert [origin for origin, found in labels.items() if len(found) > 1] == []
    rows = table("concepts.tsv")
    home = {row["concept"]: row for row in rows}
    for row in rows:
        leader = home[row["origin"]]
        assert (leader["origin"], leader["label"]) == (row["origin"], row["label"])


@pytest.mark.slow
def test_every_picture_decodes_is_not_empty_and_is_unlike_all_others() -> None:
    album = EmojiAlbum(size=32)
    thin, seen = [], defaultdict(list)
    for item in ITEMS:
        image = album.load(item)
        assert (image.mode, image.size) == ("RGBA", (32, 32))
        pixels = np.asarray(image)
        if (pixels[..., 3] > 127).mean() <= 0.03:
            thin.append(item.key)
        seen[hashlib.sha256(pixels.tobytes()).digest()].append(item.key)
    assert thin == []
    assert [keys for keys in seen.values() if len(keys) > 1] == []


@pytest.mark.parametrize(
    ("vendor", "suffix", "data"),
    [
        ("noto", ".svg", b"<path d='M0 0"),
        ("fluent-3d", ".webp", b"not a picture"),
    ],
)
def test_damaged_bytes_are_a_bad_item(tmp_path: Path, vendor: str, suffix: str, data: bytes) -> None:
    album = damaged(tmp_path, vendor, f"pizza{suffix}", data)
    with pytest.raises(BadItem, match=r"not a readable picture|an empty picture"):
        album.load(find("pizza", vendor))
    assert album.load(find("taco", vendor)).size == (128, 128)


def test_the_fingerprint_follows_content_and_not_the_container(tmp_path: Path) -> None:
    whole = EmojiAlbum(("twemoji",))
    with zipfile.ZipFile(ASSETS / "twemoji.zip") as archive:
        own = archive.read("pizza.svg")
    repacked = damaged(tmp_path / "a", "twemoji", "pizza.svg", own)
    changed = damaged(tmp_path / "b", "twemoji", "pizza.svg", own + b" ")
    assert (repacked.assets / "twemoji.zip").read_bytes() != (ASSETS / "twemoji.zip").read_bytes()
    assert repacked.fingerprint() == whole.fingerprint() != changed.fingerprint()
    assert EmojiAlbum().fingerprint() != whole.fingerprint()
    assert re.fullmatch(r"[0-9a-f]{64}", whole.fingerprint())


def test_a_missing_resvg_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'shiftdata\[build\]'"):
        EmojiAlbum().load(find("pizza", "noto"))
    assert EmojiAlbum().load(find("pizza", "fluent-3d")).size == (128, 128)
