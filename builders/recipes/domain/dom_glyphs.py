"""Letters in seven classes of fonts, the class as the domain: a multi-domain set as PACS and NICO++ are."""

from itertools import permutations

from builders.albums.glyphs import FONT_CLASSES, GlyphAlbum
from builders.recipe import Base, Expected
from builders.recipes.shared import DOMAINBED_PAPER, SEVERAL_DOMAINS_PAPER, datasheet_of, embedded
from builders.shifts.steps import Domains, OnGround
from shiftdata.evaluation.protocols import UDA, DomainBed, GroupFairness, LeaveOneDomainOut

GROUND = OnGround(size=64, margin=0.125)  # the outer blocks of 8 pixels of a JPEG show nothing of the letter
#: From print to what is written with a pen, and on to what is drawn.
UDA_CLASSES = ("sans", "script", "blackletter", "display")

RECIPE = embedded(
    name="dom_glyphs",
    family="domain",
    released="2026-11-22",
    title="Glyphs of Seven Classes of Fonts",
    summary=(
        "The letters A to T in 702 faces of 399 families of fonts. The letter is the target, the class of "
        "the font (serif, script, blackletter, ..) the domain; a family is in one domain and in one split."
    ),
    citation=(
        "The shiftdata founders. Glyphs of Seven Classes of Fonts, on outlines of openly licensed fonts. "
        "shiftdata, 2026. "
        f"Protocols: {DOMAINBED_PAPER}; {SEVERAL_DOMAINS_PAPER}"
    ),
    album=GlyphAlbum(size=GROUND.inner, domains=True),
    nuisance="domain",
    prepare=(GROUND,),
    shift=Domains(names=FONT_CLASSES),
    bases=(Base(name="all", summary="Every letter in every face."),),
    default_base="all",
    protocols=(
        *(LeaveOneDomainOut(test=name) for name in FONT_CLASSES),
        GroupFairness(k=4, mu=0.1),
        *(DomainBed(test=name) for name in FONT_CLASSES),
        *(UDA(source=source, target=target) for source, target in permutations(UDA_CLASSES, 2)),
    ),
    virtual=7 + 1 + 7,
    datasheet=datasheet_of(__file__),
    expected=(
        Expected(base="all", rows={"train": 6960, "validation": 3100, "test": 3980}, smallest_group=7),
    ),
)
