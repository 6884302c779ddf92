"""Seeded pictures behind the shipped style codes, drawn by this project's own code.

fields.py        styles made of continuous fields, such as marble and contour maps
strokes.py       ... drawn line by line, such as leaves and circuits
textures.py      ... of scattered bits and materials, such as confetti and rust
tilings.py       ... of tiles that fill the plane, such as bricks and honeycombs
style_shifts.py  the eight style shifts of CNS-Bench, such as cartoon and tattoo

Patterns that scenes use as well are drawn in `builders.shifts.contexts.patterns`. A style is a function from
a random generator to a 256 x 256 picture. What it shows is recognisable in every picture; colours, scale,
direction and density vary. Its docstring is published as provenance.
"""

from __future__ import annotations

import inspect

from PIL import Image

from builders.shifts.contexts import patterns
from builders.shifts.drawing import Draw, drawn_in
from shiftdata import stable

from . import fields, strokes, style_shifts, textures, tilings

#: By the name that seeds them: the styles of the bank, and the style shifts.
STYLES: dict[str, dict[str, Draw]] = {
    "style-bank": drawn_in(fields, patterns, strokes, textures, tilings),
    "sliders": drawn_in(style_shifts),
}

#: What the style bank calls the drawings that it took, by what one sees of a picture painted in them.
NAMES = {
    "brick": "terracotta",
    "camouflage": "dark_olive",
    "checkers": "glossy_red",
    "circuit": "green_etching",
    "confetti": "rainbow_outlines",
    "contour_map": "ink_on_sand",
    "cracked_lava": "embers",
    "dark_starfield": "midnight",
    "honeycomb": "amber",
    "ink_blots": "black_ink",
    "knit": "crimson_print",
    "leaves": "green_hatching",
    "lightning": "deep_blue",
    "mist": "mist",
    "pale_paper": "pale_cream",
    "pebbles": "charcoal",
    "rust": "orange_and_teal",
    "scales": "emerald_woodcut",
    "scribbles": "bright_crayon",
    "watercolour_wash": "pale_watercolour",
}
DRAWINGS = {style: drawing for drawing, style in NAMES.items()}


def draw_style(style: str, index: int, bank: str = "style-bank") -> Image.Image:
    """Style picture `index` of a style: the same wherever, whenever and in whatever order it is drawn."""
    return STYLES[bank][style](stable.rng(bank, style, index))


def description(style: str, bank: str = "style-bank") -> str:
    """One line on what a style shows."""
    return (inspect.getdoc(STYLES[bank][style]) or "").splitlines()[0]
