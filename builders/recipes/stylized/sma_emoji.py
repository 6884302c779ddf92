"""Stylized emoji: Stylized Meta-Album's construction on the embedded album and style bank."""

from pathlib import Path

from builders.albums.emoji import EmojiAlbum
from builders.recipe import Base, Expected
from builders.recipes.shared import GRID, SMA_PAPER, SUBSAMPLINGS, adaptation, datasheet_of, embedded
from builders.shifts.steps import OnGround, Stylize
from builders.shifts.styles.bank import PAIRS, read_strengths

GROUND = OnGround(size=128)
#: By how legible the emoji are in each style (scripts/calibrate_styles.py).
STRENGTHS = read_strengths(Path(__file__).with_suffix(".styles.tsv"))

RECIPE = embedded(
    name="sma_emoji",
    family="stylized",
    released="2026-11-21",
    title="Stylized Emoji",
    summary=(
        "Emoji of 20 classes by four vendors, each painted in 20 styles by neural style transfer. "
        "The class is the target, the style is the nuisance."
    ),
    citation=SMA_PAPER,
    album=EmojiAlbum(size=GROUND.inner),
    nuisance="style",
    prepare=(GROUND,),
    shift=Stylize(seed=0, dataset="sma_emoji", strengths=STRENGTHS),
    bases=(
        Base(name="content", summary="Every untouched picture.", layer="content"),
        Base(name="mini", summary="40 content pictures a class, in every style.", per_group=40),
        Base(name="extended", summary="Every content picture in every style."),
    ),
    default_base="mini",
    protocols=(*GRID, *adaptation(PAIRS), *SUBSAMPLINGS),
    virtual=12 + 2,
    datasheet=datasheet_of(__file__),
    expected=(
        Expected(base="content", rows={"train": 1212, "validation": 452, "test": 616}, smallest_group=0),
        Expected(base="mini", rows={"train": 8000, "validation": 3200, "test": 4800}, smallest_group=8),
        Expected(base="extended", rows={"train": 24240, "validation": 9040, "test": 12320}, smallest_group=1),
    ),
)
