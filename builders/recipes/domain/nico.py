"""NICO++: the six public contexts of 60 classes."""

from builders.raw.domain_class import spelled
from builders.raw.domain_recipe import domain_recipe
from builders.raw.nico import Nico, NicoAlbum
from builders.recipes.shared import NICO_PAPER
from shiftdata.evaluation.protocols import ClassicDG, HoldOut, LeaveOneGroupOut, Listed

DOMAINS = ("autumn", "dim", "grass", "outdoor", "rock", "water")
PAIRS = (("autumn", "rock"), ("dim", "grass"), ("outdoor", "water"))

AUTHORS = ("Xingxuan Zhang", "Yue He", "Renzhe Xu", "Han Yu", "Zheyan Shen", "Peng Cui")
LICENSE = "LicenseRef-NICO-non-commercial-research"
ATTRIBUTION = "NICO++ (Zhang et al., 2023); free for research that is not commercial"

#: In the order of their numbers in the authors' file, which is that of the paper's tables.
LABELS = (
    *("car", "flower", "chair", "truck", "tiger", "wheat", "seal", "wolf", "lion", "dolphin", "lifeboat"),
    *("corn", "fishing rod", "owl", "sunflower", "cow", "bird", "clock", "shrimp", "goose", "airplane"),
    *("rabbit", "hot air balloon", "lizard", "hat", "spider", "motorcycle", "tortoise", "dog", "crocodile"),
    *("elephant", "gun", "fox", "bus", "cat", "sailboat", "giraffe", "cactus", "pumpkin", "train", "ship"),
    *("helicopter", "bicycle", "racket", "squirrel", "bear", "scooter", "mailbox", "horse", "pineapple"),
    *("frog", "football", "ostrich", "tent", "kangaroo", "monkey", "crab", "sheep", "butterfly", "umbrella"),
)

RECIPE = domain_recipe(
    creators=AUTHORS,
    title="NICO++, public part",
    summary=(
        "Photographs of 60 classes in six contexts: what is public of NICO++ with both. The "
        "paper has 80 classes, ten contexts that all of them have, and ten of its own for each."
    ),
    citation=f"{NICO_PAPER} CVPR 2023.",
    album=NicoAlbum(
        name="nico",
        layout=Nico(domains=spelled(*DOMAINS), labels=spelled(*LABELS)),
        allowed=LABELS,
        license=LICENSE,
        attribution=ATTRIBUTION,
    ),
    domains=DOMAINS,
    first=tuple(LeaveOneGroupOut(group=group, groups="nico++") for group in (1, 2, 3)),
    more=(
        *(ClassicDG(split=split, variant="public") for split in (1, 2, 3)),
        *(Listed(test=pair, lists="train-val-test") for pair in PAIRS),
        *(HoldOut(variant="code", test=pair) for pair in PAIRS),
    ),
    pairs=(),
)
