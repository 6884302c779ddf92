"""A tiny real dataset: 4 labels x 40 made pictures x 5 tints, built by the real pipeline in a few seconds."""

from __future__ import annotations

import colorsys
import textwrap
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

LABELS = ("bar", "disc", "ring", "wedge")
PER_LABEL = 40

RECIPE = '''
"""Tinted shapes: a recipe in a file of its own."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from builders.albums.folder import FolderAlbum
from builders.recipe import Base, Recipe
from builders.sample import Sample
from builders.steps.compose import OnGround
from builders.steps.encode import ImageEncoding
from shiftdata.protocols import GroupFairness


@dataclass(frozen=True)
class Tint:
    """Each picture in five colours."""

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
'''


def write_recipe(folder: Path) -> Path:
    """Draw the pictures and write the recipe that uses them; give the recipe's path."""
    for label in LABELS:
        (folder / "pictures" / label).mkdir(parents=True)
        for number in range(PER_LABEL):
            _picture(label, number).save(folder / "pictures" / label / f"{label}{number:02d}.png")
    path = folder / "tiny.py"
    path.write_text(textwrap.dedent(RECIPE), encoding="utf-8")
    return path


def _picture(label: str, number: int) -> Image.Image:
    rng = np.random.default_rng([LABELS.index(label), number])
    picture = Image.new("RGBA", (32, 32))
    draw = ImageDraw.Draw(picture)
    x, y = (int(v) for v in rng.integers(2, 8, 2))
    box = (x, y, x + 20, y + 20)
    ink = (*(round(255 * v) for v in colorsys.hsv_to_rgb(float(rng.random()), 0.7, 0.8)), 255)
    if label == "bar":
        draw.rectangle((x, y + 6, x + 20, y + 14), fill=ink)
    elif label == "disc":
        draw.ellipse(box, fill=ink)
    elif label == "ring":
        draw.ellipse(box, outline=ink, width=4)
    else:
        draw.pieslice(box, 20, 120, fill=ink)
    return picture
