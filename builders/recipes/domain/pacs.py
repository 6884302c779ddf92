"""PACS: the four domains on which domain generalization is measured most often."""

from builders.raw.album import RawAlbum
from builders.raw.domain_class import spelled
from builders.raw.domain_recipe import domain_recipe
from builders.raw.pacs import Pacs
from shiftdata.evaluation.protocols import Listed

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
LABELS = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")

RECIPE = domain_recipe(
    creators=("Da Li", "Yongxin Yang", "Yi-Zhe Song", "Timothy Hospedales"),
    title="PACS",
    summary=(
        "Photographs, art, cartoons and sketches of seven classes. Sketches that were drawn after one of the "
        "photographs share its split."
    ),
    citation=(
        "D. Li, Y. Yang, Y.-Z. Song, T. M. Hospedales. Deeper, broader and artier domain generalization. "
        "ICCV 2017."
    ),
    album=RawAlbum(
        name="pacs",
        layout=Pacs(domains=spelled(*DOMAINS) | {"art_painting": ["art"]}, labels=spelled(*LABELS)),
        allowed=LABELS,
        license="LicenseRef-PACS-none-stated",
        attribution="PACS (Li et al., 2017); its authors state no licence",
    ),
    domains=DOMAINS,
    in_domainbed=True,
    more=tuple(Listed(test=domain) for domain in DOMAINS),
)
