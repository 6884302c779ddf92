"""NICO++'s construction on the embedded album: cut-outs in common and unique contexts."""

from dataclasses import dataclass, replace
from typing import ClassVar

from PIL import Image

from builders.albums.emoji import EmojiAlbum
from builders.recipe import Base, Expected
from builders.recipes.shared import NICO, NICO_PAPER, SEVERAL_DOMAINS_PAPER, datasheet_of, embedded
from builders.sample import Item
from builders.shifts.steps import Contexts
from shiftdata.stable import content_hash

SIZE = 128
TAKES = 3
#: Of each class in each domain; its test rows, 30 %, are the 50 that flexible-dg takes, and a few more.
PER_GROUP = 180


@dataclass(frozen=True)
class Takes:
    """Every picture of an album several times, each to be set into a scene of its own.

    The smallest class has 76 pictures; some class has 20 in its test folds, of which no domain would have 50.
    """

    code_version: ClassVar[int] = 1

    album: EmojiAlbum
    takes: int

    @property
    def labels(self) -> tuple[str, ...]:
        return self.album.labels

    def items(self) -> tuple[Item, ...]:
        made = [
            replace(item, key=f"{item.key}-{take}", source={**item.source, "take": take})
            for item in self.album.items()
            for take in range(1, self.takes + 1)
        ]
        return tuple(sorted(made, key=lambda item: item.key))

    def load(self, item: Item) -> Image.Image:
        return self.album.load(item)

    def fingerprint(self) -> str:
        return content_hash(str(self.takes), self.album.fingerprint())


RECIPE = embedded(
    name="nico_emoji",
    family="domain",
    released="2026-11-21",
    title="Emoji in Contexts",
    summary=(
        "Emoji of 20 classes by four vendors, cut out and set into drawn contexts: ten common domains, which "
        "every class has, and ten of thirty unique ones a class. The class is the target, the context the "
        "nuisance."
    ),
    citation=f"{NICO_PAPER} Several test domains: {SEVERAL_DOMAINS_PAPER}",
    album=Takes(EmojiAlbum(size=SIZE), TAKES),
    nuisance="domain",
    shift=Contexts(seed=0, dataset="nico_emoji", size=SIZE),
    bases=(
        Base(name="mini", summary="40 pictures of each class in each of its domains.", per_group=40),
        Base(
            name="extended",
            summary=f"{PER_GROUP} pictures of each class in each of its domains.",
            per_group=PER_GROUP,
        ),
    ),
    default_base="extended",
    protocols=NICO,
    datasheet=datasheet_of(__file__),
    expected=(
        Expected(base="mini", rows={"train": 8000, "validation": 3200, "test": 4800}, smallest_group=8),
        Expected(
            base="extended", rows={"train": 36000, "validation": 14400, "test": 21600}, smallest_group=36
        ),
    ),
)
