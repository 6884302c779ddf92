"""Office-31: things of an office, from a shop and before two cameras."""

from builders.raw.album import RawAlbum
from builders.raw.domain_class import DomainClass, spelled
from builders.raw.domain_recipe import domain_recipe

DOMAINS = ("amazon", "dslr", "webcam")
NAMES = """
back_pack bike bike_helmet bookcase bottle calculator desk_chair desk_lamp desktop_computer file_cabinet
headphones keyboard laptop_computer letter_tray mobile_phone monitor mouse mug paper_notebook pen phone
printer projector punchers ring_binder ruler scissors speaker stapler tape_dispenser trash_can
"""
LABELS = tuple(NAMES.split())

RECIPE = domain_recipe(
    creators=("Kate Saenko", "Brian Kulis", "Mario Fritz", "Trevor Darrell"),
    title="Office-31",
    summary="Things of an office as a shop shows them, and before a camera and a webcam; 31 classes.",
    citation=(
        "K. Saenko, B. Kulis, M. Fritz, T. Darrell. Adapting visual category models to new domains. "
        "ECCV 2010."
    ),
    album=RawAlbum(
        name="office31",
        layout=DomainClass(domains=spelled(*DOMAINS), labels=spelled(*LABELS), between=("images",)),
        allowed=LABELS,
        license="LicenseRef-Office-31-research-only",
        attribution="Office-31 (Saenko et al., 2010); for research only",
    ),
    domains=DOMAINS,
)
