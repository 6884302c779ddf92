"""An album from a folder of pictures: `<root>/<label>/<picture>`, or a table that names them."""

from __future__ import annotations

import csv
import hashlib
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from PIL import Image, ImageOps

from builders.sample import BadItem, Item
from shiftdata.errors import InputError
from shiftdata.stable import content_hash

TABLE = "items.csv"
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
MIN_SIDE = 8
MAX_PIXELS = 64_000_000


@dataclass(frozen=True)
class FolderAlbum:
    """Pictures in a folder, labelled by sub-folder or by `items.csv` in the folder.

    `items.csv` has the columns `file` and `label`, and optionally `origin`, `license`, `attribution`; every
    other file is then ignored. Without an origin each picture is its own. `labels` fixes the allowed labels;
    without it they are those found.
    """

    root: Path
    license: str
    attribution: str
    allowed: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise InputError(f"there is no folder {self.root}: give the folder that holds the pictures")

    @property
    def labels(self) -> tuple[str, ...]:
        """The allowed labels, or those found, sorted."""
        return self.allowed or tuple(sorted({item.label for item in self.items()}))

    def items(self) -> tuple[Item, ...]:
        """Every picture of the table or the folders, sorted by key."""
        return self._items

    def load(self, item: Item) -> Image.Image:
        """Decode one picture."""
        try:
            with (
                warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning),
                Image.open(self.root / str(item.source["file"])) as picture,
            ):
                _refuse(picture)
                upright = ImageOps.exif_transpose(picture)  # as every viewer shows it
                return upright.convert("RGBA" if _has_alpha(upright) else "RGB")
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise BadItem("too many pixels") from error
        except (OSError, SyntaxError, ValueError) as error:
            raise BadItem("not a readable picture") from error

    def fingerprint(self) -> str:
        """File names, labels and the hash of every file; the folder's own path does not count."""
        parts = []
        for item in self.items():
            data = (self.root / str(item.source["file"])).read_bytes()
            parts.append(
                f"{item.key}\t{item.label}\t{item.origin}\t{item.license}\t{item.attribution}\t"
                f"{hashlib.sha256(data).hexdigest()}"
            )
        return content_hash(*self.labels, *parts)

    @cached_property
    def _items(self) -> tuple[Item, ...]:
        rows = self._table() if (self.root / TABLE).is_file() else self._folders()
        items: dict[str, Item] = {}
        for row in rows:
            item = self._item(row)
            if item.key in items:
                other = items[item.key].source["file"]
                raise InputError(
                    f"the key {item.key!r} is given to both {other} and {row['file']} in {self.root}: "
                    "keys are made of label and file name without ending; rename one"
                )
            items[item.key] = item
        if not items:
            raise InputError(f"{self.root} holds no picture: expected <label>/<picture> or a table {TABLE}")
        return tuple(items[key] for key in sorted(items))

    def _item(self, row: Mapping[str, str]) -> Item:
        label = row["label"]
        if self.allowed is not None and label not in self.allowed:
            raise InputError(
                f"{row['file']} in {self.root} has the label {label!r}; allowed: {', '.join(self.allowed)}"
            )
        key = slug(f"{label}_{Path(row['file']).stem}")
        return Item(
            key=key,
            label=label,
            origin=f"{slug(label)}/{slug(row.get('origin') or Path(row['file']).stem)}",
            license=row.get("license") or self.license,
            attribution=row.get("attribution") or self.attribution,
            source={"file": row["file"]},
        )

    def _folders(self) -> Iterator[dict[str, str]]:
        for path in sorted(self.root.glob("*/*")):
            if path.is_file() and not path.name.startswith("."):
                yield {"file": path.relative_to(self.root).as_posix(), "label": path.parent.name}

    def _table(self) -> Iterator[dict[str, str]]:
        with (self.root / TABLE).open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            missing = {"file", "label"} - set(reader.fieldnames or ())
            if missing:
                raise InputError(f"{self.root / TABLE} lacks the column {', '.join(sorted(missing))}")
            for row in reader:
                file = self.root / row["file"]
                if not file.resolve().is_relative_to(self.root.resolve()):
                    raise InputError(f"{TABLE} names {row['file']}, which lies outside {self.root}")
                if not file.is_file():
                    raise InputError(f"{TABLE} names {row['file']}, which is not in {self.root}")
                yield row


def slug(text: str) -> str:
    """Text as it may stand in a key: lower case, and one hyphen for everything that is not allowed.

    >>> slug("Great Tit (male).v2")
    'great-tit-male-v2'
    """
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")[:80] or "x"


def _refuse(picture: Image.Image) -> None:
    """Pictures that open but are of no use."""
    if picture.width * picture.height > MAX_PIXELS:
        raise BadItem("too many pixels")
    if min(picture.size) < MIN_SIDE:
        raise BadItem(f"a side below {MIN_SIDE} pixels")
    if picture.mode not in MODES:
        raise BadItem(f"colour mode {picture.mode}, which has no one conversion to RGB")


def _has_alpha(picture: Image.Image) -> bool:
    return picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
