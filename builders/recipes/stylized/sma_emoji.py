"""Stylized emoji: Stylized Meta-Album's construction on the embedded album and style bank."""

from pathlib import Path

from builders.albums.emoji import EmojiAlbum
from builders.datasheet import Datasheet
from builders.encode import ImageEncoding
from builders.recipe import Base, Expected, Recipe
from builders.shifts.steps import OnGround, Stylize
from builders.shifts.styles.bank import read_strengths
from builders.shifts.styles.pairs import PAIRS
from shiftdata.evaluation.protocols import UDA, GroupFairness, UniDA

GROUND = OnGround(size=128)
#: By how legible the emoji are in each style (scripts/calibrate_styles.py).
STRENGTHS = read_strengths(Path(__file__).with_suffix(".styles.tsv"))

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
        "distribution shifts. arXiv:2512.09773."
    ),
    album=EmojiAlbum(size=GROUND.inner),
    nuisance="style",
    prepare=(GROUND,),
    shift=Stylize(seed=0, dataset="sma_emoji", strengths=STRENGTHS),
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
        *(UniDA(source=source, target=target) for source, target in PAIRS),
        *GroupFairness.subsamplings(k=4, mu=0.1)[1:],
    ),
    virtual=12 + 2,
    datasheet=Datasheet.read(Path(__file__).with_suffix(".toml")),
    expected=(
        Expected(base="content", rows={"train": 1212, "validation": 452, "test": 616}, smallest_group=0),
        Expected(base="mini", rows={"train": 8000, "validation": 3200, "test": 4800}, smallest_group=8),
        Expected(base="extended", rows={"train": 24240, "validation": 9040, "test": 12320}, smallest_group=1),
    ),
)
