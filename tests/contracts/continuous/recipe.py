"""Shapes that fade or blur away: two shifts, each in four severities."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from PIL import Image, ImageFilter

from builders.albums.folder import FolderAlbum
from builders.encode import ImageEncoding
from builders.recipe import Base, Recipe
from builders.sample import Sample
from builders.shifts.steps import OnGround
from shiftdata.evaluation.protocols import Continuous, parse_protocol


@dataclass(frozen=True)
class FadeAndBlur:
    """Each picture along two trajectories, which begin with the picture itself."""

    code_version: ClassVar[int] = 1  # raise it when the pictures change
    nuisances: tuple[str, ...] = ("blur", "fade")
    severities: tuple[float, ...] = (0.0, 0.5, 1.0, 2.5)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            for name in self.nuisances:
                trajectory = f"{sample.key}-{name}"
                for severity in self.severities:
                    yield replace(
                        sample,
                        key=f"{trajectory}-{round(100 * severity):03d}",
                        example=shifted(sample.image, name, severity),
                        nuisance=name,
                        severity=severity,
                        trajectory=trajectory,
                    )


def shifted(picture: Image.Image, name: str, severity: float) -> Image.Image:
    if name == "blur":
        return picture.filter(ImageFilter.GaussianBlur(severity))
    return Image.blend(picture, Image.new("RGB", picture.size, "white"), severity / 3)


RECIPE = Recipe(
    name="tiny_continuous",
    family="continuous",
    version="1.0.0",
    released="2026-01-31",
    title="Fading Shapes",
    summary="Drawn shapes that fade or blur away.",
    creators=("A. Maker",),
    citation="None.",
    album=FolderAlbum(Path(__file__).parent / "pictures", license="CC0-1.0", attribution="A. Maker"),
    nuisance="shift",
    prepare=(OnGround(size=24),),
    shift=FadeAndBlur(),
    encoding=ImageEncoding(format="png"),
    bases=(
        Base(name="content", summary="Untouched shapes.", layer="content"),
        Base(name="mini", summary="10 trajectories a class and shift.", per_group=10),
        Base(name="extended", summary="Every trajectory."),
    ),
    default_base="extended",
    protocols=(
        parse_protocol("continuous shifts=blur severity<=1"),
        Continuous(shifts="fade", cells=True),
    ),
)
