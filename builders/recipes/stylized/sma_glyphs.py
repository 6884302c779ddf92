"""Stylized letters: Stylized Meta-Album's construction on the embedded glyph album and style bank."""

from pathlib import Path

from builders.albums.glyphs import GlyphAlbum
from builders.datasheet import Datasheet
from builders.encode import ImageEncoding
from builders.recipe import Base, Expected, Recipe
from builders.shifts.steps import OnGround, Stylize
from builders.shifts.styles.bank import read_strengths
from builders.shifts.styles.pairs import PAIRS
from shiftdata.evaluation.protocols import UDA, GroupFairness, UniDA

GROUND = OnGround(size=64, margin=0.125)  # the outer blocks of 8 pixels of a JPEG show nothing of the letter
#: Of each letter in each style; its test rows, 30 %, are the 60 of each group of a fairness split.
PER_GROUP = 200
#: By how legible the letters are in each style (scripts/calibrate_styles.py).
STRENGTHS = read_strengths(Path(__file__).with_suffix(".styles.tsv"))

RECIPE = Recipe(
    name="sma_glyphs",
    family="stylized",
    version="1.0.0",
    released="2026-11-22",
    creators=("The shiftdata founders",),
    title="Stylized Glyphs",
    summary=(
        "The letters A to T in 702 faces of 399 families of fonts, each painted in 20 styles by neural style "
        "transfer. The letter is the target, the style is the nuisance. Made for methods that are trained "
        "from scratch in minutes."
    ),
    citation=(
        "R. Mussard, A. Gauffre, I. Ullah, T. G. H. Khuong, M.-R. Amini, I. Guyon, L. Sun-Hosoya. "
        "Stylized Meta-Album: Group-bias injection with style transfer to study robustness against "
        "distribution shifts. arXiv:2512.09773."
    ),
    album=GlyphAlbum(size=GROUND.inner),
    nuisance="style",
    prepare=(GROUND,),
    shift=Stylize(seed=0, dataset="sma_glyphs", strengths=STRENGTHS),
    encoding=ImageEncoding(format="jpeg", quality=92),
    bases=(
        Base(name="content", summary="Every untouched letter, in every face.", layer="content"),
        Base(name="mini", summary="40 faces a letter, in every style.", per_group=40),
        Base(name="extended", summary=f"{PER_GROUP} faces a letter, in every style.", per_group=PER_GROUP),
    ),
    default_base="extended",
    protocols=(
        *(GroupFairness(k=k, mu=mu) for k in (2, 4, 8, 12) for mu in (0.05, 0.1, 0.2)),
        *(UDA(source=source, target=target) for source, target in PAIRS),
        *(UniDA(source=source, target=target) for source, target in PAIRS),
        *GroupFairness.subsamplings(k=4, mu=0.1)[1:],
    ),
    virtual=12 + 2,
    datasheet=Datasheet.read(Path(__file__).with_suffix(".toml")),
    expected=(
        Expected(base="content", rows={"train": 7180, "validation": 2840, "test": 4020}, smallest_group=0),
        Expected(base="mini", rows={"train": 8000, "validation": 3200, "test": 4800}, smallest_group=8),
        Expected(
            base="extended", rows={"train": 40000, "validation": 16000, "test": 24000}, smallest_group=40
        ),
    ),
)
