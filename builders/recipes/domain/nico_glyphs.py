"""NICO++'s construction on the embedded glyph album: letters in common and unique contexts."""

from pathlib import Path

from builders.albums.glyphs import GlyphAlbum
from builders.datasheet import Datasheet
from builders.encode import ImageEncoding
from builders.recipe import Base, Expected, Recipe
from builders.shifts.steps import Contexts
from shiftdata.evaluation.protocols import ClassicDG, FlexibleDG, HoldOut, LeaveOneGroupOut

SIZE = 64
#: At full strength letters are so small and so far aside that a small network learns nothing in minutes.
STRENGTH = 0.5
#: Of each letter in each domain; its test rows, 30 %, are the 50 that flexible-dg takes, and a few more.
PER_GROUP = 200

RECIPE = Recipe(
    name="nico_glyphs",
    family="domain",
    version="1.0.0",
    released="2026-11-22",
    creators=("The shiftdata founders",),
    title="Glyphs in Contexts",
    summary=(
        "The letters A to T in 399 families of fonts, each in an ink of its own, set into drawn contexts: "
        "ten common domains, which every letter has, and ten of thirty unique ones a letter. The letter is "
        "the target, the context the nuisance."
    ),
    citation=(
        "X. Zhang, Y. He, R. Xu, H. Yu, Z. Shen, P. Cui. NICO++: Towards better benchmarking for domain "
        "generalization, arXiv:2204.08040. Several test domains: H. Yu et al. Rethinking the evaluation "
        "protocol of domain generalization. CVPR 2024, arXiv:2305.15253."
    ),
    album=GlyphAlbum(size=SIZE, ink="drawn"),
    nuisance="domain",
    shift=Contexts(seed=0, dataset="nico_glyphs", size=SIZE, strength=STRENGTH),
    encoding=ImageEncoding(format="jpeg", quality=92),
    bases=(
        Base(name="mini", summary="40 pictures of each letter in each of its domains.", per_group=40),
        Base(
            name="extended",
            summary=f"{PER_GROUP} pictures of each letter in each of its domains.",
            per_group=PER_GROUP,
        ),
    ),
    default_base="extended",
    protocols=(
        *(ClassicDG(split=split) for split in (1, 2, 3)),
        *(LeaveOneGroupOut(group=group, groups="nico++") for group in (1, 2, 3)),
        HoldOut(test=("grass", "water")),
        FlexibleDG(),
        FlexibleDG(variant="compositional"),
    ),
    datasheet=Datasheet.read(Path(__file__).with_suffix(".toml")),
    expected=(
        Expected(base="mini", rows={"train": 8000, "validation": 3200, "test": 4800}, smallest_group=8),
        Expected(
            base="extended", rows={"train": 40000, "validation": 16000, "test": 24000}, smallest_group=40
        ),
    ),
)
