"""Camelyon17 of WILDS: tumor in patches of lymph nodes, the hospital as the domain."""

from builders.raw.album import RawAlbum
from builders.raw.camelyon17 import CENTERS, Camelyon17
from builders.recipe import Base
from builders.recipes.shared import public
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols import LeaveOneDomainOut, Wilds
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical

LABELS = ("normal", "tumor")

RECIPE = public(
    name="camelyon17",
    family="label-shift",
    creators=("Péter Bándi", "Oscar Geessink", "Geert Litjens", "Pang Wei Koh", "Shiori Sagawa"),
    title="Camelyon17-WILDS",
    summary=(
        "Patches of slides of lymph nodes from five hospitals. Whether the middle of a patch shows a tumor "
        "is the target, the hospital is the domain. All patches of a slide are in one split."
    ),
    citation=(
        "P. Bándi et al. From detection of individual metastases to classification of lymph node status at "
        "the patient level: the CAMELYON17 challenge. IEEE Transactions on Medical Imaging 38(2), 2018. "
        "Patches: P. W. Koh, S. Sagawa et al. WILDS: a benchmark of in-the-wild distribution shifts. ICML "
        "2021."
        f" {CITED}"
    ),
    album=RawAlbum(
        name="camelyon17",
        layout=Camelyon17(labels=LABELS),
        allowed=LABELS,
        license="CC0-1.0",
        attribution="CAMELYON17 (Bándi et al., 2018), patches of WILDS (Koh, Sagawa et al., 2021)",
    ),
    shift=Domains(names=CENTERS),
    bases=(Base(name="all", summary="Every patch of every hospital."),),
    protocols=(Wilds(), *canonical("camelyon17"), *(LeaveOneDomainOut(test=center) for center in CENTERS)),
    virtual=7,  # of 9: WILDS' own, a set of each target and of each of the first hospitals are configs
)
