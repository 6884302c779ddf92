"""Readmission after hospital stays of MIMIC-IV, the year as the domain: from a copy of one's own alone."""

from builders.encode import TextEncoding
from builders.raw.album import RawAlbum
from builders.raw.mimic import YEARS, MimicReadmission
from builders.recipe import Base
from builders.recipes.shared import public
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical

LABELS = ("not_readmitted", "readmitted")

RECIPE = public(
    name="mimic_readmission",
    family="label-shift",
    creators=(
        "Alistair Johnson",
        "Lucas Bulgarelli",
        "Tom Pollard",
        "Steven Horng",
        "Leo Anthony Celi",
        "Roger Mark",
    ),
    title="MIMIC-IV Readmission",
    summary=(
        "Hospital stays as texts of codes of diagnoses and procedures. Whether the patient comes back within "
        "15 days is the target, the year is the domain. All stays of a patient are in one split."
    ),
    citation=(
        "A. Johnson et al. MIMIC-IV, a freely accessible electronic health record dataset. Scientific Data, "
        "2023. As a benchmark over years: H. Yao et al. Wild-Time: a benchmark of in-the-wild distribution "
        "shift over time. NeurIPS 2022."
        f" {CITED}"
    ),
    album=RawAlbum(
        name="mimic_readmission",
        layout=MimicReadmission(labels=LABELS),
        allowed=LABELS,
        license="LicenseRef-PhysioNet-Credentialed-Health-Data-1.5.0",
        attribution="MIMIC-IV (Johnson et al.), PhysioNet; for credentialed users alone",
    ),
    shift=Domains(names=YEARS),
    encoding=TextEncoding(),
    bases=(Base(name="all", summary="Every stay of every year."),),
    protocols=canonical("mimic_readmission"),
    publishes="nothing",
)
