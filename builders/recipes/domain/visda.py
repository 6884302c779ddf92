"""VisDA-2017: from synthetic pictures to photographs."""

from builders.raw.album import RawAlbum
from builders.raw.domain_class import spelled
from builders.raw.domain_recipe import domain_recipe
from builders.raw.visda import Visda
from shiftdata.evaluation.protocols import UDA, VisDA
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical

DOMAINS = ("train", "validation", "test")

#: In the order of the numbers in the lists.
LABELS = (
    *("aeroplane", "bicycle", "bus", "car", "horse", "knife", "motorcycle", "person", "plant", "skateboard"),
    *("train", "truck"),
)

RECIPE = domain_recipe(
    creators=("Xingchao Peng", "Ben Usman", "Neela Kaushik", "Judy Hoffman", "Dequan Wang", "Kate Saenko"),
    title="VisDA-2017, classification",
    summary=(
        "Rendered objects to train on, crops of photographs to validate and frames of videos to test on; "
        "12 classes. All views of a rendered object share its split."
    ),
    citation=(
        "X. Peng, B. Usman, N. Kaushik, J. Hoffman, D. Wang, K. Saenko. VisDA: the visual domain adaptation "
        "challenge. arXiv:1710.06924, 2017."
        f" {CITED}"
    ),
    album=RawAlbum(
        name="visda",
        layout=Visda(
            domains=spelled(*DOMAINS) | {"validation": ["val"]},
            labels=spelled(*LABELS) | {"aeroplane": ["airplane"]},
        ),
        allowed=LABELS,
        license="LicenseRef-VisDA-2017-research-only",
        attribution="VisDA-2017 (Peng et al., 2017); for research only",
    ),
    domains=DOMAINS,
    first=(VisDA(), *(UDA(source="train", target=target) for target in ("validation", "test"))),
    pairs=(),
    more=canonical("visda"),
)
