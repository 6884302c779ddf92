"""Pictures that look alike, by a hash that hardly changes when one is scaled or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Hashes: TypeAlias = NDArray[np.uint64]
Places: TypeAlias = NDArray[np.int64]

#: Bits of 64 in which the hashes of nearly the same pictures may differ.
NEAR = 4
#: Hashes that are compared with all others at once.
BLOCK = 512
#: The same where everything is compared, however many there are: the fastest that was measured.
FEW = 16


def on_white(picture: Image.Image) -> Image.Image:
    """A picture in RGB, on white where it is transparent."""
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture.convert("RGBA")).convert("RGB")


def difference_hash(picture: Image.Image) -> int:
    """64 bits: whether each of 9 x 8 grey values is less than its right neighbour.

    >>> bars = Image.linear_gradient("L").rotate(90)
    >>> f"{difference_hash(bars):x}", difference_hash(bars.rotate(180))
    ('ffffffffffffffff', 0)
    """
    fine = on_white(picture).convert("L").convert("F")  # whole numbers would toss a coin where it is flat
    grey = np.asarray(fine.resize((9, 8), Image.Resampling.LANCZOS))
    bits = np.packbits(grey[:, 1:] > grey[:, :-1])
    return int.from_bytes(bits.tobytes(), "big")


def near_pairs(hashes: Hashes, near: int = NEAR) -> Iterator[tuple[Places, Places]]:
    """The pairs of places whose hashes differ in `near` bits at most, and in how many, stretch by stretch.

    >>> [(pairs.tolist(), apart.tolist()) for pairs, apart in near_pairs(np.array([0, 1, 255], np.uint64), 1)]
    [([[0, 1]], [1])]
    """
    for first in range(0, len(hashes), BLOCK):
        yield _near(hashes, first, BLOCK, near)


def _near(hashes: Hashes, first: int, size: int, near: int) -> tuple[Places, Places]:
    """The pairs of some hashes with themselves and with those behind them."""
    distance = np.bitwise_count(hashes[first : first + size, None] ^ hashes[None, first:])
    row, column = np.nonzero(distance <= near)
    later = column > row
    row, column = row[later], column[later]
    return np.stack([row, column], axis=1) + first, distance[row, column].astype(np.int64)


def nearest_pairs(hashes: Hashes, most: int, near: int) -> tuple[Places, Places]:
    """Pairs of places whose hashes differ in `near` bits at most, and in how many bits; the nearest first.

    Of more than `most`, those stay that are nearest; where many are equally near, those of the first places.

    >>> pairs, apart = nearest_pairs(np.array([0, 7, 1], np.uint64), most=2, near=2)
    >>> pairs.tolist(), apart.tolist()
    ([[0, 2], [1, 2]], [1, 2])
    """
    found, apart = np.empty((0, 2), np.int64), np.empty(0, np.int64)
    for first in range(0, len(hashes), FEW):
        pairs, bits = _near(hashes, first, FEW, near)
        found, apart = np.concatenate([found, pairs]), np.concatenate([apart, bits])
        order = np.argsort(apart, kind="stable")[:most]
        found, apart = found[order], apart[order]
        if len(apart) == most:
            near = int(apart[-1]) - 1  # as near as the last one is not near enough any more
        if near < 0:
            break
    return found, apart
