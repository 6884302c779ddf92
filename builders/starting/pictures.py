"""Look at a folder of pictures: classes, domains, sizes, transparency, and the frame that suits them."""

from __future__ import annotations

import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from PIL import Image

from builders.albums.folder import DEEP, SKIPPED, FolderAlbum
from builders.make.equal import listed
from builders.make.near import inspect
from builders.sample import Item
from builders.starting.draft import Draft, Missing, few, tuple_of
from builders.starting.folders import layout_of
from builders.starting.shifts import domains_shift, made_shift
from shiftdata.data.format.names import shown
from shiftdata.data.format.records import by_reason
from shiftdata.errors import InputError

#: What a frame does, by the name of its option.
FRAMES = {
    "crop": ("CropSquare", "the middle square of each; Pad keeps the whole picture"),
    "pad": ("Pad", "each whole picture, bars filled from itself; CropSquare cuts them off"),
    "resize": ("Resize", "each is (nearly) square; CropSquare would cut off what is not"),
    "ground": ("OnGround", "cut-outs on a plain ground"),
}
SIZES = (64, 96, 128, 224, 256)
ENLARGED = 1.12  # times that the median picture may be enlarged
LARGEST_MADE = 128  # for shifts that are made: a picture of twice the side takes four times as long
MOST_READ = 2000  # pictures of which the header is read
OPAQUE = 255
MOST_DECODED = 200  # pictures with an alpha channel that are looked at
SQUARE = 0.95  # of the longer side, that the shorter one of a nearly square picture has at least
FEWEST = 4  # pictures of a class that are enough for every split
FAR = 2  # times as large


@dataclass(frozen=True, kw_only=True)
class Look:
    """Facts from the headers of some pictures, and if there are transparent pixels."""

    sides: Sequence[tuple[int, int]]
    transparent: Sequence[bool]
    grey: Sequence[bool]

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
    frame: str | None = None,
) -> Draft | Missing:
    """A draft for the pictures in a folder; without domains, somebody has to choose a shift."""
    levels = tuple(layout or layout_of(root))
    album = FolderAlbum(root, license="CC0-1.0", attribution="nobody yet", layout=levels)
    every = listed(album).items
    _check(root, *_counted(every), shift)
    inspected = inspect(album, every)
    items = [item for item in every if item.key not in inspected.faults]
    if not items:
        raise InputError(f"none of the pictures in {root} can be read: are they whole?")
    labels, domains = _counted(items)
    looks = _looks(root, items)
    look = Look(
        sides=[side for of in looks.values() for side in of.sides],
        transparent=[clear for of in looks.values() for clear in of.transparent],
        grey=[grey for of in looks.values() for grey in of.grey],
    )
    seen = [
        *_seen(root, levels, labels, domains, look),
        *_left_out(album.left_out),
        *_left_out({album.place(item): why for item in every if (why := inspected.faults.get(item.key))}),
        *_small(labels),
        *_differing(looks),
        *inspected.warnings(),
    ]
    if not domains and shift is None:
        return Missing(seen=seen)
    chosen = made_shift(shift, dataset, len(labels)) if shift else domains_shift(domains, len(labels))
    step, about, warned = _frame(look, frame)
    size = size or _size(look.side, made=chosen.made)
    grey = ", grey=True" if all(look.grey) and not look.clear and not chosen.made else ""
    return Draft(
        shift=chosen,
        what=f"{len(items):,} pictures of {len(labels)} classes",
        album="FolderAlbum",
        arguments=[path_code, *([] if levels == ("label",) else [f"layout={tuple_of(levels)}"])],
        encoding=f'ImageEncoding(format="jpeg", quality=92{grey})',
        items=len(items),
        labels=len(labels),
        dropped=len(inspected.faults),
        imports=[
            "builders.albums.folder FolderAlbum",
            "builders.encode ImageEncoding",
            f"builders.shifts.steps {step}",
        ],
        prepare=[f"# {about[0].upper()}{about[1:]}.", f"prepare=({step}(size={size}),),"],
        seen=[*seen, *warned, f"  frame: {step}, {size} x {size} pixels: {about}"],
    )


def _counted(items: Sequence[Item]) -> tuple[Counter[str], Counter[str]]:
    """Count items by label and by domain."""
    domains = Counter(item.nuisance for item in items if item.nuisance is not None)
    return Counter(item.label for item in items), domains


def _check(root: Path, labels: Counter[str], domains: Counter[str], shift: str | None) -> None:
    if len(labels) < 2:
        raise InputError(
            f"{root} has one class, {next(iter(labels))!r}: a dataset needs at least two. Give the folder "
            "above the classes, or say what each level of folders is, such as --layout domain,label"
        )
    if len(domains) == 1:
        raise InputError(
            f"{root} has one domain, {next(iter(domains))!r}: pass that level over, such as --layout "
            f"{SKIPPED},label"
        )
    if domains and shift:
        raise InputError(
            f"{root} has {len(domains)} domains ({few(sorted(domains))}), which are its shift. Leave "
            f"--{shift} out; or pass the domains over, such as --layout {SKIPPED},label"
        )


