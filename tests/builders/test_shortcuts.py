"""Shortcuts that are planted are named with a number; where none is, nothing is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter

from builders.cli.app import main
from builders.describe.renderings import describe
from builders.describe.shortcuts import warnings
from builders.make.build import build
from builders.make.check import check
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from shiftdata.stable import rng
from tests.tiny import edit_manifest

RECIPE = """
from pathlib import Path

from builders.albums.folder import FolderAlbum
from builders.encode import ImageEncoding
from builders.recipe import Base, Recipe
from builders.shifts.steps import CropSquare, Domains, OnGround

RECIPE = Recipe(
    name="planted",
    family="domain",
    version="1.0.0",
    released="2026-11-22",
    title="Planted",
    summary="Pictures with or without a shortcut.",
    creators=("me",),
    citation="me",
    album=FolderAlbum(
        Path({album!r}), license="CC0-1.0", attribution="me", layout=("domain", "label")
    ),
    nuisance="domain",
    prepare=({frame},),
    shift=Domains(names=("cliparts", "photos")),
    encoding=ImageEncoding(),
    bases=(Base(name="all", summary="Every picture."),),
    default_base="all",
)
"""
DOMAINS, LABELS, EACH = ("cliparts", "photos"), ("cat", "dog", "owl"), 36


def thing(domain: str, label: str, number: int) -> Image.Image:
    """A soft picture that shows nothing of domain and label."""
    coarse = rng("thing", domain, label, number).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((40, 30), Image.Resampling.BICUBIC)


def cut_out(picture: Image.Image) -> Image.Image:
    """What is soft and round of a picture, on nothing."""
    y, x = np.mgrid[-1:1:30j, -1:1:40j]
    alpha = Image.fromarray((255 * (x**2 + y**2 < 0.6)).astype(np.uint8)).filter(ImageFilter.BoxBlur(1))
    made = picture.convert("RGBA")
    made.putalpha(alpha)
    return made


Draw = Callable[[str, str, int], tuple[Image.Image, str]]


def clean(domain: str, label: str, number: int) -> tuple[Image.Image, str]:
    return thing(domain, label, number), ".png"


def transparent(domain: str, label: str, number: int) -> tuple[Image.Image, str]:
    picture = thing(domain, label, number)
    return (cut_out(picture), ".png") if domain == "cliparts" else (picture, ".jpg")


def marked(domain: str, label: str, number: int) -> tuple[Image.Image, str]:
    """One class has a small mark in a corner."""
    picture = thing(domain, label, number)
    if label == "owl":
        picture.paste((230, 20, 20), (34, 24, 40, 30))
    return picture, ".png"


def framed(domain: str, label: str, number: int) -> tuple[Image.Image, str]:
    """One domain has a dark line at the bottom, as some archives print their name."""
    picture = thing(domain, label, number)
    if domain == "photos":
        picture.paste((12, 12, 12), (0, 28, 40, 30))
    return picture, ".png"


def made(folder: Path, draw: Draw, frame: str, workers: int = 1) -> Path:
    for domain in DOMAINS:
        for label in LABELS:
            (folder / "album" / domain / label).mkdir(parents=True, exist_ok=True)
            for number in range(EACH):
                picture, ending = draw(domain, label, number)
                picture.save(folder / "album" / domain / label / f"{number:03}{ending}")
    (folder / "planted.py").write_text(RECIPE.format(album=str(folder / "album"), frame=frame))
    return build(str(folder / "planted.py"), folder / f"out-{workers}", workers=workers, quiet=True)


def numbers(folder: Path) -> dict[tuple[str, str], float]:
    shortcuts = Manifest.read(folder).shortcuts
    assert shortcuts is not None
    return {(trace.target, trace.name): trace.alone for trace in shortcuts.traces}


@pytest.mark.parametrize(
    ("draw", "frame", "shortcut", "said"),
    [
        (
            transparent,
            "OnGround(size=32)",
            ("nuisance", "3x3 corner"),
            "corner alone predicts the domain",
        ),
        (marked, "CropSquare(size=32)", ("label", "3x3 corner"), "'owl' against the rest"),
        (framed, "CropSquare(size=32)", ("nuisance", "border"), "the border alone predicts the domain"),
    ],
)
def test_a_planted_shortcut_is_named_with_its_number(tmp_path, draw, frame, shortcut, said):
    folder = made(tmp_path, draw, frame)
    assert numbers(folder)[shortcut] > 0.9
    lines = warnings(Manifest.read(folder))
    assert any(line.startswith("warning: ") and said in line for line in lines)
    assert all(one in (folder / "README.md").read_text() for one in lines)
    of_files = [line for line in lines if line.startswith("note: in the album's files")]
    assert bool(of_files) == (draw is transparent)


@pytest.mark.slow
def test_where_nothing_is_planted_nothing_is_said_and_edited_numbers_are_refused(tmp_path, capsys):
    folder = made(tmp_path, clean, "CropSquare(size=32)")
    assert warnings(Manifest.read(folder)) == []
    assert max(numbers(folder).values()) < 0.7

    def flatter(raw: dict[str, Any]) -> None:
        raw["shortcuts"]["traces"][0]["alone"] = 0.99

    recipe = load_recipe(str(tmp_path / "planted.py"))
    edit_manifest(folder, flatter)
    describe(folder, Manifest.read(folder))
    (problem,) = check(folder, recipe)
    assert "shortcuts other numbers" in problem.what
    assert main(["check", str(folder)]) == 1
    assert "warning: the border alone predicts the label" in capsys.readouterr().out


def test_a_made_shift_is_reported_without_a_warning(tiny):
    """A style lies over the whole picture, so that every trace of it shows the style."""
    manifest = Manifest.read(tiny)
    assert manifest.shortcuts is not None
    assert manifest.shortcuts.made
    assert numbers(tiny)["nuisance", "mean colour"] > 0.9
    assert warnings(manifest) == []
