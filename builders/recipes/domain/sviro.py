"""SVIRO: who or what sits on the rear seats of ten cars."""

from builders.raw.album import RawAlbum
from builders.raw.domain_class import spelled
from builders.raw.domain_recipe import domain_recipe
from builders.raw.sviro import Sviro

DOMAINS = ("aclass", "escape", "hilux", "i3", "lexus", "tesla", "tiguan", "tucson", "x5", "zoe")
LABELS = tuple("0123456")  # as the folders name them

RECIPE = domain_recipe(
    creators=(
        "Steve Dias Da Cruz",
        "Oliver Wasenmüller",
        "Hans-Peter Beise",
        "Thomas Stifter",
        "Didier Stricker",
    ),
    title="SVIRO, classification",
    summary="Rendered rear seats of ten cars in grey; 7 classes. The seats of one image share its split.",
    citation=(
        "S. Dias Da Cruz, O. Wasenmüller, H.-P. Beise, T. Stifter, D. Stricker. SVIRO: synthetic vehicle "
        "interior rear seat occupancy dataset and benchmark. WACV 2020."
    ),
    album=RawAlbum(
        name="sviro",
        layout=Sviro(domains=spelled(*DOMAINS), labels=spelled(*LABELS)),
        allowed=LABELS,
        license="LicenseRef-SVIRO-not-verified",
        attribution="SVIRO (Dias Da Cruz et al., 2020); its licence could not be verified",
    ),
    domains=DOMAINS,
    pairs=(),
)
