"""NICO++ as the paper has it, for whoever has all of it: 80 classes, common contexts and unique ones."""

from dataclasses import replace

from builders.raw.domain_class import spelled
from builders.raw.domain_recipe import domain_recipe
from builders.raw.nico import AlbumDomains, Nico, NicoAlbum
from shiftdata.evaluation.protocols import ClassicDG, FlexibleDG, LeaveOneGroupOut
from shiftdata.evaluation.protocols.domains import COMMON

#: In the order of the paper's tables.
LABELS = (
    *("car", "flower", "penguin", "camel", "chair", "monitor", "truck", "tiger", "wheat", "sword", "seal"),
    *("wolf", "lion", "fish", "dolphin", "lifeboat", "tank", "corn", "fishing rod", "owl", "sunflower"),
    *("cow", "bird", "clock", "shrimp", "goose", "airplane", "shark", "rabbit", "snake", "hot air balloon"),
    *("lizard", "hat", "spider", "motorcycle", "tortoise", "dog", "crocodile", "elephant", "chicken", "bee"),
    *("gun", "fox", "phone", "bus", "cat", "sailboat", "giraffe", "cactus", "pumpkin", "train", "dragonfly"),
    *("ship", "helicopter", "bicycle", "racket", "squirrel", "bear", "scooter", "mailbox", "horse"),
    *("pineapple", "banana", "mushroom", "cauliflower", "whale", "frog", "football", "camera", "ostrich"),
    *("beetle", "tent", "kangaroo", "monkey", "crab", "lemon", "pepper", "sheep", "butterfly", "umbrella"),
)

ALBUM = NicoAlbum(
    name="nico_full",
    layout=Nico(domains=spelled(*COMMON), labels=spelled(*LABELS), any_context=True),
    allowed=LABELS,
    license="LicenseRef-NICO-non-commercial-research",
    attribution="NICO++ (Zhang et al., 2023); free for research that is not commercial",
)

RECIPE = replace(
    domain_recipe(
        creators=("Xingxuan Zhang", "Yue He", "Renzhe Xu", "Han Yu", "Zheyan Shen", "Peng Cui"),
        title="NICO++, whole",
        summary=(
            "Photographs of 80 classes in ten contexts that all have, and in ten of its own for each. This "
            "form is the paper's, and was never released."
        ),
        citation=(
            "X. Zhang, Y. He, R. Xu, H. Yu, Z. Shen, P. Cui. NICO++: Towards better benchmarking for domain "
            "generalization, arXiv:2204.08040. CVPR 2023."
        ),
        album=ALBUM,
        domains=COMMON,
        first=(
            *(ClassicDG(split=split) for split in (1, 2, 3)),
            *(LeaveOneGroupOut(group=group, groups="nico++") for group in (1, 2, 3)),
        ),
        more=(FlexibleDG(), FlexibleDG(variant="compositional")),
        pairs=(),
    ),
    shift=AlbumDomains(names=COMMON, album=ALBUM),
)
