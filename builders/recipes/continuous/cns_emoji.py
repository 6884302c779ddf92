"""Continuous shifts of emoji: the 14 shifts of CNS-Bench on the embedded album."""

from pathlib import Path

from builders.albums.emoji import EmojiAlbum
from builders.datasheet import Datasheet
from builders.encode import ImageEncoding
from builders.recipe import Base, Expected, Recipe
from builders.shifts.steps import Continuous, OnGround
from shiftdata.evaluation.protocols import Continuous as Trajectories

GROUND = OnGround(size=128)
SHIFT = Continuous(dataset="cns_emoji", seeds=(0, 1, 2))

RECIPE = Recipe(
    name="cns_emoji",
    family="continuous",
    version="1.0.0",
    released="2026-11-21",
    creators=("The shiftdata founders",),
    title="Continuous Nuisance Shifts of Emoji",
    summary=(
        "Emoji of 20 classes by four vendors under 14 shifts, eight styles and six weathers, each from the "
        "untouched picture to a scale of 2.5. The class is the target, the shift is the nuisance, its scale "
        "the severity."
    ),
    citation=(
        "O. Dünkel, A. Jesslen, J. Xie, C. Theobalt, C. Rupprecht, A. Kortylewski. CNS-Bench: Benchmarking "
        "Image Classifier Robustness Under Continuous Nuisance Shifts. ICCV 2025, arXiv:2507.17651."
    ),
    album=EmojiAlbum(size=GROUND.inner),
    nuisance="shift",
    prepare=(GROUND,),
    shift=SHIFT,
    encoding=ImageEncoding(format="jpeg", quality=92),
    bases=(
        Base(name="content", summary="Every untouched picture.", layer="content"),
        Base(
            name="mini",
            summary="10 content pictures a class, each along 3 trajectories in every shift.",
            per_group=10,
        ),
    ),
    default_base="mini",
    protocols=(
        Trajectories(),
        *(Trajectories(shifts=shift) for shift in SHIFT.nuisances),
        *(Trajectories(shifts=shift, cells=True) for shift in ("snow", "fog", "painting", "cartoon")),
    ),
    datasheet=Datasheet.read(Path(__file__).with_suffix(".toml")),
    expected=(
        Expected(base="content", rows={"train": 1212, "validation": 452, "test": 616}, smallest_group=0),
        Expected(base="mini", rows={"train": 25200, "validation": 10080, "test": 15120}, smallest_group=36),
    ),
)
