"""Tinted shapes: a recipe in a file of its own."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from PIL import Image

from builders.albums.folder import FolderAlbum
from builders.encode import ImageEncoding
from builders.recipe import Base, Recipe
from builders.sample import Sample
from builders.shifts.steps import OnGround
from shiftdata.evaluation.protocols import GroupFairness


@dataclass(frozen=True)
class Tint:
    """Each picture in five colours."""

    code_version: ClassVar[int] = 1  # raise it when the pictures change
    nuisances: tuple[str, ...] = ("blue", "cyan", "green", "red", "yellow")
    severities: tuple[float, ...] = (1.0,)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            for name in self.nuisances:
                image = Image.blend(sample.image, Image.new("RGB", sample.image.size, name), 0.5)
                params = {**sample.params, "tint": name}
                key = f"{sample.key}-{name}"
                yield replace(sample, key=key, example=image, nuisance=name, severity=1.0, params=params)


RECIPE = Recipe(
    name="tiny",
    family="stylized",
    version="1.0.0",
    released="2026-01-31",
    creators=("A. Maker",),
    title="Tinted Shapes",
    summary="Made shapes in five tints.",
    citation="None.",
    album=FolderAlbum(Path(__file__).parent / "pictures", license="CC0-1.0", attribution="made here"),
    nuisance="style",
    prepare=(OnGround(size=24),),
    shift=Tint(),
    encoding=ImageEncoding(format="png"),
    bases=(
        Base(name="content", summary="Untouched shapes.", layer="content"),
        Base(name="mini", summary="20 a label.", per_group=20),
        Base(name="extended", summary="All."),
    ),
    default_base="mini",
    protocols=(GroupFairness(k=2, mu=0.1), GroupFairness(k=4, mu=0.2, seed=1)),
    seed=0,
)
