"""Shapes from three domains: each picture comes from one, and origins are not shared."""

from pathlib import Path

from builders.albums.folder import FolderAlbum
from builders.encode import ImageEncoding
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains, OnGround
from shiftdata.evaluation.protocols import UDA, DomainBed, LeaveOneDomainOut

RECIPE = Recipe(
    name="tiny_domain",
    family="domain",
    version="1.0.0",
    released="2026-01-31",
    title="Shapes on Three Papers",
    summary="Drawn shapes; the paper is the domain.",
    creators=("A. Maker",),
    citation="None.",
    album=FolderAlbum(
        Path(__file__).parent / "pictures",
        layout=("domain", "label"),
        license="CC-BY-4.0",
        attribution="A. Maker",
    ),
    nuisance="domain",
    prepare=(OnGround(size=24),),
    shift=Domains(names=("night", "paper", "sand")),
    encoding=ImageEncoding(format="jpeg", quality=90),
    bases=(Base(name="all", summary="Every picture."),),
    default_base="all",
    protocols=(
        LeaveOneDomainOut(test="sand"),
        UDA(source="night", target="paper"),
        DomainBed(test="night"),
        UDA(source="night", target="paper", seed=1),
    ),
    virtual=2,
)
