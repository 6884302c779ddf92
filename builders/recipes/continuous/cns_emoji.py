"""Continuous shifts of emoji: the 14 shifts of CNS-Bench on the embedded album."""

from builders.albums.emoji import EmojiAlbum
from builders.recipe import Base, Expected
from builders.recipes.shared import CNS_PAPER, datasheet_of, embedded, trajectories
from builders.shifts.steps import Continuous, OnGround

GROUND = OnGround(size=128)
SHIFT = Continuous(dataset="cns_emoji", seeds=(0, 1, 2))

RECIPE = embedded(
    name="cns_emoji",
    family="continuous",
    released="2026-11-21",
    title="Continuous Nuisance Shifts of Emoji",
    summary=(
        "Emoji of 20 classes by four vendors under 14 shifts, eight styles and six weathers, each from the "
        "untouched picture to a scale of 2.5. The class is the target, the shift is the nuisance, its scale "
        "the severity."
    ),
    citation=CNS_PAPER,
    album=EmojiAlbum(size=GROUND.inner),
    nuisance="shift",
    prepare=(GROUND,),
    shift=SHIFT,
    bases=(
        Base(name="content", summary="Every untouched picture.", layer="content"),
        Base(
            name="mini",
            summary="10 content pictures a class, each along 3 trajectories in every shift.",
            per_group=10,
        ),
    ),
    default_base="mini",
    protocols=trajectories(SHIFT.nuisances, cells=("snow", "fog", "painting", "cartoon")),
    datasheet=datasheet_of(__file__),
    expected=(
        Expected(base="content", rows={"train": 1212, "validation": 452, "test": 616}, smallest_group=0),
        Expected(base="mini", rows={"train": 25200, "validation": 10080, "test": 15120}, smallest_group=36),
    ),
)
