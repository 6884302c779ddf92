"""CIFAR-10 and -100 under corruptions in five severities: the authors', and some that are made here."""

from collections.abc import Iterator

from builders.encode import FileEncoding, ImageEncoding
from builders.raw.album import Layout, RawAlbum
from builders.raw.cifar import CIFAR10, CIFAR100, TERMS, Cifar, CifarC
from builders.raw.imagenet import CORRUPTIONS
from builders.recipe import Base, Recipe, Shift
from builders.recipes.shared import paper_trajectories, public
from builders.shifts.steps import Corrupt, Trajectories

HENDRYCKS = (
    "D. Hendrycks, T. Dietterich. Benchmarking neural network robustness to common corruptions and "
    "perturbations. ICLR 2019, arXiv:1903.12261."
)


def recipe(
    name: str,
    title: str,
    summary: str,
    layout: Layout,
    shift: Shift,
    labels: tuple[str, ...],
    *,
    raw: str,
    made: bool,
) -> Recipe:
    """The authors' corruptions, or those that are made here."""
    return public(
        name=name,
        family="continuous",
        creators=("The shiftdata founders",) if made else ("Dan Hendrycks", "Thomas Dietterich"),
        title=title,
        summary=summary,
        citation=f"{'After: ' * made}{HENDRYCKS}",
        album=RawAlbum(
            name=raw,
            layout=layout,
            allowed=labels,
            license=TERMS,
            attribution=f"{title}, of pictures of CIFAR (Krizhevsky, 2009); no licence is stated",
        ),
        nuisance="corruption",
        shift=shift,
        encoding=ImageEncoding(format="png") if made else FileEncoding(),
        bases=(Base(name="all", summary="Every corrupted picture."),),
        protocols=paper_trajectories(shift.nuisances),
        publishes="splits",
    )


def _recipes() -> Iterator[Recipe]:
    for name, labels in {"cifar10": CIFAR10, "cifar100": CIFAR100}.items():
        title = name.upper().replace("R1", "R-1")
        yield recipe(
            f"{name}_c",
            f"{title}-C",
            f"The test pictures of {title} under 19 corruptions, each in five severities, as their authors "
            "made them. The class is the target, the corruption is the nuisance.",
            CifarC(labels=labels),
            Trajectories(names=CORRUPTIONS),
            labels,
            raw=name,
            made=False,
        )
        yield recipe(
            f"{name}_corrupted",
            f"{title} under shiftdata's corruptions",
            f"The test pictures of {title} under shiftdata's own corruptions, untouched and in five "
            f"severities. These are not the pictures of {title}-C: parameters and code are others.",
            Cifar(labels=labels, domains=("test",), content=True),
            Corrupt(seed=0, dataset=f"{name}_corrupted"),
            labels,
            raw=name,
            made=True,
        )


RECIPES = tuple(_recipes())
