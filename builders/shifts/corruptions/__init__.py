"""Common corruptions in five severities: `corrupt(name, picture, severity, key=...)`.

simple.py    contrast, saturate, pixelate, motion blur, fog
frost.py     ice on the lens
spatter.py   drops of water and mud on the lens

They are those that RLSbench takes from the common corruptions of Hendrycks and Dietterich (2019); code and
figures are our own. Lengths go with the picture's side, so that 32 and 256 pixels look alike, and on natural
pictures each severity is farther from the untouched one than the severity before it.
"""

from __future__ import annotations

from PIL import Image

from builders.shifts.corruptions.frost import frost
from builders.shifts.corruptions.simple import contrast, fog, motion_blur, pixelate, saturate
from builders.shifts.corruptions.spatter import spatter
from builders.shifts.drawing.pixels import Key, as_picture, check_picture
from shiftdata.errors import InputError, not_found
from shiftdata.stable import rng

__all__ = ["CORRUPTIONS", "SEVERITIES", "corrupt"]

SEVERITIES = (1, 2, 3, 4, 5)

_DRAW = {draw.__name__: draw for draw in (contrast, fog, frost, motion_blur, pixelate, saturate, spatter)}

CORRUPTIONS = tuple(_DRAW)


def corrupt(name: str, picture: Image.Image, severity: int, *, key: Key) -> Image.Image:
    """The RGB picture under the corruption `name`; equal arguments give equal pixels.

    `key` names the random draws: seed, dataset, content, never the severity, so that the same ice, drops and
    direction grow from one severity to the next.
    """
    if name not in CORRUPTIONS:
        raise not_found("corruption", name, CORRUPTIONS)
    check_picture(picture)
    if severity not in SEVERITIES:
        raise InputError(f"a severity must be one of {SEVERITIES}, got {severity!r}")
    return as_picture(_DRAW[name](picture, int(severity) - 1, rng("corruption", name, *key)))
