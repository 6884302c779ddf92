"""Small drawn shapes: the material of the recipes for pictures."""

from __future__ import annotations

import colorsys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

LABELS = ("bar", "disc", "ring", "wedge")


def draw_shapes(folder: Path, per_label: int = 40, paper: tuple[int, int, int, int] = (0, 0, 0, 0)) -> None:
    """Draw `<folder>/<label>/<label>NN.png`, the same pictures every time."""
    for number, label in enumerate(LABELS):
        (folder / label).mkdir(parents=True)
        for index in range(per_label):
            picture = draw_shape(label, np.random.default_rng([number, index]), paper)
            picture.save(folder / label / f"{label}{index:02d}.png")


def draw_shape(label: str, rng: np.random.Generator, paper: tuple[int, int, int, int]) -> Image.Image:
    picture = Image.new("RGBA", (32, 32), paper)
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
