"""Seeded generative art: the style pictures behind the style bank, drawn by this project's own code.

A generator is a function from a random generator to a 256 x 256 picture. Its class is recognisable in every
picture it draws; colours, scale, direction and density vary. Its docstring is published as provenance.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from PIL import Image

from builders.shifts.styles.generators import fields, strokes, textures, tilings
from shiftdata import stable
from shiftdata.errors import not_found

Draw: TypeAlias = Callable[[np.random.Generator], Image.Image]

GENERATORS: dict[str, Draw] = {
    "brick": tilings.brick,
    "brush_strokes": strokes.brush_strokes,
    "camouflage": fields.camouflage,
    "checkers": tilings.checkers,
    "circuit": strokes.circuit,
    "confetti": textures.confetti,
    "contour_map": fields.contour_map,
    "cracked_lava": fields.cracked_lava,
    "crosshatch": strokes.crosshatch,
    "cubes": tilings.cubes,
    "dark_starfield": textures.dark_starfield,
    "discs": textures.discs,
    "fingerprint_lines": strokes.fingerprint_lines,
    "flames": fields.flames,
    "grey_static": textures.grey_static,
    "halftone": textures.halftone,
    "honeycomb": tilings.honeycomb,
    "ink_blots": textures.ink_blots,
    "kaleidoscope": fields.kaleidoscope,
    "knit": tilings.knit,
    "leaves": strokes.leaves,
    "lightning": strokes.lightning,
    "marble": fields.marble,
    "mist": fields.mist,
    "mosaic": tilings.mosaic,
    "nebula": fields.nebula,
    "neon_grid": strokes.neon_grid,
    "pale_paper": textures.pale_paper,
    "pebbles": textures.pebbles,
    "plaid": tilings.plaid,
    "rust": textures.rust,
    "scales": tilings.scales,
    "scribbles": strokes.scribbles,
    "spirals": fields.spirals,
    "stained_glass": tilings.stained_glass,
    "stripes": fields.stripes,
    "sunbursts": fields.sunbursts,
    "terrazzo": textures.terrazzo,
    "truchet": tilings.truchet,
    "watercolour_wash": textures.watercolour_wash,
    "waves": fields.waves,
    "wood_grain": fields.wood_grain,
    "zigzag": tilings.zigzag,
}


def seed_names(style: str, index: int) -> tuple[str, str, int]:
    """The names that seed a style picture: all that is needed, beside this code, to draw it again."""
    return "style-bank", style, index


def draw_style(style: str, index: int) -> Image.Image:
    """Style picture `index` of a style: the same wherever, whenever and in whatever order it is drawn."""
    if style not in GENERATORS:
        raise not_found("style", style, GENERATORS)
    return GENERATORS[style](stable.rng(*seed_names(style, index)))


def description(style: str) -> str:
    """One line on what a style shows."""
    if style not in GENERATORS:
        raise not_found("style", style, GENERATORS)
    return (inspect.getdoc(GENERATORS[style]) or "").splitlines()[0]
