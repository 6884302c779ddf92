"""An album from a folder of pictures: `<root>/<label>/<picture>`, domains too, or a table that names them."""

from __future__ import annotations

import csv
import io
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import BinaryIO, ClassVar, NoReturn

import numpy as np
from PIL import Image, ImageOps

from builders.albums.reading import RawFile, Reads, Repeated
from builders.items import ItemTable
from builders.sample import BadItem, Item
from builders.terms import check_license
from shiftdata.data.format.names import line_fault
from shiftdata.errors import InputError, IntegrityError, LimitError, StorageError
from shiftdata.files import open_regular
from shiftdata.stable import hash64, hash_of_parts
from shiftdata.untrusted.limits import LIMITS, most
from shiftdata.untrusted.pictures import open_picture
from shiftdata.untrusted.texts import read_csv

TABLE = "items.csv"
LEVELS = ("label", "domain")
SKIPPED = "-"  # a level of folders that says nothing
DEEP = ("I;16", "I;16B", "I;16L")  # grey in 16 bits
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", *DEEP)
MIN_SIDE = 8
FIRST_BYTES = 64 << 10  # that show whether a file of another name is a picture

#: What a picture's name ends in; a table may list others.
ENDINGS = (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")

#: Endings of pictures that are not read here: who has such files must hear of it.
UNREAD = (".avif", ".cr2", ".dng", ".heic", ".heif", ".jp2", ".jxl", ".nef", ".psd", ".raw", ".svg")

#: The longest slug: a step may append the name of a style, and the key must stay below 120.
SLUG_LENGTH = 80

#: Hash digits for the names of files, which are many: 6 digits would collide among some thousand of them.
DIGITS_OF_MANY = 12


@dataclass(frozen=True)
class FolderAlbum:
    """Pictures in a folder, labelled by sub-folder or by `items.csv` in the folder.

    `layout` names each level of folders: `("domain", "label")` is `<root>/<domain>/<label>/<picture>`; a
    level named `"-"` says nothing, such as one of splits.
    `items.csv` has the columns `file` and `label`, and optionally `domain`, `origin`, `license`,
    `attribution`; every other file is then ignored. Without an origin each picture is its own; an origin of
    the table is shared by all its rows, whatever their label and domain. `allowed` fixes the allowed labels;
    without it they are those of the pictures.

    An item is a file with the ending of a picture and a header that Pillow can read; of a table, any file
    with such a header. All else changes nothing: no fold, no identity. What was meant as a picture (an empty
    or cut file, one with another ending) is named in `left_out`; notes, hidden files and the like are not. A
    picture that cannot be decoded later keeps its place, and is dropped with its reason.
    """

    code_version: ClassVar[int] = 3

    root: Path
    license: str
    attribution: str
    allowed: tuple[str, ...] | None = None
    layout: tuple[str, ...] = ("label",)

    def __post_init__(self) -> None:
        check_license(self.license, f"the album {self.root}")
        named = sorted(level for level in self.layout if level != SKIPPED)
        if named not in (["label"], ["domain", "label"]):
            raise InputError(
                f"a layout names each level of folders: ('label',), ('domain', 'label') or "
                f"('label', 'domain'), with '{SKIPPED}' for a level that says nothing, got {self.layout!r}"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        return self.allowed or tuple(self.items().names("label"))

    def items(self) -> ItemTable:
        return self._listed[0]

    @property
    def left_out(self) -> Mapping[str, str]:
        return self._listed[1]

    def place(self, item: Item) -> str:
        return str(item.source["file"])

    def file(self, item: Item) -> Path:
        return self.root / str(item.source["file"])

    def load(self, item: Item) -> Image.Image:
        return picture_of(self.file(item))

    def decoded(self, item: Item, data: bytes) -> Image.Image:
        return picture_of(io.BytesIO(data))

    def fingerprint(self) -> str:
        """A hash of names, labels and pictures; the folder's own path does not count."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        described = map(self._described, self.items(), self.items().digests())
        return hash_of_parts(chain(self.labels, described))

    def _described(self, item: Item, digest: bytes | None) -> str:
        fields = (item.key, item.label, item.nuisance or "", item.origin, item.license, item.attribution)
        return "\t".join((*fields, str(item.source["file"]), (digest or b"").hex()))

    def files(self) -> Iterator[RawFile]:
        for row in self._rows({}):
            file = row["file"]
            if fault := line_fault(file):
                raise InputError(f"the name of the file {file!a} in {self.root} {fault}: rename it")
            yield RawFile.at(self.root / file, file)

    def read(self, name: str) -> bytes:
        return self._begin(name, -1)

    def _begin(self, name: str, most: int = FIRST_BYTES) -> bytes:
        """The first bytes of a file; none of a link into nowhere."""
        file = self.root / name
        try:
            with open_regular(file) as stream:
                return stream.read(most)
        except OSError as error:
            if not file.exists():
                return b""
            _unreadable(error)

    def fault_of(self, data: bytes) -> str:
        return "" if _has_header(data) else "not a picture by its first bytes"

    @cached_property
    def reads(self) -> Reads:
        """The results of reading all files: read here and now, unless a build has done so before."""
        return Reads.of(self)

    def _rows(self, left_out: dict[str, str]) -> Iterator[dict[str, str]]:
        """The row of each file that is meant as an item, in an order that depends on names alone."""
        if not self.root.is_dir():
            raise InputError(f"there is no folder {self.root}: give the folder with the pictures")
        return self._table() if (self.root / TABLE).is_file() else self._folders(left_out)

    @cached_property
    def _listed(self) -> tuple[ItemTable, dict[str, str]]:
        left_out: dict[str, str] = {}
        keys = Repeated()
        heads: dict[str, str] = {}
        for row in self._pictures(left_out):
            keys.add(key_of(row["label"], Path(row["file"]).stem, row.get("domain")))
            if given := row.get("origin"):
                unit = slug(given, digits=DIGITS_OF_MANY)
                heads[unit] = min(heads.get(unit, row["label"]), row["label"])
        if not len(keys):
            some = "; ".join(f"{file}: {why}" for file, why in sorted(left_out.items())[:3])
            raise InputError(
                f"{self.root} has no picture: expected {self._expected} or a table {TABLE}"
                + (f" ({len(left_out):,} files are left out, such as {some})" if some else "")
            )
        items = (self._item(row, keys, heads) for row in self._pictures({}))
        return ItemTable.of(items, self.reads.folder, self.reads), left_out

    def _pictures(self, left_out: dict[str, str]) -> Iterator[Mapping[str, str]]:
        """The rows of files that begin as a picture does; the others are left out."""
        for row, read in zip_longest(self._rows(left_out), self.reads.faults()):
            file, fault = read or ("its end", "")
            if row is None or row["file"] != file:
                raise InputError(f"{self.root} changed while it was listed, at {file}: run again")
            if fault:
                left_out[file] = fault
            else:
                yield row

    def _item(self, row: Mapping[str, str], keys: Repeated, heads: Mapping[str, str]) -> Item:
        """The item of a row; `heads` has the first label of each origin that the table gives, by its slug.

        `1.jpg` and `1.png` need more than their names for keys of their own.
        """
        label, file = row["label"], row["file"]
        if self.allowed is not None and label not in self.allowed:
            raise InputError(
                f"{file} in {self.root} has the label {label!r}; allowed: {', '.join(self.allowed)}"
            )
        domain, given, stem = row.get("domain"), row.get("origin"), Path(file).stem
        key = key_of(label, stem, domain)
        if key in keys:
            stem = f"{stem} {hash_digits(file, DIGITS_OF_MANY)}"
            key = key_of(label, stem, domain)
        head = heads[slug(given, digits=DIGITS_OF_MANY)] if given else label
        return Item(
            key=key,
            label=label,
            origin=origin_of(head, stem, domain, given),
            license=row.get("license") or self.license,
            attribution=row.get("attribution") or self.attribution,
            nuisance=domain,
            source={"file": file},
        )

    @property
    def _expected(self) -> str:
        return "/".join(f"<{level}>" for level in (*self.layout, "picture"))

    def _folders(self, left_out: dict[str, str]) -> Iterator[dict[str, str]]:
        """Every file at the layout's depth with the ending of a picture; at another depth it is an error."""
        depth = len(self.layout)
        for folder, below, files in os.walk(self.root, onerror=_unreadable, followlinks=True):
            levels = Path(folder).relative_to(self.root).parts
            hidden = {name for name in [*below, *files] if name.startswith(".")}
            links = {name for name in below if len(levels) >= depth and Path(folder, name).is_symlink()}
            deeper = set(below) if len(levels) == depth else set()
            below[:] = sorted(set(below) - hidden - links)  # a link may lead in a circle
            for name in sorted([*files, *deeper]):
                file = "/".join((*levels, name))
                if name in hidden:
                    continue
                if name in deeper:
                    left_out |= {file: "a linked folder so deep is not followed"} if name in links else {}
                elif not name.lower().endswith(ENDINGS):
                    if name.lower().endswith(UNREAD) or _has_header(self._begin(file)):
                        left_out[file] = f"its ending is not one of {', '.join(ENDINGS)}"
                elif len(levels) != depth:
                    raise InputError(
                        f"{file} in {self.root} lies {len(levels)} folders deep; the layout {self.layout!r} "
                        f"expects {self._expected}: move it, name the levels in layout, or list the pictures "
                        f"in {TABLE}"
                    )
                else:
                    yield dict(zip(self.layout, levels, strict=True)) | {"file": file}

    def _table(self) -> Iterator[dict[str, str]]:
        try:
            rows = read_csv(self.root / TABLE)
            columns = set(rows[0] if rows else ())
        except (csv.Error, ValueError) as error:
            raise InputError(f"{self.root / TABLE} cannot be read: {error}") from error
        missing = {"file", "label", *self.layout} - columns - {SKIPPED}
        if missing:
            raise InputError(f"{self.root / TABLE} lacks the column {', '.join(sorted(missing))}")
        for named, count in Counter(row["file"] for row in rows).items():
            if count > 1:
                raise InputError(f"{TABLE} in {self.root} lists {named} {count} times: list it once")
        for row in rows:
            if fault := line_fault(row["file"] or ""):
                raise InputError(f"{TABLE} in {self.root} names the file {row['file']!a:.100}, which {fault}")
            file = self.root / row["file"]
            if not file.resolve().is_relative_to(self.root.resolve()):
                raise InputError(f"{TABLE} names {row['file']}, which lies outside {self.root}")
            if not file.is_file():
                raise InputError(f"{TABLE} names {row['file']}, which is not in {self.root}")
            empty = [level for level in LEVELS if level in columns and not row[level]]
            if empty:
                raise InputError(f"{TABLE} in {self.root} gives {row['file']} no {empty[0]}: fill it in")
            yield row


def picture_of(file: Path | BinaryIO, least_side: int | None = None) -> Image.Image:
    """Read a picture as every viewer shows it, in RGB or RGBA; raises `BadItem` where it cannot be used.

    A JPEG is decoded faster, and smaller, if sides of at least `least_side` will do.
    """
    try:
        with open_picture(file) as picture:
            _refuse(picture)
            if least_side is not None:
                picture.draft(None, (least_side, least_side))
            upright = _eight_bits(ImageOps.exif_transpose(picture))  # as every viewer shows it
            alpha = upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info
            return upright.convert("RGBA" if alpha else "RGB")
    except LimitError as error:
        raise too_much(error) from error
    except IntegrityError as error:
        raise BadItem("not a readable picture") from error
    except OSError as error:
        _unreadable(error)


def too_much(error: LimitError) -> BadItem:
    """Return the reason to leave a picture out."""
    return BadItem(
        f"too many {LIMITS[error.limit].unit} ({error.found:,}; the most is {most(error.limit):,})"
    )


def _eight_bits(picture: Image.Image) -> Image.Image:
    """A picture with 16 bits of grey in 8: 0 stays 0, 65,535 becomes 255."""
    if picture.mode not in DEEP:
        return picture
    grey = (np.asarray(picture).astype(np.uint32) + 128) // 257
    return Image.fromarray(grey.astype(np.uint8))


@lru_cache(4096)  # labels, domains and names come again and again
def slug(text: str, length: int = SLUG_LENGTH, digits: int = 6) -> str:
    """Text as it may stand in a key: lower case, and one hyphen for everything that is not allowed.

    A hash stands for what is lost with letters that are not ASCII, or with a cut to `length`. A slug has no
    two hyphens in a row, and none at its ends.

    >>> slug("Great Tit (male).v2"), slug("Größe"), slug("猫")
    ('great-tit-male-v2', 'gr-e-e54d87', 'x-d87b90')
    """
    text = unicodedata.normalize("NFC", text)  # some systems store an ö as o and two dots
    plain = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")
    if len(plain) > length:
        return _cut(plain, text, length)
    # Texts can differ by a letter, mark, digit or symbol that a slug loses.
    if text.isascii() or not any(
        not letter.isascii() and unicodedata.category(letter)[0] in "LMNS" for letter in text
    ):
        return plain or "x"
    hashed = f"{plain or 'x'}-{hash_digits(text, digits)}"
    return hashed if len(hashed) <= length else _cut(plain, text, length)


def key_of(label: str, stem: str, domain: str | None) -> str:
    """The key of a picture. Two hyphens in a row, which no slug has, keep the parts apart."""
    if domain is None:
        return slug(f"{label}_{stem}", digits=DIGITS_OF_MANY)
    key = f"{slug(label)}--{slug(stem, digits=DIGITS_OF_MANY)}--{slug(domain)}"
    return key if len(key) <= SLUG_LENGTH else _cut(key, key, SLUG_LENGTH)


def origin_of(label: str, stem: str, domain: str | None, given: str | None) -> str:
    """The origin that the table gives, which domains share, or one that no other picture has."""
    parts = [slug(label), slug(given or stem, digits=DIGITS_OF_MANY)]
    if domain is not None and not given:
        parts.insert(1, slug(domain))
    return "/".join(parts)


def _cut(plain: str, text: str, length: int) -> str:
    return f"{plain[: length - DIGITS_OF_MANY - 1].strip('-')}-{hash_digits(text, DIGITS_OF_MANY)}"


def hash_digits(text: str, digits: int) -> str:
    """So many digits that stand for a text."""
    valid = text.encode(errors="replace").decode()  # a file's name may be no Unicode
    return f"{hash64(valid):016x}"[:digits]


def _unreadable(error: OSError) -> NoReturn:
    raise StorageError(f"cannot read {error.filename}: {error.strerror}; make it readable, or move it away")


def _has_header(data: bytes) -> bool:
    """Return True if bytes begin as a picture does."""
    try:
        with open_picture(io.BytesIO(data)):
            return True
    except LimitError:
        return True
    except (OSError, IntegrityError):
        return False


def _refuse(picture: Image.Image) -> None:
    if min(picture.size) < MIN_SIDE:
        raise BadItem(f"a side below {MIN_SIDE} pixels ({picture.width} x {picture.height})")
    if picture.mode not in MODES:
        raise BadItem(f"colour mode {picture.mode}, which has no one conversion to RGB")
