"""Fields, citations and protocols that recipes share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

from builders.datasheet import Datasheet
from builders.encode import FileEncoding, ImageEncoding
from builders.recipe import Recipe
from shiftdata.evaluation.protocols import (
    UDA,
    ClassicDG,
    Continuous,
    FlexibleDG,
    GroupFairness,
    HoldOut,
    LabelShift,
    LeaveOneGroupOut,
    Protocol,
    UniDA,
)

JPEG = ImageEncoding(format="jpeg", quality=92)
#: A dataset whose content ships with the builders.
embedded = partial(Recipe, version="1.0.0", creators=("The shiftdata founders",), encoding=JPEG)
#: A public dataset, from the files of its authors.
public = partial(
    Recipe,
    version="1.0.0",
    released="2026-11-22",
    nuisance="domain",
    encoding=FileEncoding(),
    default_base="all",
    on_empty="report",
)

SMA_PAPER = (
    "R. Mussard, A. Gauffre, I. Ullah, T. G. H. Khuong, M.-R. Amini, I. Guyon, L. Sun-Hosoya. "
    "Stylized Meta-Album: Group-bias injection with style transfer to study robustness against "
    "distribution shifts. arXiv:2512.09773."
)
CNS_PAPER = (
    "O. Dünkel, A. Jesslen, J. Xie, C. Theobalt, C. Rupprecht, A. Kortylewski. CNS-Bench: Benchmarking "
    "Image Classifier Robustness Under Continuous Nuisance Shifts. ICCV 2025, arXiv:2507.17651."
)
NICO_PAPER = (
    "X. Zhang, Y. He, R. Xu, H. Yu, Z. Shen, P. Cui. NICO++: Towards better benchmarking for domain "
    "generalization, arXiv:2204.08040."
)
SEVERAL_DOMAINS_PAPER = (
    "H. Yu et al. Rethinking the evaluation protocol of domain generalization. CVPR 2024, arXiv:2305.15253."
)
DOMAINBED_PAPER = "I. Gulrajani, D. Lopez-Paz. In search of lost domain generalization. arXiv:2007.01434"

#: The grid of Stylized Meta-Album, and the subsamplings of its appendix E.
GRID = tuple(GroupFairness(k=k, mu=mu) for k in (2, 4, 8, 12) for mu in (0.05, 0.1, 0.2))
SUBSAMPLINGS = tuple(GroupFairness(k=4, mu=0.1, seed=seed) for seed in range(1, 10))
#: The protocols of NICO++, and a pair of domains that is held out.
NICO: tuple[Protocol, ...] = (
    *(ClassicDG(split=split) for split in (1, 2, 3)),
    *(LeaveOneGroupOut(group=group, groups="nico++") for group in (1, 2, 3)),
    HoldOut(test=("grass", "water")),
    FlexibleDG(),
    FlexibleDG(variant="compositional"),
)


def adaptation(pairs: Sequence[tuple[str, str]]) -> tuple[Protocol, ...]:
    """From a source style to a target style, with all classes and with some."""
    return (
        *(UDA(source=source, target=target) for source, target in pairs),
        *(UniDA(source=source, target=target) for source, target in pairs),
    )


def label_shifts(source: str, target: Sequence[str]) -> tuple[Protocol, ...]:
    """The target as it is, and with its labels shifted in four strengths of two draws each.

    For tables of some hundred rows. All other domains are one target and half of it is tested, so that each
    draw leaves a hundred rows. The law is the released code's: the paper's leaves few labels at alpha 1.
    """
    cut = partial(LabelShift, source=source, target=tuple(target), test=0.5)
    drawn = (cut(variant="code", alpha=alpha, seed=seed) for alpha, seed in product((10, 3, 1, 0.5), (0, 1)))
    return (cut(alpha=None), *drawn)


def trajectories(shifts: Sequence[str], cells: Sequence[str] = ()) -> tuple[Protocol, ...]:
    """All shifts, each alone, and some by severity."""
    return (
        Continuous(),
        *(Continuous(shifts=shift) for shift in shifts),
        *(Continuous(shifts=shift, cells=True) for shift in cells),
    )


def datasheet_of(recipe_file: str) -> Datasheet:
    """Read the datasheet next to a recipe."""
    return Datasheet.read(Path(recipe_file).with_suffix(".toml"))
