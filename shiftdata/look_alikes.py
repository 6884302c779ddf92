"""Pictures that look alike, by a hash that hardly changes when one is scaled or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Hashes: TypeAlias = NDArray[np.uint64]

#: Bits of 64 in which the hashes of nearly the same pictures may differ.
NEAR = 4
#: Hashes that are compared with all others at once.
BLOCK = 512


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


def near_pairs(hashes: Hashes, near: int = NEAR) -> Iterator[tuple[int, int, int]]:
    """The pairs of places whose hashes differ in `near` bits at most: both places, and in how many.

    >>> list(near_pairs(np.array([0, 1, 255, 3], np.uint64), 1))
    [(0, 1, 1), (1, 3, 1)]
    """
    for start in range(0, len(hashes), BLOCK):
        bits = np.bitwise_count(hashes[start : start + BLOCK, None] ^ hashes[None, start:])
        one, two = np.nonzero(np.triu(bits <= near, 1))
        for first, second in zip(one.tolist(), two.tolist(), strict=True):
            yield start + first, start + second, int(bits[first, second])
