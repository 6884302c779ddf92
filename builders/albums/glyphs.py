"""The embedded album of letters: A to T in hundreds of faces of openly licensed fonts, as outlines.

`assets/glyphs/families.tsv` names every family with its class, package, licence and origin, `lookalikes.tsv`
the families behind one origin, `equal.tsv` the letters that are left out, and `outlines.zip` has one file for
each face: a letter and its path a line (`scripts/regenerate_glyphs.py` rebuilds zip and tables). A family is
an origin, so that no two letters of it are in two splits; families that look alike share one. Of letters that
two origins draw alike to the pixel, such as the bar of an I, only those of the first origin are in the album:
joined by them, unlike families would end in one split.
"""

from __future__ import annotations

import colorsys
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

from PIL import Image

from builders.parts import check_chosen, used_file
from builders.sample import BadItem, Item
from shiftdata.data.format.records import UsedFile
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.stable import rng
from shiftdata.untrusted.archives import BoundedZip, open_zip
from shiftdata.untrusted.pictures import decoded_picture
from shiftdata.untrusted.texts import read_csv

ASSETS = Path(__file__).parent / "assets" / "glyphs"
FONT_CLASSES = ("blackletter", "display", "mono", "sans", "script", "serif", "slab")
LETTERS = tuple("ABCDEFGHIJKLMNOPQRST")
DARK = (24, 24, 28)
TABLES = ("families.tsv", "equal.tsv")


@dataclass(frozen=True)
class GlyphAlbum:
    """Some letters in some classes of fonts, drawn at `size` pixels: one item a letter and face.

    With `domains` the class of the font is the item's nuisance. The ink is the same dark one for all, or
    "drawn": a colour of its own for each item.
    """

    code_version: ClassVar[int] = 1
    synthetic: ClassVar[bool] = True

    classes: tuple[str, ...] = FONT_CLASSES
    letters: tuple[str, ...] = LETTERS
    assets: Path = ASSETS
    size: int = 64
    domains: bool = False
    ink: Literal["dark", "drawn"] = "dark"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"letters are drawn at a size of at least 1 pixel, got {self.size}")
        if self.ink not in ("dark", "drawn"):
            raise InputError(f"the ink is 'dark' or 'drawn', got {self.ink!r}")
        check_chosen("class of fonts", self.classes, FONT_CLASSES)
        check_chosen("letter", self.letters, LETTERS)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(sorted(self.letters))

    def items(self) -> tuple[Item, ...]:
        families = {row["family"]: row for row in _families(self.assets) if row["class"] in self.classes}
        faces = [name.removesuffix(".tsv") for name in _outlines(self.assets).namelist()]
        made = [
            self._item(letter, face, families[face.rpartition("-")[0]])
            for face in faces
            if face.rpartition("-")[0] in families
            for letter in self.letters
            if _key(letter, face) not in _left_out(self.assets)
        ]
        return tuple(sorted(made, key=lambda item: item.key))

    def _item(self, letter: str, face: str, family: Mapping[str, str]) -> Item:
        return Item(
            key=_key(letter, face),
            label=letter,
            origin=family["origin"],
            license=family["license"],
            attribution=family["attribution"],
            nuisance=family["class"] if self.domains else None,
            source={"face": face, "font_class": family["class"]},
        )

    def load(self, item: Item) -> Image.Image:
        try:
            path = _paths(self.assets, str(item.source.get("face")))[item.label]
        except (KeyError, ValueError) as error:
            raise BadItem("no outline of the letter") from error
        image = decoded_picture(_drawn(path, self.size, self._ink(item)), "RGBA")
        if image.getbbox() is None:
            raise BadItem("an empty outline")
        return image

    def _ink(self, item: Item) -> tuple[int, ...]:
        if self.ink == "dark":
            return DARK
        random = rng("ink", item.key)
        hue, strong, bright = random.uniform(0, 1), random.uniform(0.5, 1), random.uniform(0.35, 1)
        return tuple(round(255 * part) for part in colorsys.hsv_to_rgb(hue, strong, bright))

    def fingerprint(self) -> str:
        options = (self.size, self.domains, self.ink, self.classes, self.letters)
        digest = hashlib.sha256(repr(options).encode())
        for name in TABLES:
            digest.update((self.assets / name).read_bytes())
        archive = _outlines(self.assets)
        for name in sorted(archive.namelist()):
            data = archive.read(name)
            digest.update(f"{name} {len(data)}\n".encode() + data)
        return digest.hexdigest()

    def used_files(self) -> list[UsedFile]:
        return [used_file(self.assets / name) for name in (*TABLES, "outlines.zip")]


def _key(letter: str, face: str) -> str:
    return f"{letter.lower()}_{face}"


def _drawn(path: str, size: int, ink: tuple[int, ...]) -> bytes:
    """An outline as a square PNG; each is in a square of 1,000 units and touches two sides of it."""
    resvg_py = require("resvg_py", "drawing letters")
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" viewBox="0 0 1000 1000">'
        f'<path fill="rgb{ink}" d="{path}"/></svg>'
    )
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True))


@lru_cache(maxsize=8)
def _families(assets: Path) -> tuple[dict[str, str], ...]:
    return tuple(read_csv(assets / "families.tsv", delimiter="\t"))


@lru_cache(maxsize=8)
def _left_out(assets: Path) -> frozenset[str]:
    return frozenset(row["key"] for row in read_csv(assets / "equal.tsv", delimiter="\t"))


@lru_cache(maxsize=1024)
def _paths(assets: Path, face: str) -> dict[str, str]:
    lines = _outlines(assets).read(f"{face}.tsv").decode().splitlines()
    return dict(line.split("\t") for line in lines)


@lru_cache(maxsize=8)
def _outlines(assets: Path) -> BoundedZip:
    """The zip, kept in memory once a process, so that a forked worker shares no file position."""
    return open_zip((assets / "outlines.zip").read_bytes(), "outlines.zip")
