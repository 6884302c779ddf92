"""Style pictures for tests."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image


def data_of(picture: Image.Image, kind: str = "PNG", **options) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


@cache
def photographs() -> tuple[Image.Image, ...]:
    """24 parts of the two photographs of scikit-learn."""
    from sklearn.datasets import load_sample_image

    photos = [Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg")]
    return tuple(
        photo.crop((x, y, x + 150, y + 130))
        for photo in photos
        for y in (0, 140, 280)
        for x in (0, 160, 320, 480)
    )


@cache
def texture(style: str, number: int) -> Image.Image:
    """A picture of a style: waves of its own direction and colours."""
    draw = np.random.default_rng([sum(map(ord, style)), number])
    y, x = np.mgrid[:90, :100] / 100
    turn = sum(map(ord, style)) + draw.normal() * 0.3
    waves = sum(
        np.sin(one * (x * np.cos(turn) + y * np.sin(turn)) + draw.uniform(0, 7))
        for one in draw.uniform(4, 30, 4)
    )
    cast = 128 + draw.uniform(-40, 40, 3)
    colours = draw.uniform(20, 120, 3) * waves[..., None] / 2 + cast + draw.normal(0, 12, (90, 100, 3))
    return Image.fromarray(colours.clip(0, 255).astype(np.uint8))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder that is not hidden."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.relative_to(folder).as_posix().startswith(".")
    }
