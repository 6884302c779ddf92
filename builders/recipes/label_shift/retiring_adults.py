"""Retiring Adults: whose income is above 50,000 dollars, by the year and the state of the survey."""

from builders.encode import TableEncoding
from builders.raw.acs import AcsIncome
from builders.raw.album import RawAlbum
from builders.recipe import Base
from builders.recipes.shared import public
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical

#: In the order of RLSbench's code.
STATES = ("MD", "NJ", "MA")
DOMAINS = {
    **{str(year): (year, STATES) for year in range(2014, 2019)},
    "sd_2014": (2014, ("SD",)),
    "ar_2017": (2017, ("AR",)),
    "pr_2014": (2014, ("PR",)),
    "pr_2018": (2018, ("PR",)),
}
LABELS = ("at_most_50000", "above_50000")
FEATURES = dict.fromkeys(
    ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"), "int64"
)

RECIPE = public(
    name="retiring_adults",
    family="label-shift",
    creators=("Frances Ding", "Moritz Hardt", "John Miller", "Ludwig Schmidt"),
    title="Retiring Adults (ACSIncome)",
    summary=(
        "Ten answers of working adults to the American Community Survey. Whether their income is above "
        "50,000 dollars is the target; the year of the survey in three states is the domain, and so are a "
        "year of South Dakota, one of Arkansas and two of Puerto Rico."
    ),
    citation=(
        "F. Ding, M. Hardt, J. Miller, L. Schmidt. Retiring Adult: new datasets for fair machine learning. "
        "NeurIPS 2021. Data: U.S. Census Bureau, American Community Survey, Public Use Microdata Sample."
        f" {CITED}"
    ),
    album=RawAlbum(
        name="retiring_adults",
        layout=AcsIncome(domains=DOMAINS, features=tuple(FEATURES), labels=LABELS),
        allowed=LABELS,
        license="LicenseRef-US-Census-public-domain",
        attribution="U.S. Census Bureau, American Community Survey, Public Use Microdata Sample",
    ),
    shift=Domains(names=tuple(DOMAINS)),
    encoding=TableEncoding(features=FEATURES),
    bases=(Base(name="all", summary="Every person whom ACSIncome keeps."),),
    protocols=canonical("retiring_adults"),
)
