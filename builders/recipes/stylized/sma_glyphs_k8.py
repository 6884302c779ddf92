"""The demo's dataset: the 8 letters in 8 styles of sma_glyphs' canonical splits gf_k8_*, and no others.

A recipe made from another one: 12,800 pictures instead of 80,000, each with the key and the bytes that it has
there, so that the splits are the same.
"""

from dataclasses import replace

from builders.albums.glyphs import GlyphAlbum
from builders.recipe import Expected
from builders.recipe_files import load_recipe
from builders.shifts.steps import Stylize
from shiftdata.evaluation.protocols import GroupFairness

WHOLE = load_recipe("sma_glyphs")
ALBUM, SHIFT = WHOLE.album, WHOLE.shift
assert isinstance(ALBUM, GlyphAlbum)
assert isinstance(SHIFT, Stylize)
LETTERS = ("B", "E", "H", "P", "Q", "R", "S", "T")
STYLES = (
    "amber", "bright_crayon", "crimson_print", "dark_olive", "glossy_red", "midnight", "mist", "pale_cream",
)  # fmt: skip

RECIPE = replace(
    WHOLE,
    name="sma_glyphs_k8",
    title="Stylized Glyphs, 8 letters in 8 styles",
    summary="Eight letters in 702 faces of fonts, painted in 8 styles. The letter is the target, the style "
    "is the nuisance. It is the part of sma_glyphs that the canonical splits gf_k8_* use: the same pictures.",
    album=replace(ALBUM, letters=LETTERS),
    shift=replace(
        SHIFT,
        styles=STYLES,
        strengths={style: SHIFT.strength_of(style) for style in STYLES},
    ),
    bases=tuple(base for base in WHOLE.bases if base.name != "mini"),
    protocols=tuple(GroupFairness(k=8, mu=mu) for mu in (0.05, 0.1, 0.2)),
    virtual=None,
    calibration=None,
    expected=(
        Expected(base="extended", rows={"train": 6400, "validation": 2560, "test": 3840}, smallest_group=40),
    ),
)
