"""Pairs of pictures of a dataset that look alike though they have different origins."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.look_alikes import NEAR, Hashes, difference_hash, near_pairs
from shiftdata.serve.pages.pages import COLUMNS, SIDE
from shiftdata.serve.pages.rows import Indices, Rows
from shiftdata.serve.pages.sprites import UNREADABLE, WHOLE, opened_picture, sprite

#: Pictures that are looked at, and pairs that are shown, at most.
MOST_LOOKED, MOST_SHOWN = 12_000, 24
#: Pictures that are read at once, and pixels that are decoded of all.
AT_ONCE, MOST_DECODED = 100, 4_000_000_000
#: The side at which a JPEG is decoded, and pixels of a picture that is made smaller first.
SMALL, LARGE = 64, 4_000_000


@dataclass(frozen=True, eq=False)
class LookAlikes:
    """What was compared, how many pairs look alike, and the rows of the nearest of them, pair after pair."""

    rows: Rows
    looked: int
    pairs: int
    across: int
    shown: Indices

    def data(self) -> dict[str, Any]:
        """What a page shows of them."""
        base, total = self.rows.base, len(self.rows.metadata)
        of = "all" if self.looked == total else f"{self.looked:,} of"
        if not self.pairs:
            text = f"No two pictures of different origins look alike, of {of} {total:,} in the base {base}"
        else:
            text = (
                f"{self.pairs:,} pairs of pictures of different origins look alike, of {of} {total:,} in the "
                f"base {base}; {self.across:,} of them in two splits"
            )
        if 2 * self.pairs > len(self.shown):
            text += f"; the {len(self.shown) // 2} nearest are shown, those in two splits first"
        about = f"{text} (difference hashes that differ in at most {NEAR} of 64 bits)."
        known = self.rows.details(self.shown)
        return {"about": about, "base": base, "columns": COLUMNS, "rows": known}

    def sprite(self) -> bytes | None:
        return sprite(self.rows.examples(self.shown), SIDE, COLUMNS) if len(self.shown) else None


def base_of(manifest: Manifest) -> str:
    """Where copies would be: among the untouched pictures, if the dataset has them apart."""
    names = [base.name for base in manifest.bases]
    return "content" if "content" in names else manifest.default_base


def look_alikes(dataset: OpenDataset) -> LookAlikes | None:
    """The look-alikes of a dataset; None where it has no pictures."""
    if dataset.manifest.roles.modality != "image" or not dataset.manifest.pixels_included:
        return None
    rows = Rows.of(dataset, base_of(dataset.manifest))
    found: LookAlikes = rows.keep("look-alikes", lambda: _compared(rows))
    return found


def _compared(rows: Rows) -> LookAlikes:
    known = rows.metadata
    looked, hashes = _hashed(rows, np.sort(rows.order[:: max(1, -(-len(known) // MOST_LOOKED))]))
    origin, split = known.origin[looked], known.columns["split"][looked]
    total, across, found = 0, 0, [np.empty((0, 4), np.int64)]
    for pairs, bits in near_pairs(hashes):
        other = origin[pairs[:, 0]] != origin[pairs[:, 1]]
        pairs, bits = pairs[other], bits[other]
        same_split = split[pairs[:, 0]] == split[pairs[:, 1]]
        total, across = total + len(pairs), across + int((~same_split).sum())
        found.append(np.column_stack([same_split, bits, pairs]))
        every = np.concatenate(found)
        found = [every[np.lexsort(every.T[::-1])][:MOST_SHOWN]]
    return LookAlikes(rows, len(looked), total, across, looked[found[0][:, 2:].ravel()])


def _hashed(rows: Rows, looked: Indices) -> tuple[Indices, Hashes]:
    """The rows whose pictures were decoded, and their hashes; those that cannot be are left out."""
    pixels, chosen, hashes = 0, list[int](), list[int]()
    parts = np.array_split(looked, -(-len(looked) // AT_ONCE))
    pictures = (one for some in parts for one in zip(some.tolist(), rows.examples(some), strict=True))
    for row, data in pictures:
        if pixels > MOST_DECODED:
            break
        with suppress(*UNREADABLE), opened_picture(data, "L", SMALL) as opened:
            pixels += opened.width * opened.height
            hashes.append(_hash(opened))
            chosen.append(row)
    return np.array(chosen, np.int64), np.array(hashes, np.uint64)


def hashes_of(rows: Rows, some: Indices) -> Hashes:
    """The difference hashes of some rows' pictures."""
    made = []
    for data in rows.examples(some):
        with opened_picture(data, "L", SMALL) as opened:
            made.append(_hash(opened))
    return np.array(made, np.uint64)


def _hash(picture: Image.Image) -> int:
    """The difference hash; that of a smaller picture where copies of it would fill the memory."""
    if picture.width * picture.height > LARGE:
        picture.load()
        picture.thumbnail((WHOLE, WHOLE), Image.Resampling.BOX)
    return difference_hash(picture)
