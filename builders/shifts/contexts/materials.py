"""The materials of grounds and walls: tiles that are drawn once a process and seen from many sides."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageOps

from builders.shifts.contexts import built, natural
from builders.shifts.contexts.natural import TILE
from builders.shifts.contexts.stage import Stage
from builders.shifts.styles.generators import draw_style
from shiftdata.stable import rng

VARIANTS = 4  # tiles a material

Material: TypeAlias = Callable[[np.random.Generator], Image.Image]

#: The materials of this package; all styles of the style bank are materials too.
MATERIALS: dict[str, Material] = {
    "asphalt": built.asphalt,
    "carpet": built.carpet,
    "chessboard": built.chessboard,
    "facade": built.facade,
    "gravel": natural.gravel,
    "ice": natural.ice,
    "kitchen_tiles": built.kitchen_tiles,
    "litter": natural.litter,
    "mown": natural.mown,
    "paving": built.paving,
    "pool": natural.pool,
    "red_stone": natural.red_stone,
    "river": natural.river,
    "sand": natural.sand,
    "snow": natural.snow,
    "stone": natural.stone,
    "turf": natural.turf,
    "wallpaper": built.wallpaper,
    "waves": natural.waves,
}


def tile(stage: Stage, material: str) -> Image.Image:
    """One of the tiles of a material, mirrored to twice its side so that it can be laid without a seam."""
    return _laid(material, int(stage.rng.integers(VARIANTS)))


@lru_cache(maxsize=512)
def _laid(material: str, variant: int) -> Image.Image:
    if material in MATERIALS:
        drawn = MATERIALS[material](rng("contexts", "material", material, variant))
    else:
        drawn = draw_style(material, variant)
    laid = Image.new("RGB", (2 * TILE, 2 * TILE))
    for turned, x in ((drawn, 0), (ImageOps.mirror(drawn), TILE)):
        laid.paste(turned, (x, 0))
        laid.paste(ImageOps.flip(turned), (x, TILE))
    return laid
