"""Stylized Meta-Album: its 12 sets from the authors' release, and 10 made again from Meta-Album."""

from collections.abc import Iterator, Mapping
from typing import Any

from builders.raw.album import RawAlbum
from builders.raw.releases import FORMS
from builders.raw.sma import STYLE_NAMES, MetaAlbum, Sma
from builders.recipe import Base, Recipe
from builders.recipes.shared import GRID, JPEG, SMA_PAPER, SUBSAMPLINGS, adaptation, public
from builders.shifts.steps import CropSquare, Domains, Stylize
from shiftdata.evaluation.protocols.adaptation import SCENARIOS

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


def recipes_of(of: str, facts: Mapping[str, Any]) -> Iterator[Recipe]:
    """Yield a set as its authors released it, and made again from Meta-Album: other pictures, fewer or more.

    With `terms` the pictures are for research alone, and are not published.
    """
    shows, credit = facts["shows"], facts["credit"]
    licence = " AND ".join([FORMS["license"], *([facts["terms"]] if "terms" in facts else ())])
    common: dict[str, Any] = {
        "family": "stylized",
        "nuisance": "style",
        "bases": BASES,
        "default_base": "mini",
        "virtual": len(GRID) + 2,
        "publishes": "splits" if "terms" in facts else "all",
    }
    name = f"sma_{of.lower()}"
    yield public(
        **common,
        name=name,
        creators=tuple(FORMS["creators"]),
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
        protocols=(*GRID, *(adaptation(SCENARIOS) if facts.get("adapted") else ()), *SUBSAMPLINGS),
    )
    if facts.get("one_size"):
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
        citation=f"{FORMS['meta_album']} After: {SMA_PAPER}",
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


RECIPES = tuple(recipe for of, facts in FORMS["sets"].items() for recipe in recipes_of(of, facts))
