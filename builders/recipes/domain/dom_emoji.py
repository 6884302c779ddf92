"""Emoji of four vendors, the vendor as the domain: a multi-domain set as PACS and NICO++ are."""

from itertools import permutations

from builders.albums.emoji import VENDORS, EmojiAlbum
from builders.recipe import Base, Expected
from builders.recipes.shared import DOMAINBED_PAPER, SEVERAL_DOMAINS_PAPER, datasheet_of, embedded
from builders.shifts.steps import Domains, OnGround
from shiftdata.evaluation.protocols import UDA, DomainBed, GroupFairness, LeaveOneDomainOut

GROUND = OnGround(
    size=128, margin=0.06
)  # without it, the border says who drew it: vendors leave other margins

RECIPE = embedded(
    name="dom_emoji",
    family="domain",
    released="2026-11-21",
    title="Emoji of Four Vendors",
    summary=(
        "Emoji of 20 classes, each concept drawn by four vendors. The class is the target, the vendor is the "
        "domain; what all four draw is in one split. Two of them share their outlines, so that "
        "there are three and a half domains."
    ),
    citation=(
        "The shiftdata founders. Emoji of Four Vendors, on drawings of Fluent Emoji, Noto Emoji and Twemoji. "
        "shiftdata, 2026. "
        f"Protocols: {DOMAINBED_PAPER}; {SEVERAL_DOMAINS_PAPER}"
    ),
    album=EmojiAlbum(size=GROUND.inner, domains=True),
    nuisance="domain",
    prepare=(GROUND,),
    shift=Domains(names=VENDORS),
    bases=(Base(name="all", summary="Every picture: all concepts of a class, by every vendor."),),
    default_base="all",
    protocols=(
        *(LeaveOneDomainOut(test=vendor) for vendor in VENDORS),
        GroupFairness(k=4, mu=0.1),
        *(DomainBed(test=vendor) for vendor in VENDORS),
        *(UDA(source=source, target=target) for source, target in permutations(VENDORS, 2)),
    ),
    virtual=4 + 1 + 4,
    datasheet=datasheet_of(__file__),
    expected=(Expected(base="all", rows={"train": 1212, "validation": 452, "test": 616}, smallest_group=3),),
)
