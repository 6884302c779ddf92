"""FMoW of WILDS: the use of land and buildings from above, the years as the domain."""

from builders.raw.album import RawAlbum
from builders.raw.fmow import PERIODS, Fmow
from builders.recipe import Base
from builders.recipes.shared import public
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols import UDA, Wilds
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical

#: In the order of their numbers in WILDS.
LABELS = (
    *("airport", "airport_hangar", "airport_terminal", "amusement_park", "aquaculture"),
    *("archaeological_site", "barn", "border_checkpoint", "burial_site", "car_dealership"),
    *("construction_site", "crop_field", "dam", "debris_or_rubble", "educational_institution"),
    *("electric_substation", "factory_or_powerplant", "fire_station", "flooded_road", "fountain"),
    *("gas_station", "golf_course", "ground_transportation_station", "helipad", "hospital"),
    *("impoverished_settlement", "interchange", "lake_or_pond", "lighthouse", "military_facility"),
    *("multi-unit_residential", "nuclear_powerplant", "office_building", "oil_or_gas_facility", "park"),
    *("parking_lot_or_garage", "place_of_worship", "police_station", "port", "prison", "race_track"),
    *("railway_bridge", "recreational_facility", "road_bridge", "runway", "shipyard", "shopping_mall"),
    *("single-unit_residential", "smokestack", "solar_farm", "space_facility", "stadium", "storage_tank"),
    *("surface_mine", "swimming_pool", "toll_booth", "tower", "tunnel_opening", "waste_disposal"),
    *("water_treatment_facility", "wind_farm", "zoo"),
)
FIRST, *LATER = PERIODS

RECIPE = public(
    name="fmow",
    family="label-shift",
    creators=("Gordon Christie", "Neil Fendley", "James Wilson", "Ryan Mukherjee", "Pang Wei Koh"),
    title="FMoW-WILDS",
    summary=(
        "Satellite pictures of 62 uses of buildings and land, from 2002 to 2017. The use is the target, the "
        "period is the domain; year, region and country stand in the parameters of each picture."
    ),
    citation=(
        "G. Christie, N. Fendley, J. Wilson, R. Mukherjee. Functional Map of the World. CVPR 2018. Pictures "
        "and periods: P. W. Koh, S. Sagawa et al. WILDS: a benchmark of in-the-wild distribution shifts. "
        "ICML 2021."
        f" {CITED}"
    ),
    album=RawAlbum(
        name="fmow",
        layout=Fmow(labels=LABELS),
        allowed=LABELS,
        license="LicenseRef-FMoW-Challenge-Public-License",
        attribution="Functional Map of the World (Christie et al., 2018), pictures of WILDS",
    ),
    shift=Domains(names=tuple(PERIODS)),
    bases=(Base(name="all", summary="Every picture of every period."),),
    protocols=(Wilds(), *canonical("fmow"), *(UDA(source=FIRST, target=period) for period in LATER)),
    publishes="splits",
)
