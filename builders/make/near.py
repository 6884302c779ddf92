"""Inspect pictures before a build: those that it will leave out, and near-duplicates of other bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.albums import Files
from builders.albums.folder import header_fault, picture_of
from builders.look_alikes import difference_hash, near_pairs, on_white
from builders.sample import BadItem, Item
from shiftdata.data.format.names import shown
from shiftdata.stable import hash64

#: Pixels that are decoded: some seconds of work, or all of a small album.
MOST_DECODED = 400_000_000
MOST_LOOKED_AT = 5_000
LEAST_SIDE = 64  # of a decoded JPEG, and of what is hashed
SIDE = 32  # of the grey thumbnails that confirm what the hashes say
#: The largest mean difference of grey values (of 255) between the thumbnails of near-duplicates.
NEAR_GREY = 4.0
AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """The faults and near-duplicates of pictures, of which `looked` were decoded.

    `faults` says why the build will leave an item out. `near` counts the pictures with a near-duplicate of
    another origin, and `pairs` those pairs; `example` is the first.
    """

    looked: int
    faults: Mapping[str, str]
    near: int
    pairs: int
    example: tuple[Item, Item] | None

    def warnings(self) -> Iterator[str]:
        """Count near-duplicates for the owner of the pictures, and name a pair."""
        if self.example:
            first, second = (shown(str(item.source.get("file", item.key))) for item in self.example)
            yield (
                f"warning: {self.near:,} of {self.looked:,} pictures look like another one of other bytes "
                f"({self.pairs:,} pairs), such as {first} and {second}: each is an origin of its own. Where "
                "they show the same thing, give them one origin in items.csv, or delete one"
            )


def inspect(album: Files, items: Sequence[Item]) -> Inspected:
    """Decode pictures, by stable hash as many as the bounds allow, as the build will."""
    faults: dict[str, str] = {}
    seen: list[Item] = []
    hashes, thumbnails, pixels = list[int](), list[NDArray[np.uint8]](), 0
    for item in sorted(items, key=lambda item: hash64("inspect", item.key)):
        if len(seen) >= MOST_LOOKED_AT or pixels >= MOST_DECODED:
            if why := header_fault(album.file(item)):
                faults[item.key] = why
            continue
        try:
            picture = picture_of(album.file(item), LEAST_SIDE)
        except BadItem as error:
            faults[item.key] = str(error)
            continue
        with Image.open(album.file(item)) as header:
            pixels += header.width * header.height
        small = picture.resize((LEAST_SIDE, LEAST_SIDE), Image.Resampling.BOX)  # a hash of all pixels is slow
        seen.append(item)
        hashes.append(difference_hash(small))
        thumbnails.append(_thumbnail(small))
    pairs, near, example = 0, set[int](), list[tuple[int, int]]()
    for found in _confirmed(hashes, thumbnails):
        apart = [(a, b) for a, b in found.tolist() if seen[a].origin != seen[b].origin]
        pairs += len(apart)
        near.update(place for pair in apart for place in pair)
        example = sorted(example + apart, key=lambda pair: sorted(seen[place].key for place in pair))[:1]
    first = sorted((seen[place] for place in example[0]), key=lambda item: item.key) if example else []
    return Inspected(
        looked=len(seen),
        faults=faults,
        near=len(near),
        pairs=pairs,
        example=(first[0], first[1]) if first else None,
    )


def _thumbnail(picture: Image.Image) -> NDArray[np.uint8]:
    grey = on_white(picture.resize((SIDE, SIDE), Image.Resampling.BOX)).convert("L")
    return np.asarray(grey, np.uint8).ravel()


def _confirmed(hashes: Sequence[int], thumbnails: Sequence[NDArray[np.uint8]]) -> Iterator[NDArray[np.int64]]:
    """The pairs of places whose hashes are near and whose thumbnails agree."""
    if not hashes:
        return
    grey = np.stack(thumbnails)
    for pairs in near_pairs(np.array(hashes, np.uint64)):
        for start in range(0, len(pairs), AT_ONCE):
            block = pairs[start : start + AT_ONCE]
            apart = np.abs(grey[block[:, 0]].astype(np.int16) - grey[block[:, 1]]).mean(axis=1)
            yield block[apart <= NEAR_GREY]
