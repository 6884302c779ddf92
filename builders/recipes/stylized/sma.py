"""Stylized Meta-Album: its 12 sets from the authors' release, and 10 made again from Meta-Album."""

from collections.abc import Iterator
from typing import Any

from builders.raw.album import RawAlbum
from builders.raw.sma import MetaAlbum
from builders.raw.releases import FORMS
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


def recipes_of(of: str, shows: str, credit: str, terms: str = "") -> Iterator[Recipe]:
    """Yield a set as its authors released it, and made again from Meta-Album: other pictures, fewer or more.

    With `terms` the pictures are for research alone, and are not published.
    """
    licence = f"{NON_COMMERCIAL} AND {terms}" if terms else NON_COMMERCIAL
    common: dict[str, Any] = {
        "family": "stylized",
        "nuisance": "style",
        "bases": BASES,
        "default_base": "mini",
        "virtual": len(GRID) + 2,
        "publishes": "splits" if terms else "all",
    }
    name = f"sma_{of.lower()}"
    yield public(
        **common,
        name=name,
        creators=SMA_AUTHORS,
        title=f"Stylized Meta-Album: {shows} ({of})",
        summary=(
            f"Pictures of 20 classes ({shows}), each in 20 styles by neural style transfer, 256 pixels wide, "
            "as released on OpenML. The class is the target, the style is the nuisance."
        ),
        citation=SMA_PAPER,
        album=RawAlbum(
            name=name,
            layout=Sma(set=of),
            license=licence,
            attribution=f"Stylized Meta-Album, SMA_{of} (Mussard et al.), from {credit}",
        ),
        shift=Domains(names=STYLE_NAMES),
        protocols=(*GRID, *(adaptation(SCENARIOS) if of in ADAPTED else ()), *SUBSAMPLINGS),
    )
    if of in NOT_REMADE:
        return
    yield public(
        **common,
        name=f"{name}_remade",
        creators=("The shiftdata founders",),
        title=f"Stylized Meta-Album, made again: {shows} ({of})",
        summary=(
            f"The 20 largest classes of Meta-Album's {of} ({shows}), 128 pixels wide, each in the 20 styles "
            "of shiftdata's style bank. It is not the authors' set: content, number of pictures, size, "
            "styles and network are others."
        ),
        citation=f"{META_ALBUM_PAPER} After: {SMA_PAPER}",
        album=RawAlbum(
            name=f"meta_album_{of.lower()}",
            layout=MetaAlbum(set=of),
            license=licence,
            attribution=f"Meta-Album, {of} (Ullah et al., 2022), from {credit}",
        ),
        prepare=(CropSquare(size=128),),
        shift=Stylize(seed=0, dataset=f"{name}_remade"),
        encoding=JPEG,
        protocols=(*GRID, *SUBSAMPLINGS),
    )


RECIPES = tuple(recipe for of, words in FORMS["sets"].items() for recipe in recipes_of(of, **words))
