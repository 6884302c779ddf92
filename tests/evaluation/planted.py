"""A dataset of made pictures in which copies are planted, each an origin of its own."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance

from builders.make.build import build

RECIPE = """
from pathlib import Path

from builders.albums.folder import FolderAlbum
from builders.encode import ImageEncoding
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains, OnGround

RECIPE = Recipe(
    name="planted", family="domain", version="1.0.0", released="2026-01-31", title="Planted Copies",
    summary="Made pictures, some of them twice.", creators=("A. Maker",), citation="None.",
    album=FolderAlbum(Path(__file__).parent / "pictures", layout=("domain", "label"), license="CC-BY-4.0",
                      attribution="A. Maker"),
    nuisance="domain", prepare=(OnGround(size=48),), shift=Domains(names=("east", "west")),
    encoding=ImageEncoding(format="jpeg", quality=90),
    bases=(Base(name="all", summary="Every picture."),), default_base="all",
)
"""
SIDE = 48


def drawn(number: int) -> Image.Image:
    """Draw shapes of many colours, never the same twice."""
    rng = np.random.default_rng(number)
    picture = Image.new("RGB", (SIDE, SIDE), tuple(rng.integers(0, 256, 3).tolist()))
    draw = ImageDraw.Draw(picture)
    for _ in range(7):
        x, y, width, height = rng.integers((0, 0, 8, 8), (36, 36, 30, 30)).tolist()
        kind = draw.ellipse if rng.random() < 0.5 else draw.rectangle
        kind((x, y, x + width, y + height), fill=tuple(rng.integers(0, 240, 3).tolist()))
    return picture


def _jpeg(picture: Image.Image) -> Image.Image:
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=60)
    return Image.open(stream).convert("RGB")


def _caption(picture: Image.Image) -> Image.Image:
    picture = picture.copy()
    ImageDraw.Draw(picture).rectangle((0, SIDE - 5, SIDE, SIDE), fill=(20, 20, 20))
    return picture


def _border(picture: Image.Image) -> Image.Image:
    picture = picture.copy()
    ImageDraw.Draw(picture).rectangle((0, 0, SIDE - 1, SIDE - 1), outline=(200, 30, 30), width=3)
    return picture


COPIES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "jpeg": _jpeg,
    "small": lambda picture: picture.resize((34, 34), Image.Resampling.LANCZOS),
    "crop": lambda picture: picture.crop((2, 0, SIDE, SIDE - 2)),
    "bright": lambda picture: ImageEnhance.Brightness(picture).enhance(1.25),
    "mirror": lambda picture: picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "caption": _caption,
    "border": _border,
}


def make(folder: Path) -> None:
    """Build `folder/out/shift/planted`: 60 pictures, two copies of each kind, and one under another label."""
    for number in range(60):
        label, domain = ("round", "square")[number % 2], ("east", "west")[number // 2 % 2]
        _save(drawn(number), folder, domain, label, f"p{number}")
    for number, (kind, copied) in enumerate(list(COPIES.items()) * 2):
        label, domain = ("round", "square")[number % 2], ("east", "west")[number // 2 % 2]
        _save(copied(drawn(number)), folder, domain, label, f"p{number}-{kind}")
    _save(_jpeg(drawn(20)), folder, "west", "square", "p20-other")
    (folder / "recipe.py").write_text(RECIPE, encoding="utf-8")
    build(str(folder / "recipe.py"), folder / "out", workers=1, quiet=True)


def _save(picture: Image.Image, folder: Path, domain: str, label: str, name: str) -> None:
    place = folder / "pictures" / domain / label
    place.mkdir(parents=True, exist_ok=True)
    picture.save(place / f"{name}.png")
