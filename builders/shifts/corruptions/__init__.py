"""Common corruptions in five severities: `corrupt(name, picture, severity, key=...)`.

The kinds are those that RLSbench takes from the common corruptions of Hendrycks and Dietterich (2019); code
and figures are our own. Lengths go with the picture's side, so that 32 and 256 pixels look alike, and on
natural pictures each severity is farther from the untouched one than the severity before it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image

from builders.shifts.corruptions.frost import frost
from builders.shifts.corruptions.plain import contrast, fog, motion_blur, pixelate, saturate
from builders.shifts.corruptions.spatter import spatter
from builders.shifts.weather.fields import Field, Key, as_picture, check_picture
from shiftdata.errors import InputError, not_found
from shiftdata.stable import rng

__all__ = ["CORRUPTIONS", "SEVERITIES", "corrupt"]

SEVERITIES = (1, 2, 3, 4, 5)

_KINDS: dict[str, Callable[[Image.Image, int, np.random.Generator], Field]] = {
    "contrast": contrast,
    "fog": fog,
    "frost": frost,
    "motion_blur": motion_blur,
    "pixelate": pixelate,
    "saturate": saturate,
    "spatter": spatter,
}

CORRUPTIONS = tuple(_KINDS)


def corrupt(name: str, picture: Image.Image, severity: int, *, key: Key) -> Image.Image:
    """The RGB picture under the corruption `name`; equal arguments give equal pixels.

    `key` names the random draws: seed, dataset, content, never the severity, so that the same ice, drops and
    direction grow from one severity to the next.
    """
    if name not in _KINDS:
        raise not_found("corruption", name, CORRUPTIONS)
    check_picture(picture)
    if severity not in SEVERITIES:
        raise InputError(f"a severity must be one of {SEVERITIES}, got {severity!r}")
    draws = rng("corruption", name, *key)
    return as_picture(_KINDS[name](picture, int(severity) - 1, draws))
