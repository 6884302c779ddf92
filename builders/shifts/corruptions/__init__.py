"""The 19 corruptions of ImageNet-C in five severities: `corrupt(name, picture, severity, key=...)`.

Names and order are those of Hendrycks and Dietterich (2019), code and figures our own. Lengths and noise go
with the picture's side, so that 32 and 256 pixels look alike.
"""

from __future__ import annotations

from PIL import Image

from builders.shifts.corruptions import blur, colour, digital, lens, noise, weather
from builders.shifts.drawing.pixels import Key, as_picture, check_picture
from shiftdata.errors import InputError, not_found
from shiftdata.stable import rng

__all__ = ["CORRUPTIONS", "SEVERITIES", "corrupt"]

SEVERITIES = (1, 2, 3, 4, 5)

_DRAW = {
    draw.__name__: draw
    for draw in (
        noise.gaussian_noise,
        noise.shot_noise,
        noise.impulse_noise,
        noise.speckle_noise,
        blur.gaussian_blur,
        blur.defocus_blur,
        blur.glass_blur,
        blur.motion_blur,
        blur.zoom_blur,
        weather.snow,
        lens.frost,
        weather.fog,
        colour.brightness,
        colour.contrast,
        colour.saturate,
        digital.elastic_transform,
        digital.pixelate,
        digital.jpeg_compression,
        lens.spatter,
    )
}

CORRUPTIONS = tuple(_DRAW)


def corrupt(name: str, picture: Image.Image, severity: int, *, key: Key) -> Image.Image:
    """The RGB picture under the corruption `name`; equal arguments give equal pixels.

    `key` names the random draws: seed, dataset, content, never the severity, so that the same noise, ice and
    drops grow from one severity to the next.
    """
    if name not in CORRUPTIONS:
        raise not_found("corruption", name, CORRUPTIONS)
    check_picture(picture)
    if severity not in SEVERITIES:
        raise InputError(f"a severity must be one of {SEVERITIES}, got {severity!r}")
    return as_picture(_DRAW[name](picture, int(severity) - 1, rng("corruption", name, *key)))
