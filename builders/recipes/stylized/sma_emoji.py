"""Stylized emoji: Stylized Meta-Album's construction on the embedded album and style bank."""

from pathlib import Path

from builders.albums.emoji import EmojiAlbum
from builders.datasheet import Datasheet
from builders.encode import ImageEncoding
from builders.recipe import Base, Expected, Recipe
from builders.shifts.steps import OnGround, Stylize
from shiftdata.protocols import UDA, GroupFairness, UniDA

GROUND = OnGround(size=128)

#: As many pairs of source and target style as Stylized Meta-Album has, whose styles these are not.
PAIRS = tuple(
    (source, target)
    for source, targets in {
        "leaves": ("circuit",),
        "watercolour_wash": ("pale_paper",),
        "brick": ("honeycomb", "lightning"),
        "camouflage": ("leaves",),
        "checkers": ("scales", "confetti"),
        "circuit": ("contour_map",),
        "confetti": ("scribbles",),
        "contour_map": ("ink_blots",),
        "cracked_lava": ("rust", "mist"),
        "dark_starfield": ("lightning", "pale_paper"),
        "honeycomb": ("brick",),
        "ink_blots": ("watercolour_wash",),
        "knit": ("pebbles",),
        "lightning": ("cracked_lava",),
        "mist": ("dark_starfield",),
        "pale_paper": ("scribbles",),
        "pebbles": ("scales",),
        "rust": ("circuit", "leaves"),
        "scales": ("knit",),
        "scribbles": ("checkers",),
    }.items()
    for target in targets
)

RECIPE = Recipe(
    name="sma_emoji",
    family="stylized",
    version="1.0.0",
    released="2026-11-21",
    creators=("The shiftdata founders",),
    title="Stylized Emoji",
    summary=(
        "Emoji of 20 classes by four vendors, each painted in 20 styles by neural style transfer. "
        "The class is the target, the style is the nuisance."
    ),
    citation=(
        "R. Mussard, A. Gauffre, I. Ullah, T. G. H. Khuong, M.-R. Amini, I. Guyon, L. Sun-Hosoya. "
        "Stylized Meta-Album: Group-bias injection with style transfer to study robustness against "
        "distribution shifts."
    ),
    album=EmojiAlbum(size=GROUND.inner),
    nuisance="style",
    prepare=(GROUND,),
    shift=Stylize(seed=0, dataset="sma_emoji"),
    encoding=ImageEncoding(format="jpeg", quality=92),
    bases=(
        Base(name="content", summary="Every untouched picture.", layer="content"),
        Base(name="mini", summary="40 content pictures a class, in every style.", per_group=40),
        Base(name="extended", summary="Every content picture in every style."),
    ),
    default_base="mini",
    protocols=(
        *(GroupFairness(k=k, mu=mu) for k in (2, 4, 8, 12) for mu in (0.05, 0.1, 0.2)),
        *(UDA(source=source, target=target) for source, target in PAIRS),
        *(UniDA(source=source, target=target) for source, target in PAIRS[:5]),
        *GroupFairness.subsamplings(k=4, mu=0.1)[1:],
    ),
    virtual=12 + 2,
    datasheet=Datasheet.read(Path(__file__).with_suffix(".toml")),
    expected=(
        Expected(base="content", rows={"train": 1228, "validation": 480, "test": 648}, smallest_group=0),
        Expected(base="mini", rows={"train": 8000, "validation": 3200, "test": 4800}, smallest_group=8),
        Expected(base="extended", rows={"train": 24560, "validation": 9600, "test": 12960}, smallest_group=1),
    ),
)
