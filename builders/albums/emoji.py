"""The embedded album: 20 classes of emoji concepts, each drawn by four vendors under open licences.

The vendors' own bytes ship with the package (`assets/emoji`): `concepts.tsv` is the reviewed list of label,
concept, hexcode and origin, `lookalikes.tsv` the reviewed pairs behind the origins, `vendors.toml` the
licences, and one zip a vendor has the pictures (`scripts/regenerate_emoji_assets.py` rebuilds them). All four
vendors draw each concept; a class has at most 40; concepts that look alike share an origin.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from PIL import Image, ImageOps

from builders.sample import BadItem, Item
from shiftdata.data.format.records import UsedFile
from shiftdata.errors import InputError, IntegrityError, not_found
from shiftdata.extras import require
from shiftdata.untrusted.archives import BoundedZip, open_zip
from shiftdata.untrusted.pictures import decoded_picture
from shiftdata.untrusted.texts import read_csv, read_toml

ASSETS = Path(__file__).parent / "assets" / "emoji"
VENDORS = ("fluent-3d", "fluent-flat", "noto", "twemoji")


@dataclass(frozen=True)
class EmojiAlbum:
    """The emoji of some vendors, drawn at `size` pixels: one item a concept and vendor.

    With `domains` the vendor is the item's nuisance; origins are shared by all vendors either way. What takes
    a place among the folds is the reviewed list, whatever the zips contain.
    """

    code_version: ClassVar[int] = 1
    synthetic: ClassVar[bool] = True

    vendors: tuple[str, ...] = VENDORS
    assets: Path = ASSETS
    size: int = 128
    domains: bool = False

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"emoji are drawn at a size of at least 1 pixel, got {self.size}")
        for vendor in self.vendors:
            if vendor not in VENDORS:
                raise not_found("emoji vendor", vendor, VENDORS)
        if not self.vendors or len(set(self.vendors)) < len(self.vendors):
            raise InputError(
                f"vendors {self.vendors!r}: give at least one vendor, each once, out of {', '.join(VENDORS)}."
            )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(sorted({row["label"] for row in _concepts(self.assets)}))

    def items(self) -> tuple[Item, ...]:
        made = [self._item(row, vendor) for row in _concepts(self.assets) for vendor in self.vendors]
        return tuple(sorted(made, key=lambda item: item.key))

    def _item(self, row: Mapping[str, str], vendor: str) -> Item:
        label, concept, terms = row["label"], row["concept"], _terms(self.assets)[vendor]
        source = {"concept": concept, "vendor": vendor, "hexcode": row["hexcode"]}
        return Item(
            key=f"{label}_{concept}-{vendor}",
            label=label,
            origin=f"{label}/{row['origin']}",
            license=terms["license"],
            attribution=terms["attribution"],
            nuisance=vendor if self.domains else None,
            # Drawings of one concept stand beside each other in pictures of a dataset of domains.
            source=source | ({"content": f"{label}_{concept}"} if self.domains else {}),
        )

    def load(self, item: Item) -> Image.Image:
        size = self.size
        vendor, concept = str(item.source.get("vendor")), str(item.source.get("concept"))
        if vendor not in self.vendors:
            raise BadItem("a vendor that is not in the album")
        terms = _terms(self.assets)[vendor]
        try:
            suffix = ".svg" if "view_box" in terms else ".webp"
            data = _archive(self.assets / f"{vendor}.zip").read(concept + suffix)
            if "view_box" in terms:
                data = _rasterise(data, terms.get("view_box_of", {}).get(concept, terms["view_box"]), size)
            image = decoded_picture(data, "RGBA")
        except (KeyError, ValueError, OSError, IntegrityError, zipfile.BadZipFile, zlib.error) as error:
            raise BadItem("not a readable picture") from error
        if image.getbbox() is None:
            raise BadItem("an empty picture")
        if image.size != (size, size):
            image = ImageOps.pad(image, (size, size), Image.Resampling.LANCZOS, color=(0, 0, 0, 0))
        return image

    def fingerprint(self) -> str:
        """SHA-256 over size, texts and the members of the vendors' zips, not over the zips' own bytes."""
        digest = hashlib.sha256(b"%d\n" % self.size + (b"domains\n" if self.domains else b""))
        parts = [(name, (self.assets / name).read_bytes()) for name in ("concepts.tsv", "vendors.toml")]
        for vendor in sorted(self.vendors):
            archive = _archive(self.assets / f"{vendor}.zip")
            parts += [(f"{vendor}/{name}", archive.read(name)) for name in sorted(archive.namelist())]
        for name, data in parts:
            digest.update(f"{name} {len(data)}\n".encode() + data)
        return digest.hexdigest()

    def used_files(self) -> list[UsedFile]:
        """Name the packages that the pictures come from."""
        found = []
        for terms in (_terms(self.assets)[vendor] for vendor in self.vendors):
            name, digits = f"{terms['package']}@{terms['version']}", terms["integrity"].partition("-")[2]
            digest, url = base64.b64decode(digits).hex(), f"pkg:npm/%40{name.removeprefix('@')}"
            found.append(UsedFile(name=name, hash=f"sha512:{digest}", url=url))
        return found


def _rasterise(body: bytes, view_box: tuple[float, float], size: int) -> bytes:
    """An SVG body as a square PNG; system fonts are not searched, so no machine draws another picture."""
    resvg_py = require("resvg_py", "drawing SVG emoji")
    width, height = view_box
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" '
        f'viewBox="0 0 {width} {height}">{body.decode()}</svg>'
    )
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True))


@lru_cache(maxsize=8)
def _concepts(assets: Path) -> tuple[dict[str, str], ...]:
    return tuple(read_csv(assets / "concepts.tsv", delimiter="\t"))


@lru_cache(maxsize=8)
def _terms(assets: Path) -> dict[str, dict[str, Any]]:
    return read_toml(assets / "vendors.toml")


@lru_cache(maxsize=8)
def _archive(path: Path) -> BoundedZip:
    """A vendor's zip, kept in memory once a process, so that a forked worker shares no file position."""
    return open_zip(path.read_bytes(), path.name)
