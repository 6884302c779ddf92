"""BREEDS: superclasses of ImageNet whose sub-populations differ between source and target, and ImageNetV2."""

from builders.raw.album import RawAlbum
from builders.raw.breeds import CUTS, breeds
from builders.raw.imagenet import DOMAINS, TERMS, Breeds
from builders.recipe import Base, Recipe
from builders.recipes.shared import public
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical

TITLES = dict(zip(CUTS, ("Entity-13", "Entity-30", "Living-17", "Non-living-26"), strict=True))


def recipe(name: str) -> Recipe:
    """One of the four datasets."""
    superclasses = breeds(name)
    labels = tuple(superclass.name for superclass in superclasses)
    each = len(superclasses[0].source)
    return public(
        name=name,
        family="label-shift",
        creators=("Shibani Santurkar", "Dimitris Tsipras", "Aleksander Mądry"),
        title=f"BREEDS {TITLES[name]}, of ImageNet and ImageNetV2",
        summary=(
            f"{len(labels)} superclasses of ImageNet, each with {each} of its classes in the source and "
            f"{each} others in the target sub-population, in pictures of ImageNet and of ImageNetV2. The "
            "superclass is the target; which sub-population and which of the two collections is the domain."
        ),
        citation=(
            "S. Santurkar, D. Tsipras, A. Mądry. BREEDS: benchmarks for subpopulation shift. ICLR 2021. "
            "Pictures: O. Russakovsky et al. ImageNet large scale visual recognition challenge. IJCV 2015; "
            "B. Recht, R. Roelofs, L. Schmidt, V. Shankar. Do ImageNet classifiers generalize to ImageNet? "
            "ICML 2019."
            f" {CITED}"
        ),
        album=RawAlbum(
            name="imagenet",
            layout=Breeds(superclasses=superclasses),
            allowed=labels,
            license=TERMS,
            attribution="ImageNet (Russakovsky et al., 2015), ImageNetV2 (Recht et al., 2019); for research",
        ),
        shift=Domains(names=DOMAINS),
        bases=(Base(name="all", summary="Every picture of the superclasses' classes."),),
        protocols=canonical(name),
        publishes="splits",
    )


RECIPES = tuple(recipe(name) for name in CUTS)
