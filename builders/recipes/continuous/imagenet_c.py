"""ImageNet-C: the validation pictures of ImageNet under 19 corruptions in five severities."""

from builders.raw.album import RawAlbum
from builders.raw.imagenet import CORRUPTIONS, TERMS, Corrupted, labels
from builders.recipe import Base
from builders.recipes.shared import paper_trajectories, public
from builders.shifts.steps import Trajectories

RECIPE = public(
    name="imagenet_c",
    family="continuous",
    creators=("Dan Hendrycks", "Thomas Dietterich"),
    title="ImageNet-C",
    summary=(
        "The validation pictures of ImageNet under 19 corruptions, each in five severities. The class is the "
        "target, the corruption is the nuisance. Those that are on the disk are built."
    ),
    citation=(
        "D. Hendrycks, T. Dietterich. Benchmarking neural network robustness to common corruptions and "
        "perturbations. ICLR 2019, arXiv:1903.12261. doi:10.5281/zenodo.2235448."
    ),
    album=RawAlbum(
        name="imagenet_c",
        layout=Corrupted(),
        allowed=labels(),
        license=TERMS,
        attribution="ImageNet-C (Hendrycks, Dietterich, 2019), of pictures of ImageNet; for research only",
    ),
    nuisance="corruption",
    shift=Trajectories(names=CORRUPTIONS),
    bases=(Base(name="all", summary="Every corrupted picture."),),
    protocols=paper_trajectories(CORRUPTIONS),
    publishes="splits",
)
