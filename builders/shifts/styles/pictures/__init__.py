"""Seeded pictures behind the shipped style codes, drawn by this project's own code.

fields.py        styles of the bank made of continuous fields, such as marble and contour maps
strokes.py       ... drawn line by line, such as leaves and circuits
textures.py      ... of scattered bits and materials, such as confetti and rust
tilings.py       ... of tiles that fill the plane, such as bricks and honeycombs
style_shifts.py  the eight style shifts of CNS-Bench, such as cartoon and tattoo

A style is a function from a random generator to a 256 x 256 picture. What it shows is recognisable in every
picture; colours, scale, direction and density vary. Its docstring is published as provenance.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

import numpy as np
from PIL import Image

from builders.shifts.styles.pictures import fields, strokes, style_shifts, textures, tilings
from shiftdata import stable
from shiftdata.errors import not_found

Draw: TypeAlias = Callable[[np.random.Generator], Image.Image]


def drawn_in(*modules: ModuleType) -> dict[str, Draw]:
    """The public functions that some modules define, by name."""
    functions = (draw for module in modules for draw in vars(module).values() if inspect.isfunction(draw))
    own = {module.__name__ for module in modules}
    mine = {draw.__name__: draw for draw in functions if draw.__module__ in own}
    return {name: mine[name] for name in sorted(mine) if not name.startswith("_")}


#: By the name that seeds them: the style bank's (some serve only as materials of scenes), the style shifts'.
STYLES = {"style-bank": drawn_in(fields, strokes, textures, tilings), "sliders": drawn_in(style_shifts)}


def seed_names(bank: str, style: str, index: int) -> tuple[str, str, int]:
    """The names that seed a style picture: all that is needed, beside this code, to draw it again."""
    if style not in STYLES[bank]:
        raise not_found("style", style, STYLES[bank])
    return bank, style, index


def draw_style(style: str, index: int, bank: str = "style-bank") -> Image.Image:
    """Style picture `index` of a style: the same wherever, whenever and in whatever order it is drawn."""
    random = stable.rng(*seed_names(bank, style, index))
    return STYLES[bank][style](random)


def description(style: str, bank: str = "style-bank") -> str:
    """One line on what a style shows."""
    return (inspect.getdoc(STYLES[bank][style]) or "").splitlines()[0]
