"""Photographs and letters to shift, and how far apart two pictures are."""

from __future__ import annotations

from functools import cache

import numpy as np
from PIL import Image
from scipy.ndimage import uniform_filter
from sklearn.datasets import load_sample_image

from builders.albums.glyphs import GlyphAlbum
from builders.shifts.steps import OnGround


@cache
def photographs(side: int) -> tuple[Image.Image, ...]:
    """The two of scikit-learn, cut into 12 parts."""
    photos = [Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg")]
    corners = [(x, y) for y in (0, 220) for x in (0, 210, 420)]
    parts = [photo.crop((x, y, x + 200, y + 200)) for photo in photos for x, y in corners]
    return tuple(part.resize((side, side), Image.Resampling.LANCZOS) for part in parts)


@cache
def letters(side: int) -> tuple[Image.Image, ...]:
    """12 of several families of fonts, each in its own ink, on plain ground."""
    album, ground = GlyphAlbum(size=128, ink="drawn"), OnGround(size=128)
    made = [ground.compose(album.load(item)) for item in album.items()[50::1200]]
    return tuple(picture.resize((side, side), Image.Resampling.LANCZOS) for picture in made)


def floats(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture, dtype=np.float64)


def apart(first: Image.Image, second: Image.Image) -> float:
    """The mean absolute difference, of 255."""
    return float(np.abs(floats(first) - floats(second)).mean())


def unlike(first: Image.Image, second: Image.Image) -> float:
    """1 - SSIM of grey, over windows of 7 pixels."""
    a, b = floats(first.convert("L")), floats(second.convert("L"))
    mean_a, mean_b, both = uniform_filter(a, 7), uniform_filter(b, 7), uniform_filter(a * b, 7)
    spread = uniform_filter(a * a, 7) - mean_a**2 + uniform_filter(b * b, 7) - mean_b**2
    shape = (2 * (both - mean_a * mean_b) + 58.5) / (spread + 58.5)
    return float(1 - np.mean(shape * (2 * mean_a * mean_b + 6.5) / (mean_a**2 + mean_b**2 + 6.5)))
