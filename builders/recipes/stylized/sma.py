"""Stylized Meta-Album: its 12 sets from the authors' release, and 10 made again from Meta-Album."""

from collections.abc import Iterator
from dataclasses import dataclass

from builders.raw.album import RawAlbum
from builders.raw.meta_album import MetaAlbum
from builders.raw.sma import STYLE_NAMES, Sma
from builders.recipe import Base, Recipe
from builders.recipes.shared import GRID, JPEG, SMA_PAPER, SUBSAMPLINGS, adaptation, public
from builders.shifts.steps import CropSquare, Domains, Stylize
from shiftdata.evaluation.protocols.adaptation import SCENARIOS

NON_COMMERCIAL = "CC-BY-NC-4.0"
META_ALBUM_PAPER = (
    "I. Ullah, D. Carrión-Ojeda, S. Escalera, I. Guyon, M. Huisman, F. Mohr, J. N. van Rijn, H. Sun, "
    "J. Vanschoren, P. A. Vu. Meta-Album: Multi-domain meta-dataset for few-shot image classification. "
    "NeurIPS Datasets and Benchmarks 2022."
)
SMA_AUTHORS = (
    "Romain Mussard",
    "Aurélien Gauffre",
    "Ihsan Ullah",
    "Thanh Gia Hieu Khuong",
    "Massih-Reza Amini",
    "Isabelle Guyon",
    "Lisheng Sun-Hosoya",
)

#: The sets of section 3.2 of the paper.
ADAPTED = ("BRD", "DOG", "SPT", "PLT_DOC", "APL")

#: Every class of these has equally many pictures in Meta-Album: which 20 are the largest is not defined.
NOT_REMADE = ("RESISC", "TEX_DTD")

BASES = (
    Base(name="content", summary="Every untouched picture.", layer="content"),
    Base(
        name="mini",
        summary="The authors' Mini where the raw data has it, else 40 pictures a class, in every style.",
        per_group=40,
        listed=True,
    ),
    Base(name="extended", summary="Every content picture in every style.", listed=True),
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """One of the 12 sets: what it shows, whose pictures they are, and under which terms.

    Where `terms` are given, the pictures are for research alone, and are not published.
    """

    id: str
    shows: str
    credit: str
    terms: str = ""

    @property
    def license(self) -> str:
        return f"{NON_COMMERCIAL} AND {self.terms}" if self.terms else NON_COMMERCIAL


SOURCES = (
    Source(id="APL", shows="aircraft", credit="MTARSI (zenodo 3464319), CC BY 4.0"),
    Source(
        id="AWA",
        shows="large animals",
        credit="Animals with Attributes 2 (cvml.ist.ac.at/AwA2), Flickr photographs under Creative Commons",
    ),
    Source(id="BRD", shows="birds", credit="100 Bird Species (Kaggle, gpiosenka), stated there as CC0"),
    Source(
        id="DOG",
        shows="dogs",
        credit="Stanford Dogs, photographs of ImageNet, for research only",
        terms="LicenseRef-Stanford-Dogs-research-only",
    ),
    Source(
        id="INS_2",
        shows="insects",
        credit="IP102 (github.com/xpwu95/IP102), for academic use only",
        terms="LicenseRef-IP102-academic-only",
    ),
    Source(id="MED_LF", shows="leaves of medicinal plants", credit="Mendeley nnytj2v3n5/1, CC BY 4.0"),
    Source(id="PLT_DOC", shows="diseases of plants", credit="PlantDoc (object detection), CC BY 4.0"),
    Source(id="PLT_NET", shows="plants", credit="Pl@ntNet-300K (zenodo 4726653), CC BY 4.0"),
    Source(id="RESISC", shows="scenes from above", credit="NWPU-RESISC45, CC BY-NC 4.0"),
    Source(
        id="RSICB",
        shows="land from above",
        credit="RSI-CB, for research only",
        terms="LicenseRef-RSI-CB-research-only",
    ),
    Source(id="SPT", shows="sports", credit="Sports Classification (Kaggle, gpiosenka), stated there as CC0"),
    Source(
        id="TEX_DTD",
        shows="textures",
        credit="Describable Textures Dataset, for research only",
        terms="LicenseRef-DTD-research-only",
    ),
)


def released(source: Source) -> Recipe:
    """The set as its authors released it."""
    name = f"sma_{source.id.lower()}"
    return public(
        name=name,
        family="stylized",
        creators=SMA_AUTHORS,
        title=f"Stylized Meta-Album: {source.shows} ({source.id})",
        summary=(
            f"Pictures of 20 classes ({source.shows}), each in 20 styles by neural style transfer, 256 "
            "pixels wide, as released on OpenML. The class is the target, the style is the nuisance."
        ),
        citation=SMA_PAPER,
        album=RawAlbum(
            name=name,
            layout=Sma(set=source.id),
            license=source.license,
            attribution=f"Stylized Meta-Album, SMA_{source.id} (Mussard et al.), from {source.credit}",
        ),
        nuisance="style",
        shift=Domains(names=STYLE_NAMES),
        bases=BASES,
        default_base="mini",
        protocols=(*GRID, *(adaptation(SCENARIOS) if source.id in ADAPTED else ()), *SUBSAMPLINGS),
        virtual=len(GRID) + 2,
        publishes="splits" if source.terms else "all",
    )


def remade(source: Source) -> Recipe:
    """The set made again from Meta-Album: other pictures, and fewer or more than the authors have."""
    name = f"sma_{source.id.lower()}_remade"
    return public(
        name=name,
        family="stylized",
        creators=("The shiftdata founders",),
        title=f"Stylized Meta-Album, made again: {source.shows} ({source.id})",
        summary=(
            f"The 20 largest classes of Meta-Album's {source.id} ({source.shows}), 128 pixels wide, each "
            "in the 20 styles of shiftdata's style bank. It is not the authors' set: content, number of "
            "pictures, size, styles and network are others."
        ),
        citation=f"{META_ALBUM_PAPER} After: {SMA_PAPER}",
        album=RawAlbum(
            name=f"meta_album_{source.id.lower()}",
            layout=MetaAlbum(set=source.id),
            license=source.license,
            attribution=f"Meta-Album, {source.id} (Ullah et al., 2022), from {source.credit}",
        ),
        nuisance="style",
        prepare=(CropSquare(size=128),),
        shift=Stylize(seed=0, dataset=name),
        encoding=JPEG,
        bases=BASES,
        default_base="mini",
        protocols=(*GRID, *SUBSAMPLINGS),
        virtual=len(GRID) + 2,
        publishes="splits" if source.terms else "all",
    )


def _recipes() -> Iterator[Recipe]:
    for source in SOURCES:
        yield released(source)
        if source.id not in NOT_REMADE:
            yield remade(source)


RECIPES = tuple(_recipes())
