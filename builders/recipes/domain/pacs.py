"""PACS: the four domains on which domain generalization is measured most often."""

from itertools import permutations

from builders.encode import FileEncoding
from builders.raw.album import RawAlbum
from builders.raw.domain_class import spelled
from builders.raw.pacs import Pacs
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains
from shiftdata.protocols import UDA, DomainBed, LeaveOneDomainOut

DOMAINS = spelled("cartoon", "photo", "sketch", art_painting=["art"])
DOMAIN_NAMES = ("art_painting", "cartoon", "photo", "sketch")
LABELS = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")

RECIPE = Recipe(
    name="pacs",
    family="domain",
    version="1.0.0",
    released="2026-11-22",
    creators=("Da Li", "Yongxin Yang", "Yi-Zhe Song", "Timothy Hospedales"),
    title="PACS",
    summary=(
        "Photographs, art, cartoons and sketches of seven classes. Sketches that were drawn after one of the "
        "photographs share its split."
    ),
    citation=(
        "D. Li, Y. Yang, Y.-Z. Song, T. M. Hospedales. Deeper, broader and artier domain generalization. "
        "ICCV 2017."
    ),
    album=RawAlbum(
        name="pacs",
        layout=Pacs(domains=DOMAINS, labels=spelled(*LABELS)),
        allowed=LABELS,
        license="LicenseRef-PACS-none-stated",
        attribution="PACS (Li et al., 2017); its authors state no licence",
    ),
    nuisance="domain",
    shift=Domains(names=DOMAIN_NAMES),
    encoding=FileEncoding(),
    bases=(Base(name="all", summary="Every picture of every domain."),),
    default_base="all",
    protocols=(
        *(LeaveOneDomainOut(test=domain) for domain in DOMAIN_NAMES),
        *(DomainBed(test=domain) for domain in DOMAIN_NAMES),
        *(UDA(source=source, target=target) for source, target in permutations(DOMAIN_NAMES, 2)),
    ),
    virtual=8,
    on_empty="report",
    publish_pixels=False,
)
