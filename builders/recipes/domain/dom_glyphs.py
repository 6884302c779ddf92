"""Letters in seven classes of fonts, the class as the domain: a multi-domain set as PACS and NICO++ are."""

from itertools import permutations
from pathlib import Path

from builders.albums.glyphs import FONT_CLASSES, GlyphAlbum
from builders.datasheet import Datasheet
from builders.encode import ImageEncoding
from builders.recipe import Base, Expected, Recipe
from builders.shifts.steps import Domains, OnGround
from shiftdata.evaluation.protocols import UDA, DomainBed, GroupFairness, LeaveOneDomainOut

GROUND = OnGround(size=64, margin=0.125)  # the outer blocks of 8 pixels of a JPEG show nothing of the letter
#: From print to what is written with a pen, and on to what is drawn.
UDA_CLASSES = ("sans", "script", "blackletter", "display")

RECIPE = Recipe(
    name="dom_glyphs",
    family="domain",
    version="1.0.0",
    released="2026-11-22",
    creators=("The shiftdata founders",),
    title="Glyphs of Seven Classes of Fonts",
    summary=(
        "The letters A to T in 702 faces of 399 families of fonts. The letter is the target, the class of "
        "the font (serif, script, blackletter, ..) the domain; a family is in one domain and in one split."
    ),
    citation=(
        "The shiftdata founders. Glyphs of Seven Classes of Fonts, on outlines of openly licensed fonts. "
        "shiftdata, 2026. "
        "Protocols: I. Gulrajani, D. Lopez-Paz. In search of lost domain generalization. arXiv:2007.01434; "
        "H. Yu et al. Rethinking the evaluation protocol of domain generalization. CVPR 2024, "
        "arXiv:2305.15253."
    ),
    album=GlyphAlbum(size=GROUND.inner, domains=True),
    nuisance="domain",
    prepare=(GROUND,),
    shift=Domains(names=FONT_CLASSES),
    encoding=ImageEncoding(format="jpeg", quality=92),
    bases=(Base(name="all", summary="Every letter in every face."),),
    default_base="all",
    protocols=(
        *(LeaveOneDomainOut(test=name) for name in FONT_CLASSES),
        GroupFairness(k=4, mu=0.1),
        *(DomainBed(test=name) for name in FONT_CLASSES),
        *(UDA(source=source, target=target) for source, target in permutations(UDA_CLASSES, 2)),
    ),
    virtual=7 + 1,
    datasheet=Datasheet.read(Path(__file__).with_suffix(".toml")),
    expected=(
        Expected(base="all", rows={"train": 6960, "validation": 3100, "test": 3980}, smallest_group=7),
    ),
)
