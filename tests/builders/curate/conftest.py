"""A folder of style pictures that `styles get` wrote, and content of shapes to paint."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from builders.curate.getting import get
from tests.builders.curate.made import data_of, texture

STYLES = ("aurora", "dawn", "swamp", "waves")
EACH = 9


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("curated")
    for style in STYLES:
        (folder / "in" / style).mkdir(parents=True)
        for number in range(EACH):
            (folder / f"in/{style}/{number}.png").write_bytes(data_of(texture(style, number)))
    assert not get(folder / "in", folder / "out").refused
    return folder / "out"


@pytest.fixture
def out(made: Path, tmp_path) -> Path:
    shutil.copytree(made, tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture(scope="session")
def shapes(tmp_path_factory) -> Path:
    """Four classes of eight pictures: bars, discs, frames and wedges of several colours and places."""
    folder, draw = tmp_path_factory.mktemp("content") / "shapes", np.random.default_rng(0)
    for label in ("bar", "disc", "frame", "wedge"):
        (folder / label).mkdir(parents=True)
        for number in range(8):
            ground, ink = (tuple(draw.integers(low, low + 90, 3).tolist()) for low in (150, 10))
            picture = Image.new("RGB", (80, 80), ground)
            pen, x, y = ImageDraw.Draw(picture), *draw.integers(-6, 6, 2).tolist()
            if label == "bar":
                pen.rectangle((10 + x, 32 + y, 70 + x, 48 + y), ink)
            elif label == "disc":
                pen.ellipse((18 + x, 18 + y, 62 + x, 62 + y), ink)
            elif label == "frame":
                pen.rectangle((14 + x, 14 + y, 66 + x, 66 + y), outline=ink, width=9)
            else:
                pen.polygon(((14 + x, 66 + y), (66 + x, 66 + y), (14 + x, 12 + y)), ink)
            picture.save(folder / label / f"{number}.png")
    return folder
