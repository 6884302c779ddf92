"""ImageNetV2 beside ImageNet's validation pictures, and ImageNet-R: tests for models of ImageNet."""

from builders.raw.album import Layout, RawAlbum
from builders.raw.imagenet import STYLES, TERMS, Renditions, Validation, labels
from builders.recipe import Base, Recipe
from builders.recipes.shared import public
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols import EvaluateOnly


def recipe(
    name: str,
    title: str,
    summary: str,
    creators: tuple[str, ...],
    citation: str,
    layout: Layout,
    domains: tuple[str, ...],
    allowed: tuple[str, ...] | None,
) -> Recipe:
    """A dataset in which every picture is a test."""
    return public(
        name=name,
        family="domain",
        creators=creators,
        title=title,
        summary=summary,
        citation=citation,
        album=RawAlbum(
            name=name,
            layout=layout,
            allowed=allowed,
            license=TERMS,
            attribution=f"{title}; pictures for research only",
        ),
        shift=Domains(names=domains),
        bases=(Base(name="all", summary="Every picture."),),
        protocols=(EvaluateOnly(), *(EvaluateOnly(test=domain) for domain in domains)),
        publishes="splits",
    )


RECIPES = (
    recipe(
        "imagenet_v2",
        "ImageNetV2 and the validation pictures of ImageNet",
        "The 1,000 classes of ImageNet in its own 50,000 validation pictures and in the 10,000 of ImageNetV2 "
        "(matched frequency), which were collected anew by the same steps. All are tests.",
        ("Benjamin Recht", "Rebecca Roelofs", "Ludwig Schmidt", "Vaishaal Shankar"),
        "B. Recht, R. Roelofs, L. Schmidt, V. Shankar. Do ImageNet classifiers generalize to ImageNet? ICML "
        "2019.",
        Validation(),
        tuple(Validation.domains.values()),
        labels(),
    ),
    recipe(
        "imagenet_r",
        "ImageNet-R",
        "Renditions of 200 classes of ImageNet in 15 styles, from art to video games. All are tests.",
        ("Dan Hendrycks", "Steven Basart", "Norman Mu", "Saurav Kadavath", "Frank Wang"),
        "D. Hendrycks et al. The many faces of robustness: a critical analysis of out-of-distribution "
        "generalization. ICCV 2021.",
        Renditions(),
        STYLES,
        None,
    ),
)