def _looks(root: Path, items: Sequence[Item]) -> dict[str, Look]:
    """Look at some pictures of each domain (or of all)."""
    sides: dict[str, list[tuple[int, int]]] = defaultdict(list)
    clear: dict[str, list[bool]] = defaultdict(list)
    grey: dict[str, list[bool]] = defaultdict(list)
    decoded = 0
    some = items if len(items) <= MOST_READ else random.Random(0).sample(items, MOST_READ)
    for item in some:
        try:
            with (
                warnings.catch_warnings(action="ignore"),
                Image.open(root / str(item.source["file"])) as picture,
            ):
                size, mode, clear_somewhere = picture.size, picture.mode, _has_alpha(picture)
                if clear_somewhere and decoded < MOST_DECODED:
                    decoded += 1
                    clear_somewhere = _lowest_alpha(picture) < OPAQUE
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
            continue  # the build names it
        sides[item.nuisance or ""].append(size)
        clear[item.nuisance or ""].append(clear_somewhere)
        grey[item.nuisance or ""].append(mode in ("1", "L", *DEEP))
    if not sides:
        raise InputError(f"none of the pictures in {root} can be read: are they whole?")
    return {name: Look(sides=sides[name], transparent=clear[name], grey=grey[name]) for name in sorted(sides)}


def _has_alpha(picture: Image.Image) -> bool:
    return picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info


def _lowest_alpha(picture: Image.Image) -> int:
    return min(picture.convert("RGBA").getchannel("A").tobytes())


def _frame(look: Look, chosen: str | None) -> tuple[str, str, list[str]]:
    """The step that leaves no shortcut, what it does, and what to know of it."""
    if chosen:
        return (*FRAMES[chosen], [])
    if look.clear == 1:
        return (*FRAMES["ground"], [])
    step, about = FRAMES["resize" if look.square > SQUARE else "crop"]
    if not look.clear:
        return step, about, []
    mixed = (
        f"  {look.clear:.0%} of the pictures have transparent pixels, the others have none: {step} draws "
        "another ground behind each, so that no colour gives them away"
    )
    return step, about, [mixed]


def _size(side: int, *, made: bool) -> int:
    fitting = [size for size in SIZES if size <= ENLARGED * side and (not made or size <= LARGEST_MADE)]
    return fitting[-1] if fitting else SIZES[0] if made else side


def _seen(
    root: Path, levels: Sequence[str], labels: Counter[str], domains: Counter[str], look: Look
) -> Iterator[str]:
    given = "/".join("*" if level == SKIPPED else f"<{level}>" for level in levels)
    yield f"{shown(str(root))}/{given}/<picture>: {labels.total():,} pictures"
    if len(levels) > 1:
        yield "  another reading of the folders: --layout with domain, label, or - for a level to pass over"
    yield f"  {len(labels)} classes: {_counts(labels)}"
    if domains:
        yield f"  {len(domains)} domains: {_counts(domains)}"
    smallest, largest = min(look.sides, key=min), max(look.sides, key=max)
    sizes = " to ".join(dict.fromkeys(f"{width} x {height}" for width, height in (smallest, largest)))
    yield f"  {sizes} pixels (median of the shorter side: {look.side}); {look.square:.0%} are nearly square"
    yield f"  transparent somewhere: {look.clear:.0%}" if look.clear else "  none is transparent"
    if any(look.grey):
        yield "  all are grey" if all(look.grey) else f"  grey: {sum(look.grey) / len(look.grey):.0%}"


def _counts(counts: Counter[str]) -> str:
    return few([f"{shown(name)} {count:,}" for name, count in sorted(counts.items())])


def _left_out(left_out: Mapping[str, str]) -> Iterator[str]:
    counts = Counter(left_out.values())
    for reason, count in by_reason(counts).items():
        files = [shown(file) for file, why in sorted(left_out.items()) if why.startswith(reason)]
        yield f"  left out: {count:,} ({reason}): {few(files)}"


def _small(labels: Counter[str]) -> Iterator[str]:
    small = [f"{shown(name)} {count}" for name, count in sorted(labels.items()) if count < FEWEST]
    if small:
        yield f"  fewer than {FEWEST} pictures, so that a split lacks the class: {few(small)}"


def _differing(looks: dict[str, Look]) -> Iterator[str]:
    """Domains that their files give away, whatever they show."""
    sides = {name: look.side for name, look in looks.items()}
    if max(sides.values()) >= FAR * min(sides.values()):
        listed = few([f"{shown(name)} {side}" for name, side in sides.items()])
        yield f"  the domains differ in size (median of the shorter side: {listed}), so in sharpness"
