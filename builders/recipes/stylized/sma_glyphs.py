"""Stylized letters: Stylized Meta-Album's construction on the embedded glyph album and style bank."""

from pathlib import Path

from builders.albums.glyphs import GlyphAlbum
from builders.recipe import Base, Expected
from builders.recipes.shared import GRID, SMA_PAPER, SUBSAMPLINGS, adaptation, datasheet_of, embedded
from builders.shifts.steps import OnGround, Stylize
from builders.shifts.styles.bank import PAIRS, read_strengths

GROUND = OnGround(size=64, margin=0.125)  # the outer blocks of 8 pixels of a JPEG show nothing of the letter
#: Of each letter in each style; its test rows, 30 %, are the 60 of each group of a fairness split.
PER_GROUP = 200
#: By how legible the letters are in each style (scripts/calibrate_styles.py).
STRENGTHS = read_strengths(Path(__file__).with_suffix(".styles.tsv"))

RECIPE = embedded(
    name="sma_glyphs",
    family="stylized",
    released="2026-11-22",
    title="Stylized Glyphs",
    summary=(
        "The letters A to T in 702 faces of 399 families of fonts, each painted in 20 styles by neural style "
        "transfer. The letter is the target, the style is the nuisance. Made for methods that are trained "
        "from scratch in minutes."
    ),
    citation=SMA_PAPER,
    album=GlyphAlbum(size=GROUND.inner),
    nuisance="style",
    prepare=(GROUND,),
    shift=Stylize(seed=0, dataset="sma_glyphs", strengths=STRENGTHS),
    bases=(
        Base(name="content", summary="Every untouched letter, in every face.", layer="content"),
        Base(name="mini", summary="40 faces a letter, in every style.", per_group=40),
        Base(name="extended", summary=f"{PER_GROUP} faces a letter, in every style.", per_group=PER_GROUP),
    ),
    default_base="extended",
    protocols=(*GRID, *adaptation(PAIRS), *SUBSAMPLINGS),
    virtual=12 + 2,
    datasheet=datasheet_of(__file__),
    expected=(
        Expected(base="content", rows={"train": 7180, "validation": 2840, "test": 4020}, smallest_group=0),
        Expected(base="mini", rows={"train": 8000, "validation": 3200, "test": 4800}, smallest_group=8),
        Expected(
            base="extended", rows={"train": 40000, "validation": 16000, "test": 24000}, smallest_group=40
        ),
    ),
)
