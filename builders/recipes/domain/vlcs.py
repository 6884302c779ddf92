"""VLCS: photographs of four older datasets."""

from builders.raw.album import RawAlbum
from builders.raw.domain_recipe import domain_recipe
from builders.raw.vlcs import Vlcs

#: The names of DomainBed's form, and of Dassl's and JigenDG's.
DOMAINS = {
    "Caltech101": ["Caltech"],
    "LabelMe": [],
    "SUN09": ["SUN"],
    "VOC2007": ["PASCAL", "VOC"],
}
LABELS = ("bird", "car", "chair", "dog", "person")

RECIPE = domain_recipe(
    creators=("Chen Fang", "Ye Xu", "Daniel N. Rockmore"),
    title="VLCS",
    summary=(
        "Photographs of five classes from Caltech101, LabelMe, SUN09 and PASCAL VOC 2007, from either of the "
        "two forms in which they are handed on."
    ),
    citation=(
        "C. Fang, Y. Xu, D. N. Rockmore. Unbiased metric learning: on the utilization of multiple datasets "
        "and web images for softening bias. ICCV 2013."
    ),
    album=RawAlbum(
        name="vlcs",
        layout=Vlcs(domains=DOMAINS, labels={label: [str(number)] for number, label in enumerate(LABELS)}),
        allowed=LABELS,
        license="LicenseRef-VLCS-none-stated",
        attribution="VLCS (Fang et al., 2013), from Caltech101, LabelMe, SUN09, PASCAL VOC 2007; no licence",
    ),
    domains=tuple(DOMAINS),
    in_domainbed=True,
)
