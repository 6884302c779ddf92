"""Pictures that look alike, by a hash that hardly changes when one is scaled or compressed."""

from __future__ import annotations

import numpy as np
from PIL import Image

#: Bits of 64 in which the hashes of nearly the same pictures may differ.
NEAR = 4


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
