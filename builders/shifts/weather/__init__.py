"""Weather on any picture: `render(name, picture, scale, key=...)`, with a continuous scale of 0 to 2.5.

figures.py      the six weathers: snow, rain, fog, smog, dust, sandstorm
haze.py         fog and dust in the air: light reaches the eye through a medium that thickens with depth
particles.py    flakes, drops and grains, in layers from far to near
snow_cover.py   snow that stays on what it falls on

A trajectory is one picture and key under growing scale. Clouds, drops and flakes come from the key alone:
they stay where they are, grow denser, and new ones join them. At scale 0 the picture is untouched.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from builders.shifts.drawing.pixels import Key, as_floats, as_picture, check_picture, laid_over, shade
from builders.shifts.weather.figures import FIGURES
from builders.shifts.weather.haze import ground_plane, veil
from builders.shifts.weather.particles import MAX_SCALE, fall
from builders.shifts.weather.snow_cover import SNOW, settled
from shiftdata.errors import InputError, not_found
from shiftdata.stable import rng

__all__ = ["MAX_SCALE", "WEATHERS", "render"]

WEATHERS = tuple(FIGURES)


def render(name: str, picture: Image.Image, scale: float, *, key: Key) -> Image.Image:
    """The RGB picture in the weather `name`; equal arguments give equal pixels.

    `key` names the random draws: seed, dataset, content, never the scale. Distances are those of a plane seen
    from above, 1.6 away at the picture's top and 0.7 at its bottom.
    """
    if name not in FIGURES:
        raise not_found("weather", name, WEATHERS)
    check_picture(picture)
    if not 0 <= scale <= MAX_SCALE:
        raise InputError(f"a scale must be a number from 0 to {MAX_SCALE}, got {scale}")
    if scale == 0:
        return picture.copy()
    weather, names, depth = FIGURES[name], ("weather", name, *key), ground_plane(picture.size)
    pixels = as_floats(picture) * np.float32(math.exp(-weather.dimming * scale))
    if weather.settles:
        pixels = laid_over(pixels, shade(SNOW), settled(picture, scale, depth, rng(*names, "settled")))
    pixels = veil(weather.medium, pixels, scale, depth, rng(*names, "medium"))
    heading = math.radians(weather.heading + weather.sway * rng(*names, "wind").uniform(-1, 1))
    for number, layer in enumerate(weather.layers):
        draws = rng(*names, "layer", number)
        pixels = fall(layer, weather.medium, pixels, scale, depth, heading, draws)
    return as_picture(pixels)
