"""Stylized emoji: Stylized Meta-Album's construction on the embedded album and style bank."""

from builders.albums.emoji import EmojiAlbum
from builders.recipe import Base, Recipe
from builders.steps.compose import OnGround
from builders.steps.encode import ImageEncoding
from builders.steps.stylize import Stylize
from shiftdata.protocols import GroupFairness

GROUND = OnGround(size=128)

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
    protocols=tuple(GroupFairness(k=k, mu=0.1) for k in (2, 4, 8)),
)
