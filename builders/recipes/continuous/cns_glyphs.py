"""Continuous shifts of letters: the 14 shifts of CNS-Bench on the embedded glyph album."""

from builders.albums.glyphs import GlyphAlbum
from builders.recipe import Base, Expected
from builders.recipes.shared import CNS_PAPER, datasheet_of, embedded, trajectories
from builders.shifts.steps import Continuous, OnGround

#: The outer blocks of 8 pixels of a JPEG show nothing of the letter. A ground and an ink for each letter: who
#: has only seen dark letters on one light ground is lost at the first step of any weather.
GROUND = OnGround(size=64, ground="drawn", margin=0.125)
SHIFT = Continuous(dataset="cns_glyphs", seeds=(0, 1))

RECIPE = embedded(
    name="cns_glyphs",
    family="continuous",
    released="2026-11-22",
    title="Continuous Nuisance Shifts of Glyphs",
    summary=(
        "The letters A to T in 399 families of fonts, each in an ink and on a ground of its own, under 14 "
        "shifts, eight styles and six weathers, from the untouched picture to a scale of 2.5. The letter is "
        "the target, the shift is the nuisance, its scale the severity."
    ),
    citation=CNS_PAPER,
    album=GlyphAlbum(size=GROUND.inner, ink="drawn"),
    nuisance="shift",
    prepare=(GROUND,),
    shift=SHIFT,
    bases=(
        Base(name="content", summary="Every untouched letter, in every face.", layer="content"),
        Base(
            name="mini",
            summary="20 faces a letter, each along 2 trajectories in every shift.",
            per_group=20,
        ),
    ),
    default_base="mini",
    protocols=trajectories(SHIFT.nuisances, cells=("snow", "fog", "painting", "cartoon")),
    datasheet=datasheet_of(__file__),
    expected=(
        Expected(base="content", rows={"train": 7180, "validation": 2840, "test": 4020}, smallest_group=0),
        Expected(base="mini", rows={"train": 33600, "validation": 13440, "test": 20160}, smallest_group=48),
    ),
)
