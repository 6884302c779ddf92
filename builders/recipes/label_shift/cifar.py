"""CIFAR-10 and CIFAR-100 as RLSbench takes them: with corruptions, and with pictures collected anew."""

from builders.raw.album import RawAlbum
from builders.raw.cifar import CIFAR10, CIFAR100, TERMS, Cifar
from builders.recipe import Base, Recipe
from builders.recipes.shared import public
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical


def recipe(name: str, title: str, labels: tuple[str, ...], domains: tuple[str, ...], more: str) -> Recipe:
    """One of the two."""
    return public(
        name=name,
        family="label-shift",
        creators=("Alex Krizhevsky", "Dan Hendrycks", "Thomas Dietterich", "Benjamin Recht"),
        title=f"{title}, with corruptions",
        summary=(
            f"Pictures of {len(labels)} classes, 32 pixels wide: those of {title} to train and to test on, "
            f"{more}. Corruptions of a test picture share its split."
        ),
        citation=(
            "A. Krizhevsky. Learning multiple layers of features from tiny images. 2009. Corruptions: D. "
            "Hendrycks, T. Dietterich. Benchmarking neural network robustness to common corruptions and "
            "perturbations. ICLR 2019, arXiv:1903.12261. Further tests: B. Recht et al., arXiv:1806.00451; "
            "S. Lu et al. Harder or different? 2020."
            f" {CITED}"
        ),
        album=RawAlbum(
            name=name,
            layout=Cifar(labels=labels, domains=domains),
            allowed=labels,
            license=TERMS,
            attribution=f"{title} (Krizhevsky, 2009) and what was made after it; no licence is stated",
        ),
        shift=Domains(names=domains),
        bases=(Base(name="all", summary="Every picture of every domain."),),
        protocols=canonical(name),
        publishes="splits",
    )


RECIPES = (
    recipe(
        "cifar10",
        "CIFAR-10",
        CIFAR10,
        ("train", "test", "cifar10_1", "cifar10_2", "frost_4", "pixelate_5", "saturate_5"),
        "two tests that were collected anew (10.1 and 10.2), and three corruptions of the test pictures",
    ),
    recipe(
        "cifar100",
        "CIFAR-100",
        CIFAR100,
        ("train", "test", "fog_4", "motion_blur_2", "contrast_4", "spatter_2"),
        "and four corruptions of the test pictures",
    ),
)
