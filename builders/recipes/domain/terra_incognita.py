"""TerraIncognita: animals before four camera traps, as DomainBed takes them from Caltech Camera Traps."""

from builders.raw.album import RawAlbum
from builders.raw.domain_recipe import cuts_of_codes
from builders.raw.terra_incognita import CameraTraps
from builders.recipe import Base
from builders.recipes.shared import public
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols import DomainBed, LeaveOneDomainOut

LOCATIONS = ("100", "38", "43", "46")
DOMAIN_NAMES = tuple(f"location_{location}" for location in LOCATIONS)
LABELS = ("bird", "bobcat", "cat", "coyote", "dog", "empty", "opossum", "rabbit", "raccoon", "squirrel")

RECIPE = public(
    name="terra_incognita",
    family="domain",
    creators=("Sara Beery", "Grant Van Horn", "Pietro Perona"),
    title="TerraIncognita",
    summary=(
        "Photographs of nine animals, or of none, by four camera traps; each camera is a domain. The frames "
        "of a sequence share a split. A photograph with two of the classes is a row of each."
    ),
    citation=(
        "S. Beery, G. Van Horn, P. Perona. Recognition in Terra Incognita. ECCV 2018. Locations and classes: "
        "I. Gulrajani, D. Lopez-Paz. In search of lost domain generalization. ICLR 2021."
    ),
    album=RawAlbum(
        name="terra_incognita",
        layout=CameraTraps(labels=LABELS, locations=LOCATIONS),
        allowed=LABELS,
        license="CDLA-Permissive-1.0",
        attribution="Caltech Camera Traps (Beery et al., 2018), ECCV-18 subset",
    ),
    shift=Domains(names=DOMAIN_NAMES),
    bases=(Base(name="all", summary="Every photograph of the four cameras."),),
    protocols=(
        *(LeaveOneDomainOut(test=domain) for domain in DOMAIN_NAMES),
        *(DomainBed(test=domain) for domain in DOMAIN_NAMES),
        *cuts_of_codes(DOMAIN_NAMES),
    ),
    virtual=4,
)
