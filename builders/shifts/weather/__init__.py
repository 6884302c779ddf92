"""Weather on any picture: `render(name, picture, scale, key=...)`, with a continuous scale of 0 to 2.5.

Light reaches the eye through a medium that thickens with depth (`medium.py`), past particles in layers
(`particles.py`), and snow stays on what it falls on (`cover.py`); `catalogue.py` holds the figures.

A trajectory is one picture and key under growing scale. Clouds, drops and flakes come from the key alone:
they stay where they are, grow denser, and new ones join them. At scale 0 the picture is untouched.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.shifts.weather.catalogue import CATALOGUE
from builders.shifts.weather.cover import SNOW, settled
from builders.shifts.weather.fields import Field, Key, as_floats, as_picture, check_picture, laid_over, shade
from builders.shifts.weather.medium import ground_plane, veil
from builders.shifts.weather.particles import MAX_SCALE, fall
from shiftdata.errors import InputError, not_found
from shiftdata.stable import content_hash, rng

__all__ = ["MAX_SCALE", "WEATHERS", "fingerprint", "render"]

WEATHERS = tuple(CATALOGUE)


def render(
    name: str,
    picture: Image.Image,
    scale: float,
    *,
    key: Key,
    depth: NDArray[np.floating] | None = None,
) -> Image.Image:
    """The RGB picture in the weather `name`; equal arguments give equal pixels.

    `key` names the random draws: seed, dataset, content, never the scale. `depth` is the distance of every
    pixel, 1 being that of the main object; without it the picture is taken for a plane seen from above, 1.6
    away at its top and 0.7 at its bottom.
    """
    if name not in CATALOGUE:
        raise not_found("weather", name, WEATHERS)
    check_picture(picture)
    if not (math.isfinite(scale) and 0 <= scale <= MAX_SCALE):
        raise InputError(f"a scale must be a number from 0 to {MAX_SCALE}, got {scale}")
    distance = ground_plane(picture.size) if depth is None else _checked(depth, picture.size)
    if scale == 0:
        return picture.copy()
    weather, names = CATALOGUE[name], ("weather", name, *key)
    pixels = as_floats(picture) * np.float32(math.exp(-weather.dimming * scale))
    if weather.settles:
        pixels = laid_over(pixels, shade(SNOW), settled(picture, scale, distance, rng(*names, "settled")))
    pixels = veil(weather.medium, pixels, scale, distance, rng(*names, "medium"))
    heading = math.radians(weather.heading + weather.sway * rng(*names, "wind").uniform(-1, 1))
    for number, layer in enumerate(weather.layers):
        draws = rng(*names, "layer", number)
        pixels = fall(layer, weather.medium, pixels, scale, distance, heading, draws)
    return as_picture(pixels)


def fingerprint() -> str:
    """A hash of the catalogue's figures, part of what determines a dataset."""
    return content_hash(repr(CATALOGUE))


def _checked(depth: NDArray[np.floating], size: tuple[int, int]) -> Field:
    """The caller's depth, if it fits the picture."""
    given = np.asarray(depth, dtype=np.float32)
    if given.shape != (size[1], size[0]) or not np.isfinite(given).all() or given.min() < 0:
        raise InputError(
            f"depth must be finite, at least 0 and of shape {(size[1], size[0])} (rows, columns), as the "
            f"picture; got shape {given.shape}, values from {given.min(initial=0)} to {given.max(initial=0)}"
        )
    return given
