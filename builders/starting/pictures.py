"""Look at a folder of pictures: classes, domains, sizes, transparency, and the frame that suits them."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from PIL import Image

from builders.albums.folder import SKIPPED, FolderAlbum
from builders.make.equal import listed
from builders.sample import Item
from builders.starting.draft import Draft, Missing, few, tuple_of
from builders.starting.folders import layout_of
from builders.starting.shifts import domains_shift, made_shift
from shiftdata.data.format.names import shown
from shiftdata.data.format.records import by_reason
from shiftdata.errors import InputError, IntegrityError
from shiftdata.untrusted.pictures import open_picture

SIZES = (64, 96, 128, 224, 256)
ENLARGED = 1.12  # times that the median picture may be enlarged
LARGEST_MADE = 128  # for shifts that are made: a picture of twice the side takes four times as long
MOST_READ = 500  # pictures that are looked at
OPAQUE = 255
SQUARE = 0.95  # of the longer side, that the shorter one of a nearly square picture has at least


@dataclass(frozen=True, kw_only=True)
class Look:
    """The sides of some pictures, and which of them have transparent pixels."""

    sides: Sequence[tuple[int, int]]
    transparent: Sequence[bool]

    @property
    def side(self) -> int:
        """The median of the shorter sides."""
        return int(median(map(min, self.sides)))

    @property
    def square(self) -> float:
        """The share of pictures that are nearly square."""
        return sum(min(side) >= SQUARE * max(side) for side in self.sides) / len(self.sides)

    @property
    def clear(self) -> float:
        """The share of pictures with transparent pixels."""
        return sum(self.transparent) / len(self.transparent)


def look_at_pictures(
    root: Path,
    path_code: str,
    dataset: str,
    *,
    layout: Sequence[str] | None = None,
    shift: str | None = None,
    size: int | None = None,
) -> Draft | Missing:
    """A draft for the pictures in a folder; without domains, somebody has to choose a shift."""
    levels = tuple(layout or layout_of(root))
    album = FolderAlbum(root, license="CC0-1.0", attribution="nobody yet", layout=levels)
    items = listed(album).items
    labels = Counter(item.label for item in items)
    domains = Counter(item.nuisance for item in items if item.nuisance is not None)
    _check(root, labels, domains, shift)
    look = _look(root, items)
    left_out = by_reason(Counter(album.left_out.values()))
    seen = [
        *_seen(root, levels, labels, domains, look),
        *(f"  left out: {count:,}: {reason}" for reason, count in left_out.items()),
    ]
    if not domains and shift is None:
        return Missing(seen=seen)
    chosen = made_shift(shift, dataset, len(labels)) if shift else domains_shift(domains, len(labels))
    step, about = _frame(look)
    size = size or _size(look.side, made=chosen.made)
    return Draft(
        shift=chosen,
        about=f"{len(items):,} pictures of {len(labels)} classes",
        album="FolderAlbum",
        arguments=[path_code, *([] if levels == ("label",) else [f"layout={tuple_of(levels)}"])],
        encoding='ImageEncoding(format="jpeg", quality=92)',
        items=len(items),
        labels=len(labels),
        imports=[
            "builders.albums.folder FolderAlbum",
            "builders.encode ImageEncoding",
            f"builders.shifts.steps {step}",
        ],
        prepare=[f"# {about[0].upper()}{about[1:]}.", f"prepare=({step}(size={size}),),"],
        seen=[*seen, f"  frame: {step}, {size} x {size} pixels: {about}"],
    )


def _check(root: Path, labels: Counter[str], domains: Counter[str], shift: str | None) -> None:
    if len(labels) < 2:
        raise InputError(
            f"{root} has one class, {next(iter(labels))!r}: a dataset needs at least two. Give the folder "
            "above the classes, or say what each level of folders is, such as --layout domain,label"
        )
    if len(domains) == 1 or (domains and shift):
        raise InputError(
            f"{root} has domains ({few(sorted(domains))}): a dataset needs at least two as its shift. "
            f"To pass that level of folders over, give --layout {SKIPPED},label"
        )


def _look(root: Path, items: Sequence[Item]) -> Look:
    """Look at some pictures; those that cannot be read are left to the build, which names them."""
    sides, transparent = [], []
    for item in items if len(items) <= MOST_READ else random.Random(0).sample(items, MOST_READ):
        try:
            with (
                warnings.catch_warnings(action="ignore"),
                open_picture(root / str(item.source["file"])) as picture,
            ):
                side, is_transparent = picture.size, _is_transparent(picture)
        except (OSError, IntegrityError):
            continue
        sides.append(side)
        transparent.append(is_transparent)
    if not sides:
        raise InputError(f"none of the pictures in {root} can be read: are they whole?")
    return Look(sides=sides, transparent=transparent)


def _is_transparent(picture: Image.Image) -> bool:
    if picture.mode not in ("RGBA", "LA", "PA") and "transparency" not in picture.info:
        return False
    return min(picture.convert("RGBA").getchannel("A").tobytes()) < OPAQUE


def _frame(look: Look) -> tuple[str, str]:
    """The step that leaves no shortcut, and what it does."""
    if look.clear == 1:
        return "OnGround", "cut-outs on a plain ground"
    if look.square > SQUARE:
        return "Resize", "each is (nearly) square; CropSquare would cut off what is not"
    return "CropSquare", "the middle square of each; Pad keeps the whole picture"


def _size(side: int, *, made: bool) -> int:
    fitting = [size for size in SIZES if size <= ENLARGED * side and (not made or size <= LARGEST_MADE)]
    return fitting[-1] if fitting else SIZES[0] if made else side


def _seen(
    root: Path, levels: Sequence[str], labels: Counter[str], domains: Counter[str], look: Look
) -> Iterator[str]:
    layout = "/".join("*" if level == SKIPPED else f"<{level}>" for level in levels)
    yield f"{shown(str(root))}/{layout}/<picture>: {labels.total():,} pictures"
    if len(levels) > 1:
        yield "  another reading of the folders: --layout with domain, label, or - for a level to pass over"
    for name, counts in (("classes", labels), ("domains", domains)):
        if counts:
            listing = few([f"{shown(value)} {count:,}" for value, count in sorted(counts.items())])
            yield f"  {len(counts)} {name}: {listing}"
    yield (
        f"  shorter side: {look.side} pixels (median); nearly square: {look.square:.0%}; "
        f"transparent somewhere: {look.clear:.0%}"
    )
