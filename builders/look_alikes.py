"""Pictures that look alike, by a hash that hardly changes when one is scaled or compressed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image

#: Bits of 64 in which the hashes of nearly the same pictures may differ.
NEAR = 4
#: Hashes that are compared with all others at once.
BLOCK = 512


def on_white(picture: Image.Image) -> Image.Image:
    """Return a picture in RGB, on white where it is transparent."""
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture.convert("RGBA")).convert("RGB")


def difference_hash(picture: Image.Image) -> int:
    """64 bits: 1 where one of 9 x 8 grey values is less than its right neighbour.

    >>> bars = Image.linear_gradient("L").rotate(90)
    >>> f"{difference_hash(bars):x}", difference_hash(bars.rotate(180))
    ('ffffffffffffffff', 0)
    """
    fine = on_white(picture).convert("L").convert("F")  # whole numbers would toss a coin where it is flat
    grey = np.asarray(fine.resize((9, 8), Image.Resampling.LANCZOS))
    bits = np.packbits(grey[:, 1:] > grey[:, :-1])
    return int.from_bytes(bits.tobytes(), "big")


def near_pairs(hashes: NDArray[np.uint64]) -> Iterator[NDArray[np.int64]]:
    """Return the pairs of places whose hashes differ in `NEAR` bits at most, block by block.

    >>> [pairs.tolist() for pairs in near_pairs(np.array([0, 1, 255], np.uint64))]
    [[[0, 1]]]
    """
    for first in range(0, len(hashes), BLOCK):
        distance = np.bitwise_count(hashes[first : first + BLOCK, None] ^ hashes[None, first:])
        row, column = np.nonzero(distance <= NEAR)
        later = column > row
        yield np.stack([row[later], column[later]], axis=1) + first
