"""Pictures that a diffusion model draws: an item is a class and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from PIL import Image

from builders.albums.folder import slug
from builders.sample import Item
from builders.shifts.diffusion.pipeline import Diffusion, start
from shiftdata.errors import InputError
from shiftdata.stable import content_hash


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Each class from each seed (CNS-Bench: 1 to 50), as the model draws it without a slider.

    A class and a seed are an origin: what they draw under every shift stays in one split. `switch` is that
    of the step that follows, so that what both need is computed once.
    """

    code_version: ClassVar[int] = 1

    diffusion: Diffusion
    classes: Sequence[str]
    license: str
    attribution: str
    seeds: Sequence[int] = tuple(range(1, 51))
    switch: float = 0.75

    def __post_init__(self) -> None:
        if (
            isinstance(self.classes, str)
            or not self.classes
            or len(set(map(slug, self.classes))) < len(self.classes)
        ):
            raise InputError(
                f"classes are names that differ in letters or digits, at least one; got {self.classes!r}"
            )
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds need at least one number, each once; got {tuple(self.seeds)}")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(sorted(self.classes))

    def items(self) -> tuple[Item, ...]:
        made = [
            Item(
                key=f"{slug(label)}-seed-{seed:04}",
                label=label,
                origin=f"{slug(label)}-seed-{seed:04}",
                license=self.license,
                attribution=self.attribution,
                source={"seed": seed, "prompt": self.diffusion.prompt_of(label)},
            )
            for label in self.classes
            for seed in self.seeds
        ]
        return tuple(sorted(made, key=lambda item: item.key))

    def load(self, item: Item) -> Image.Image:
        return start(self.diffusion, item.label, int(str(item.source["seed"])), self.switch).untouched

    def fingerprint(self) -> str:
        terms = (self.license, self.attribution, str(self.switch))
        return content_hash(self.diffusion.fingerprint(), *terms, *self.labels, *map(str, self.seeds))
